"""What tables really hold, as numbers: text, truths, dates and gaps, by a rule that is kept.

==========  ==================================================================================
number      as it is
truth       0 or 1
category    text that repeats: for every value seen a number that is 1 or 0, and one for values
            never seen
date        sine and cosine of the time of day and of the day of the week (with a time zone: in
            UTC); not the date itself, by which all that is new would be strange
left out    text that hardly repeats, as names and remarks do, and whole numbers that count rows
==========  ==================================================================================

What is missing is NaN in each of its column's numbers. :class:`Hints` say where the guess is wrong.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from decimal import Decimal
from itertools import accumulate
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .cycles import CYCLES, cycles_of, moment_of, seconds_of
from .said_numbers import as_number, date_like, is_number, refuse_near_numbers

Cells = NDArray[Any]
"""One column: floats with NaN, datetime64 with NaT, or objects, text or None."""
Kind = Literal["number", "truth", "category", "date", "left out"]
KINDS: tuple[Kind, ...] = ("number", "truth", "category", "date", "left out")
MOST_LEVELS = 50
REPEATS = 4
"""Times that values of a category are there, in the mean, at least."""
COUNTED = 20
"""Rows from which on whole numbers that are all different, and dense, are no chance."""
SPARSE = 1.5
"""Times as many as there are rows, that numbers of rows may reach over: some rows are gone."""
NEVER_SEEN = "a value never seen"  # not "other", which may well be one of a column's values
SAME_TRUTHS = {"true": "1", "false": "0"}


@dataclass(frozen=True)
class Hints:
    """Of columns, by name, what nobody can guess."""

    categorical: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class EncodedColumn:
    """One column, what it is taken for, and why if that is not plain."""

    name: str
    kind: Kind
    levels: tuple[str, ...] = ()
    note: str = ""

    def __post_init__(self) -> None:
        texts = (self.name, self.note, *self.levels)
        if self.kind not in KINDS or not all(isinstance(text, str) for text in texts):
            raise ValueError(f"column {self.name!r} is of no known kind")

    @property
    def names(self) -> tuple[str, ...]:
        """Of its numbers."""
        if self.kind == "category":
            return (*(f"{self.name} = {level}" for level in self.levels), f"{self.name} = other")
        if self.kind == "date":
            return tuple(f"{self.name}, {f} of {c}" for c in CYCLES for f in ("sine", "cosine"))
        return () if self.kind == "left out" else (self.name,)

    def encode(self, cells: Cells) -> NDArray[np.float64]:
        """Its numbers, ``(N, len(names))``."""
        if self.kind == "category":
            return _one_hot(cells, self.levels)
        if self.kind == "date":
            return cycles_of(self.name, cells)
        try:
            return np.asarray(_floats(cells), np.float64)[:, None]
        except (TypeError, ValueError):
            bad = next((c for c in cells if c is not None and not is_number(str(c))), None)
            raise ValueError(f"column {self.name!r} holds {bad!r}, which is no number") from None

    def decode(self, numbers: NDArray[np.float64]) -> list[float | str | None]:
        """What its numbers ``(N, len(names))`` stand for; None for a gap.

        >>> EncodedColumn("a", "category", ("x", "y")).decode(np.eye(3))
        ['x', 'y', 'a value never seen']
        """
        rows: list[list[float]] = numbers.tolist()
        return [None if any(map(math.isnan, row)) else self._value(row) for row in rows]

    def _value(self, row: list[float]) -> float | str:
        if self.kind == "category":
            return (*self.levels, NEVER_SEEN)[row.index(max(row))]
        return moment_of(row) if self.kind == "date" else row[0]

    def said(self) -> str:
        """For a card."""
        what = {
            "number": "numbers, as they are",
            "truth": "0 or 1",
            "category": f"a category of {len(self.levels)} values",
            "date": "time of day and day of week",
            "left out": "left out",
        }[self.kind]
        return f"{what}: {self.note}" if self.note else what


@dataclass(frozen=True)
class Encoding:
    """How the columns of a table become numbers."""

    columns: tuple[EncodedColumn, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Of the numbers."""
        return tuple(name for column in self.columns for name in column.names)

    @property
    def columns_of(self) -> tuple[str, ...]:
        """The column that each of the numbers comes from."""
        return tuple(column.name for column in self.columns for _ in column.names)

    @property
    def parts(self) -> list[tuple[EncodedColumn, slice]]:
        """Columns that are needed, and which of the numbers are theirs."""
        ends = accumulate(len(column.names) for column in self.columns)
        pairs = zip(self.columns, ends, strict=True)
        return [(c, slice(end - len(c.names), end)) for c, end in pairs if c.names]

    @property
    def used(self) -> tuple[str, ...]:
        """Columns that are needed."""
        return tuple(column.name for column in self.columns if column.kind != "left out")

    @property
    def plain_numbers(self) -> bool:
        """Whether every column is a number as it is."""
        return all(column.kind == "number" for column in self.columns)

    def encode(self, cells: Mapping[str, Cells]) -> NDArray[np.float64]:
        """Rows of numbers, ``(N, len(names))``."""
        parts = [c.encode(cells[c.name]) for c in self.columns if c.kind != "left out"]
        if not parts:
            raise ValueError("no column is left that could be learned from")
        return np.concatenate(parts, axis=1)

    def as_plain(self) -> list[dict[str, Any]]:
        """For JSON."""
        return [asdict(column) for column in self.columns]

    @classmethod
    def of_numbers(cls, names: Iterable[str]) -> "Encoding":
        """Columns that are numbers as they are."""
        return cls(tuple(EncodedColumn(name, "number") for name in names))

    @classmethod
    def from_plain(cls, plain: Any) -> "Encoding":
        """From JSON, checked."""
        columns = [EncodedColumn(**{**one, "levels": tuple(one["levels"])}) for one in plain]
        return cls(tuple(columns))


