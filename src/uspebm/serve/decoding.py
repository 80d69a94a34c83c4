"""The body of a request to rows, by its content type: the formats that the commands read."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ..data.points import described
from ..data.readers import open_source
from ..data.readers.images import form_of, read_image
from ..data.readers.layouts import npy_content
from ..data.readers.source import Gathered
from ..support.extras import MissingExtraError
from ..support.reading import UnreadableError
from .json_rows import rows_of_json
from .limits import Limits, RefusedRequestError, too_many_rows
from .served_model import ServedModel

Decoder = Callable[[ServedModel, bytes, Limits], NDArray[Any]]
NAMED = "the body"
DECODED_ROWS = 4096
SMALL = 1 << 16
"""Bytes of a body that is decoded in a moment, where the loop need not be spared."""


def decoded(model: ServedModel, kind: str, body: bytes, limits: Limits) -> NDArray[Any]:
    """What was sent, as an array that a detector takes; a refusal where it is none."""
    decode = decoder_of(kind)
    try:
        found = decode(model, body, limits)
    except UnreadableError as error:
        raise RefusedRequestError(400, str(error)) from error
    except MissingExtraError as error:
        raise RefusedRequestError(501, f"the service lacks a package: {error}") from error
    if found.ndim and len(found) > limits.rows:
        raise too_many_rows(limits, model.of_images)
    return found


def decoder_of(kind: str) -> Decoder:
    """By content type, parameters aside."""
    decode = DECODERS.get(kind.partition(";")[0].strip().lower())
    if decode is None:
        raise RefusedRequestError(
            415, f"content type {kind[:100]!r} is not read: send one of {', '.join(DECODERS)}"
        )
    return decode


def kinds_of(model: ServedModel) -> list[str]:
    """Content types that say something to a model."""
    other = ("text/", "application/vnd.") if model.of_images else "image/"
    return [kind for kind in DECODERS if not kind.startswith(other)]


def is_quick(kind: str, body: bytes) -> bool:
    """Whether decoding needs no thread of its own."""
    return len(body) <= SMALL and decoder_of(kind) in (rows_of_json, _npy)


def _npy(model: ServedModel, body: bytes, limits: Limits) -> NDArray[Any]:
    found = npy_content(body, Path(NAMED))
    if found.ndim < 2 or not found.size:
        raise RefusedRequestError(
            422, f"the array has shape {found.shape}; rows and columns are needed, or images"
        )
    return found


def _in_file(ending: str, read: Callable[[ServedModel, Path, Limits], NDArray[Any]]) -> Decoder:
    """``read``, which is given a path, and errors that do not show it."""

    def decode(model: ServedModel, body: bytes, limits: Limits) -> NDArray[Any]:
        with tempfile.TemporaryDirectory(prefix="uspebm-") as folder:
            path = Path(folder) / f"body{ending}"
            path.write_bytes(body)
            try:
                return read(model, path, limits)
            except UnreadableError as error:
                raise UnreadableError(str(error).replace(str(path), NAMED)) from error
            except ValueError as error:
                if isinstance(error, MissingExtraError):
                    raise
                raise RefusedRequestError(422, str(error).replace(str(path), NAMED)) from error

    return decode


def _table(model: ServedModel, path: Path, limits: Limits) -> NDArray[Any]:
    if model.of_images:
        raise ValueError(f"the model is of images of {described(model.event_shape)}, not of tables")
    if not path.stat().st_size:
        raise UnreadableError(f"{path} is empty")
    columns, wish = model.columns_and_wish
    source = open_source(path, columns, wish=wish)
    if source.event_shape != model.event_shape:
        raise ValueError(
            f"{path} has points of {described(source.event_shape)}, but the model is of points of "
            f"{described(model.event_shape)}"
        )
    if (source.rows or 0) > limits.rows:
        raise too_many_rows(limits, model.of_images)
    gathered = Gathered(source.rows)
    for chunk in source.chunks(min(DECODED_ROWS, limits.rows + 1)):
        gathered.add(chunk)
        if gathered.count > limits.rows:
            raise too_many_rows(limits, model.of_images)
    if not gathered.count:
        raise UnreadableError(f"{path} has no rows")
    return gathered.array()


def _image(model: ServedModel, path: Path, limits: Limits) -> NDArray[Any]:
    if not model.of_images:
        raise ValueError("the model is of tables, not of images")
    height, width = form_of(path).size
    if height * width > limits.pixels:
        raise RefusedRequestError(
            413, f"the image has {height * width:,} pixels, more than {limits.pixels:,}"
        )
    size = (model.event_shape[1], model.event_shape[2])
    image, _ = read_image(path, size if model.detector.resized_ else None)
    return image[None]


DECODERS: dict[str, Decoder] = {
    "application/json": rows_of_json,
    "application/x-npy": _npy,
    "text/csv": _in_file(".csv", _table),
    "text/tab-separated-values": _in_file(".tsv", _table),
    "application/vnd.apache.parquet": _in_file(".parquet", _table),
    "image/png": _in_file(".png", _image),
    "image/jpeg": _in_file(".jpg", _image),
    "image/bmp": _in_file(".bmp", _image),
    "image/tiff": _in_file(".tiff", _image),
    "image/webp": _in_file(".webp", _image),
}
