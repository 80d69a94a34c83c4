"""What all kinds of data files are read through."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from ...support.checks import at_least
from ...support.reading import UnreadableError
from ..encoding import Encoding

Rows = NDArray[Any]

READ_ROWS = 65_536  # taken at a time where everything is wanted
READ_BYTES = 1 << 25  # and as many as these hold as float64, where memory should be bounded
GROWS_BY = 1 << 27  # bytes that an array grows by at most


class Source(ABC):
    """Rows of numbers, or images, read in chunks.

    ``event_shape`` is the shape of one row. ``columns`` are a table's, None for other kinds.
    ``rows`` is their number, None where only reading the file would tell.
    """

    path: Path
    event_shape: tuple[int, ...]
    columns: tuple[str, ...] | None = None
    rows: int | None = None
    encoding: Encoding | None = None
    """How a table's columns become numbers, where they are not taken as they are."""

    @final
    def chunks(self, size: int) -> Iterator[Rows]:
        """All rows in order, ``(size, *event_shape)`` at a time; the last chunk may be shorter."""
        at_least(1, size=size)
        return _regrouped(self._blocks(size), size)

    @final
    def read(self) -> Rows:
        """All rows, ``(N, *event_shape)``."""
        gathered = Gathered(self.rows)
        for block in self._blocks(at_a_time(self.event_shape, READ_ROWS)):
            gathered.add(block)
        if not gathered.count:
            raise UnreadableError(f"{self.path} has no rows")
        return gathered.array()

    @abstractmethod
    def _blocks(self, size: int) -> Iterator[Rows]:
        """All rows in order, in blocks as long as the format likes; about ``size`` is handy."""


class Gathered:
    """Blocks of rows as one array, which grows in its place: there is never a second copy of it.

    Arguments:
        expected: How many rows there will be, if that is known.
    """

    def __init__(self, expected: int | None = None) -> None:
        self.count = 0
        self._expected = expected
        self._held: Rows = np.empty(0)

    def add(self, block: Rows) -> None:
        """Rows to come after those that are there."""
        end = self.count + len(block)
        if not self.count:
            self._held = block
            if len(block) != self._expected:
                self._held = np.empty(
                    (max(self._expected or 0, end), *block.shape[1:]), block.dtype
                )
        elif end > len(self._held):
            row = self._held[0].nbytes
            more = max(end, len(self._held) + min(len(self._held) // 8, GROWS_BY // row))
            # Nobody else has seen it: array() comes last.
            self._held.resize((more, *block.shape[1:]), refcheck=False)
        if self._held is not block:
            self._held[self.count : end] = block
        self.count = end

    def keep(self, chosen: NDArray[np.intp]) -> None:
        """Only these rows, in ascending order."""
        moved = np.flatnonzero(chosen != np.arange(len(chosen)))
        step = at_a_time(self._held.shape[1:])
        for begin in range(moved[0] if len(moved) else len(chosen), len(chosen), step):
            part = chosen[begin : begin + step]
            self._held[begin : begin + len(part)] = self._held[part]
        self.count = len(chosen)

    def array(self) -> Rows:
        """All rows."""
        if len(self._held) > self.count:
            self._held.resize((self.count, *self._held.shape[1:]), refcheck=False)
        return self._held


def _regrouped(blocks: Iterable[Rows], size: int) -> Iterator[Rows]:
    parts: list[Rows] = []
    held = 0
    for block in blocks:
        begin = 0
        while held + len(block) - begin >= size:
            end = begin + size - held
            yield np.concatenate([*parts, block[begin:end]])
            parts, held, begin = [], 0, end
        parts.append(block[begin:])
        held += len(block) - begin
    if held:
        yield np.concatenate(parts)


def at_a_time(event_shape: tuple[int, ...], most: int = READ_ROWS) -> int:
    """How many rows of a shape to hold in memory: fewer of large images."""
    return max(1, min(most, READ_BYTES // (8 * math.prod(event_shape))))


def refuse_rows(path: Path, bad: NDArray[np.bool_], before: int, what: str, row: str) -> None:
    """An error that names the ``bad`` rows of a block, if any; ``before`` it come so many rows."""
    found = before + 1 + np.flatnonzero(bad)
    if not len(found):
        return
    where = f"{row} {found[0]}"
    if len(found) > 1:
        some = ", ".join(map(str, found[:3])) + (", …" if len(found) > 3 else "")
        where = f"at least {len(found)} {row}s: {some}"
    raise UnreadableError(
        f"{path}: {what} in {where} (counted from 1); fill in or leave out such {row.split()[-1]}s"
    )