def learn_encoding(cells: Mapping[str, Cells], hints: Hints | None = None) -> Encoding:
    """What the columns are taken for.

    >>> told = learn_encoding({"a": np.arange(8.0) ** 2, "b": np.array(["x", "y"] * 4, object)})
    >>> told.names
    ('a', 'b = x', 'b = y', 'b = other')
    """
    hints = hints or Hints()
    for name in (*hints.categorical, *hints.numeric, *hints.ids):
        if name not in cells:
            raise ValueError(f"there is no column {name!r}, but {', '.join(map(repr, cells))}")
    return Encoding(tuple(_column(name, values, hints) for name, values in cells.items()))


def _column(name: str, cells: Cells, hints: Hints) -> EncodedColumn:
    if name in hints.ids:
        return EncodedColumn(name, "left out", note="an id")
    if name in hints.categorical:
        return EncodedColumn(name, "category", _levels(_texts(cells)))
    if cells.dtype.kind == "M":
        return EncodedColumn(name, "date")
    if cells.dtype.kind == "b":
        return EncodedColumn(name, "truth")
    if cells.dtype != object:
        if name not in hints.numeric and _counts_rows(cells):
            return EncodedColumn(name, "left out", note="it counts the rows")
        return EncodedColumn(name, "number")
    if name in hints.numeric:
        return EncodedColumn(name, "number")
    if (note := date_like(cells)) is not None:
        return EncodedColumn(name, "left out", note=note)
    levels, known = _levels(_texts(cells)), sum(cell is not None for cell in cells)
    if len(levels) <= min(MOST_LEVELS, known / REPEATS):
        return EncodedColumn(name, "category", levels)
    refuse_near_numbers(name, cells)
    note = f"{len(levels):,} different texts in {known:,} rows"
    return EncodedColumn(name, "left out", note=note)


def _counts_rows(cells: Cells) -> bool:
    """Whether they are different whole numbers, in any order, that fill most of their range."""
    if len(cells) < COUNTED or not np.isfinite(cells).all() or (cells != np.round(cells)).any():
        return False
    different = np.unique(cells)
    return len(different) == len(cells) and different[-1] - different[0] < SPARSE * len(cells)


