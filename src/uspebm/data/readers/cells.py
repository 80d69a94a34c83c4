"""Columns of pyarrow's of any kind, as cells to be encoded: numbers, dates, or text."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ...support.reading import UnreadableError
from ..encoding import Cells, Encoding, Hints, learn_encoding
from .columns import arrow, quoted
from .source import Rows, refuse_rows

LEARNED_FROM = 20_000
"""Rows that tell what columns hold."""
Wish = Encoding | Hints | Literal["text"] | None
"""What is known of columns: all, what a user says, that they are text to be kept, or that they are
numbers without gaps."""


def type_to_read(name: str, inferred: Any, wish: Encoding | Hints) -> Any:
    """As what pyarrow should read a column of a text file in which it sees ``inferred``."""
    pa = arrow()
    kinds = {c.name: c.kind for c in wish.columns} if isinstance(wish, Encoding) else {}
    text = name in wish.categorical if isinstance(wish, Hints) else kinds.get(name) == "category"
    if text:
        return pa.string()
    moments = pa.types.is_timestamp(inferred)
    # Parts of a second may come in later rows; pyarrow sees them as nanoseconds, which end in 2262.
    unit = "ns" if moments and inferred.unit == "ns" else "us"
    if moments and inferred.tz is not None and kinds.get(name) != "number":
        return pa.timestamp(unit, inferred.tz)
    if kinds.get(name) == "date" or (not kinds and (moments or pa.types.is_date(inferred))):
        return pa.timestamp(unit)
    if pa.types.is_boolean(inferred):
        return pa.bool_()
    if kinds.get(name) in ("number", "truth"):
        return pa.float64()
    # Where the first block has no value at all, numbers are the likeliest to come.
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_null)
    numbers = any(test(inferred) for test in tests)
    return pa.float64() if numbers else pa.string()


def cells_of(path: Path, batch: Any, before: int, row: str) -> dict[str, Cells]:
    """The columns of a batch; ``before`` it come so many rows."""
    found = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        found[name] = _cells(column)
        if found[name].dtype.kind == "f":
            bad = np.isinf(found[name])
            refuse_rows(path, bad, before, f"infinity in column {quoted(name)}", row)
    return found


def _cells(column: Any) -> Cells:
    pa = arrow()
    kind = column.type
    if pa.types.is_boolean(kind) and not column.null_count:
        return np.asarray(column.to_numpy(zero_copy_only=False), np.bool_)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        naive = column.cast(pa.timestamp("s"), safe=False)
        return np.asarray(naive.to_numpy(zero_copy_only=False), "datetime64[s]")
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        # Beyond 2⁵³ whole numbers are rounded, as those of a text file are.
        floats = column.cast(pa.float64(), safe=False)
        return np.asarray(floats.to_numpy(zero_copy_only=False), np.float64)
    if pa.types.is_decimal(kind):
        return np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64)
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan)
    return np.array(column.cast(pa.string()).to_pylist(), dtype=object)


def texts_of(batch: Any) -> dict[str, list[str]]:
    """The columns of a batch as text, whatever they hold; a value that is missing is empty."""
    pairs = zip(batch.schema.names, batch.columns, strict=True)
    return {name: [text or "" for text in _as_text(column)] for name, column in pairs}


def _as_text(column: Any) -> list[str | None]:
    pa = arrow()
    try:
        found: list[str | None] = column.cast(pa.string()).to_pylist()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # bytes; lists and structs
        return [None if value is None else str(value) for value in column.to_pylist()]
    return found


def encoding_of(
    path: Path, blocks: Iterator[Mapping[str, Cells]], wish: Encoding | Hints
) -> Encoding:
    """What columns hold: what is known, or else by the first rows."""
    if isinstance(wish, Encoding):
        return wish
    parts: list[Mapping[str, Cells]] = []
    rows = 0
    for block in blocks:
        parts.append(block)
        rows += len(next(iter(block.values())))
        if rows >= LEARNED_FROM:
            break
    if not rows:
        raise UnreadableError(f"{path} has no rows")
    try:
        names = list(parts[0])
        encoding = learn_encoding(
            {name: np.concatenate([part[name] for part in parts]) for name in names}, wish
        )
    except ValueError as error:
        raise UnreadableError(f"{path}: {error}") from error
    if not encoding.used:
        said = "; ".join(f"{quoted(c.name)}: {c.said()}" for c in encoding.columns[:3])
        raise UnreadableError(f"{path} has no column that could be learned from ({said})")
    return encoding


def encoded(path: Path, encoding: Encoding, cells: Mapping[str, Cells]) -> Rows:
    """Rows of numbers."""
    try:
        return encoding.encode(cells)
    except ValueError as error:
        raise UnreadableError(f"{path}: {error}") from error
