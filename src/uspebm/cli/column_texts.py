"""Columns of a file as they stand there, beside its rows that are scored.

Imports what is heavy: for functions that run, not for flags.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.readers import Shard, Source, texts
from ..data.readers.source import READ_ROWS


class ColumnTexts:
    """Columns of the next so many rows, as text.

    Arguments:
        path: A table.
        columns: Names; without any, all.
        source: What is scored of it. Of a shard, the rows before it are read and left.
    """

    def __init__(self, path: Path, columns: list[str], source: Source) -> None:
        self._blocks = texts(path, columns)
        self._held: dict[str, list[str]] = next(self._blocks)
        self.skip(source.begin if isinstance(source, Shard) else 0)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._held)

    def skip(self, rows: int) -> None:
        """Read so many rows, and leave them."""
        for begin in range(0, rows, READ_ROWS):
            self(min(READ_ROWS, rows - begin))

    def __call__(self, rows: int) -> dict[str, NDArray[Any]]:
        held = self._held
        while len(next(iter(held.values()))) < rows:
            for name, more in next(self._blocks).items():
                held[name] += more
        # Of one width for all, a single long text would take as much for each row.
        taken = {name: np.array(values[:rows], dtype=object) for name, values in held.items()}
        for values in held.values():
            del values[:rows]
        return taken