def _levels(texts: Sequence[Any] | Cells) -> tuple[str, ...]:
    """Values that are there, the most frequent first."""
    counts = Counter(text for text in texts if text is not None)
    return tuple(sorted(counts, key=lambda text: (-counts[text], text)))


def _texts(cells: Cells) -> list[str | None]:
    """One form for what is the same: 3 for 3.0 and "003", 1 for true, in files of any kind."""
    if cells.dtype == object:
        return [None if cell is None else _same(str(cell)) for cell in cells]
    if cells.dtype.kind == "M":
        return [None if np.isnat(cell) else str(cell) for cell in cells]
    return [None if math.isnan(cell) else f"{cell:.17g}" for cell in cells.astype(np.float64)]


def _same(text: str) -> str:
    if text.lower() in SAME_TRUTHS:
        return SAME_TRUTHS[text.lower()]
    try:
        value = as_number(text)
    except ValueError:
        return text
    return f"{value:.17g}" if math.isfinite(value) else text


def _floats(cells: Cells) -> Cells:
    if cells.dtype != object:
        return cells
    return np.array([math.nan if cell is None else as_number(str(cell)) for cell in cells])


def _one_hot(cells: Cells, levels: tuple[str, ...]) -> NDArray[np.float64]:
    place: dict[str | None, int] = {level: k for k, level in enumerate(levels)}
    texts = _texts(cells)
    found = np.zeros((len(texts), len(levels) + 1))
    found[np.arange(len(texts)), [place.get(text, len(levels)) for text in texts]] = 1.0
    found[[text is None for text in texts]] = np.nan
    return found


def cells_of_frame(frame: Any) -> dict[str, Cells]:
    """The columns of a pandas DataFrame."""
    names = [str(name) for name in frame.columns]
    if twice := [name for name, times in Counter(names).items() if times > 1]:
        raise ValueError(f"X has more than one column called {twice[0]!r}: rename them")
    return {name: _cells(frame.iloc[:, k]) for k, name in enumerate(names)}


def _cells(column: Any) -> Cells:
    if getattr(column.dtype, "tz", None) is not None:
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    values = column.to_numpy()
    named = str(column.dtype) == "category"  # what pandas calls so is one, whatever its values are
    if not named and values.dtype.kind == "M":
        return np.asarray(values, "datetime64[s]")
    if not named and values.dtype.kind in "biuf":
        return np.asarray(values, np.bool_ if values.dtype.kind == "b" else np.float64)
    missing = np.asarray(column.isna())
    cells = [None if gone else value for value, gone in zip(values, missing, strict=True)]
    kinds = set() if named else {type(cell) for cell in cells if cell is not None}
    if kinds and all(issubclass(k, int | float | np.number | np.bool_ | Decimal) for k in kinds):
        return np.array([math.nan if cell is None else float(cell) for cell in cells])
    if kinds and all(issubclass(kind, date) for kind in kinds):
        return seconds_of(cells)
    return np.array([None if cell is None else str(cell) for cell in cells], dtype=object)


def odd_columns(X: Any) -> list[int]:
    """Which columns of a DataFrame are of types that are no numbers; none of anything else."""
    if not hasattr(X, "columns") or not hasattr(X, "iloc"):
        return []
    return [k for k, kind in enumerate(X.dtypes) if getattr(kind, "kind", "O") not in "iufb"]


def is_mixed_frame(X: Any) -> bool:
    """Whether X is a DataFrame with columns that are no numbers, or only count the rows."""
    if not hasattr(X, "columns") or not hasattr(X, "iloc") or odd_columns(X):
        return bool(odd_columns(X))
    whole = [k for k, kind in enumerate(X.dtypes) if kind.kind in "iu"]
    return any(_counts_rows(_cells(X.iloc[:, k])) for k in whole)
