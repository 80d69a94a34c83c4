"""Rows in JSON: lists in the model's order, or objects by the columns' names."""

import json
import math
from datetime import UTC, datetime
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ..data.encoding import EncodedColumn, Encoding
from ..support.words import point_word
from .limits import Limits, RefusedRequestError, too_many_rows
from .served_model import ServedModel

FORM = 'give {"rows": [...]}, each row a list of values or an object by column'
IMAGE_FORM = 'give {"rows": [...]}, each an image: a list of lists of numbers'
LARGEST_NUMBER = 1e308
"""JSON has larger ones, and computers have not."""
LONGEST_TEXT = 10_000
"""Characters of a cell."""


def rows_of_json(model: ServedModel, body: bytes, limits: Limits) -> NDArray[Any]:
    """Rows ``(N, d)`` of a table as numbers, or images as they are."""
    form = IMAGE_FORM if model.of_images else FORM
    try:
        said = json.loads(body, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        what = "lists within lists without end" if isinstance(error, RecursionError) else str(error)
        raise RefusedRequestError(400, f"the body is no JSON ({what}): {form}") from None
    if not isinstance(said, dict) or set(said) != {"rows"} or not isinstance(said["rows"], list):
        raise RefusedRequestError(400, f"the body is JSON of another form: {form}")
    rows = said["rows"]
    if not rows:
        raise RefusedRequestError(400, f"there are no {point_word(model.of_images)}s: {form}")
    if len(rows) > limits.rows:
        raise too_many_rows(limits, model.of_images)
    if not model.of_images:
        return _table(model, rows)
    # numpy would take them for 1 and 0; an image has no other place for such words.
    return _images(rows, words=b"true" in body or b"false" in body)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no value; null stands for a gap")


def _images(rows: list[Any], words: bool) -> NDArray[Any]:
    try:
        array = np.array(rows)
    except ValueError:
        array = np.array(None)
    if words or array.dtype.kind not in "iuf":
        raise RefusedRequestError(
            422, "images in JSON are lists of lists of numbers, all of one size"
        )
    # No bytes: floats that happen to be whole, as JSON writes −1.0.
    return array.astype(np.float64) if array.size and array.min() < 0 else array


def _table(model: ServedModel, rows: list[Any]) -> NDArray[np.float64]:
    columns = [EncodedColumn(c.name, c.kind, c.levels) for c in model.columns_taken]  # type: ignore[arg-type]
    names = [column.name for column in columns]
    filled = [_cells(row, names, k + 1) for k, row in enumerate(rows)]
    cells = {
        column.name: _column(column, [row[k] for row in filled]) for k, column in enumerate(columns)
    }
    return Encoding(tuple(columns)).encode(cells)


def _cells(row: Any, names: list[str], number: int) -> list[Any]:
    """Of one row, in the order of ``names``."""
    if isinstance(row, dict):
        if missing := [name for name in names if name not in row]:
            raise RefusedRequestError(
                422, f"row {number} has no column {missing[0]!r}; null stands for a gap"
            )
        row = [row[name] for name in names]
    if not isinstance(row, list):
        raise RefusedRequestError(422, f"row {number} is neither a list nor an object: {FORM}")
    if len(row) != len(names):
        raise RefusedRequestError(
            422, f"row {number} has {len(row)} values; there are {len(names)} columns"
        )
    return row


def _column(column: EncodedColumn, values: list[Any]) -> NDArray[Any]:
    read = {"category": _text, "date": _moment, "truth": _truth}.get(column.kind, _number)
    found = []
    for k, value in enumerate(values):
        try:
            found.append(None if value is None else read(value))
        except (ValueError, TypeError, OverflowError):
            what = {
                "category": "text",
                "date": "a date such as 2024-05-31T14:30",
                "truth": "true or false",
            }
            shown = json.dumps(value)[:50]
            raise RefusedRequestError(
                422,
                f"row {k + 1}, column {column.name!r}: {shown} is not "
                f"{what.get(column.kind, 'a number')}",
            ) from None
    if column.kind == "category":
        return np.array(found, dtype=object)
    if column.kind == "date":
        return np.array([value or "NaT" for value in found], "datetime64[s]")
    return np.array([math.nan if value is None else value for value in found], np.float64)


def _truth(value: Any) -> float:
    return float(value) if isinstance(value, bool) else _number(value)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    if not abs(found := float(value)) <= LARGEST_NUMBER:
        raise ValueError
    return found


def _text(value: Any) -> str:
    if isinstance(value, list | dict) or len(text := str(value)) > LONGEST_TEXT:
        raise TypeError
    return text


def _moment(value: Any) -> str:
    """Without its time zone, in UTC: as dates are encoded."""
    found = datetime.fromisoformat(value)
    if found.tzinfo is not None:
        found = found.astimezone(UTC).replace(tzinfo=None)
    return found.isoformat(timespec="seconds")
