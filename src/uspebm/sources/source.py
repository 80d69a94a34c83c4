"""What all kinds of data files are read through."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from ..checks import at_least

Rows = NDArray[Any]

READ_ROWS = 65_536  # taken at a time where everything is wanted
READ_BYTES = 1 << 25  # and as many as these hold as float64, where memory should be bounded


class Source(ABC):
    """Rows of numbers, or images, read in chunks.

    ``event_shape`` is the shape of one row. ``columns`` are a table's, None for other kinds.
    ``rows`` is their number, None where only reading the file would tell.
    """

    path: Path
    event_shape: tuple[int, ...]
    columns: tuple[str, ...] | None = None
    rows: int | None = None

    @final
    def chunks(self, size: int) -> Iterator[Rows]:
        """All rows in order, ``(size, *event_shape)`` at a time; the last chunk may be shorter."""
        at_least(1, size=size)
        return _regrouped(self._blocks(size), size)

    @final
    def read(self) -> Rows:
        """All rows, ``(N, *event_shape)``."""
        return np.concatenate(list(self.chunks(READ_ROWS)))

    @abstractmethod
    def _blocks(self, size: int) -> Iterator[Rows]:
        """All rows in order, in blocks as long as the format likes; about ``size`` is handy."""


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
    raise ValueError(f"{path}: {what} in {where} (counted from 1); fill in or leave out such rows")


def one_line(error: BaseException) -> str:
    """An error's message without its line breaks."""
    return " ".join(str(error).split()) or type(error).__name__
