"""What a model takes, as OpenAPI says it: known only when the model is."""

import copy
from typing import Any

from .decoding import kinds_of
from .json_rows import LARGEST_NUMBER, LONGEST_TEXT
from .limits import Limits
from .served_model import ServedModel
from .shown import ShownColumn

NUMBER = {"type": "number", "minimum": -LARGEST_NUMBER, "maximum": LARGEST_NUMBER}
PIXEL_REACH = 20
"""As far from zero as scaled pixels of a model of bytes may be."""


def described_for(model: ServedModel, limits: Limits, plain: dict[str, Any]) -> dict[str, Any]:
    """The document ``plain``, with what /score takes of this model."""
    said = copy.deepcopy(plain)
    score = said["paths"]["/score"]["post"]
    score["requestBody"] = _bodies(model, limits)
    for parameter in score["parameters"]:
        if parameter["name"] == "false_alarm_rate":
            least = 1 / (model.info["calibration"]["points"] + 1)
            parameter["schema"] = {"type": "number", "minimum": least, "exclusiveMaximum": 1}
        if parameter["name"] == "why" and not model.explains:
            parameter["schema"]["maximum"] = 0
    return said


def _bodies(model: ServedModel, limits: Limits) -> dict[str, Any]:
    """By content type."""
    binary = {"schema": {"type": "string", "format": "binary"}}
    content: dict[str, Any] = dict.fromkeys(kinds_of(model), binary)
    kinds = [
        {"type": "array", "minItems": 1, "items": row}
        for row in (_images(model) if model.of_images else [_row(model)])
    ]
    rows = {"anyOf": kinds, "description": f"At most {limits.rows:,} at once."}
    content["application/json"] = {
        "schema": {
            "type": "object",
            "required": ["rows"],
            "additionalProperties": False,
            "properties": {"rows": rows},
        }
    }
    return {"required": True, "content": content}


def _row(model: ServedModel) -> dict[str, Any]:
    gaps = model.info["gaps"]
    cells = [_cell(column, gaps) for column in model.columns_taken]
    names = [column.name for column in model.columns_taken]
    in_order = {
        "type": "array",
        "prefixItems": cells,
        "minItems": len(cells),
        "maxItems": len(cells),
    }
    by_name = {
        "type": "object",
        "required": names,
        "properties": dict(zip(names, cells, strict=True)),
    }
    return {"anyOf": [in_order, by_name]}


def _cell(column: ShownColumn, gaps: bool) -> dict[str, Any]:
    said: dict[str, Any] = dict(NUMBER)
    if column.kind == "category":
        kinds = ["string", "number", "boolean"]
        said = {"type": kinds, "maxLength": LONGEST_TEXT, "examples": list(column.levels[:3])}
    elif column.kind == "date":
        said = {"type": "string", "format": "date-time"}
    elif column.kind == "truth":
        said["type"] = ["boolean", "number"]
    return {"anyOf": [said, {"type": "null"}]} if gaps else said


def _images(model: ServedModel) -> list[dict[str, Any]]:
    """All of a request are of one of these kinds."""
    if not model.detector.of_bytes_:
        return [_pixels(model, NUMBER)]
    scaled = {"type": "number", "minimum": -PIXEL_REACH, "maximum": PIXEL_REACH}
    of_bytes = {"type": "integer", "minimum": 0, "maximum": 255}
    return [_pixels(model, of_bytes), _pixels(model, scaled)]


def _pixels(model: ServedModel, said: dict[str, Any]) -> dict[str, Any]:
    channels, height, width = model.event_shape
    for length in (channels, width, height) if channels > 1 else (width, height):
        said = {"type": "array", "minItems": length, "maxItems": length, "items": said}
    return said
