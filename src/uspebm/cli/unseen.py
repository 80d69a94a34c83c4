"""Values of categories that the data did not have, in the words of the file.

Imports what is heavy: for functions that run, not for flags.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.encoding import NEVER_SEEN
from ..data.readers import Source, is_table
from ..data.readers.columns import quoted
from ..detector.energy_detector import EnergyDetector
from .column_texts import ColumnTexts


class Unseen:
    """What a file says where a category has a value that the data did not have.

    To a model all of these are one number. Where there are some, the file is read a second time.

    Arguments:
        detector: Whose categories they are.
        path: Where the rows are from.
        source: What is scored of it.
    """

    def __init__(self, detector: EnergyDetector, path: Path, source: Source) -> None:
        categories = [(c, g) for c, g in detector.columns().parts if c.kind == "category"]
        # A file of numbers, as encoded by others, has no words.
        self._at = {c.name: g.stop - 1 for c, g in categories} if is_table(path) else {}
        self._path, self._source = path, source
        self._texts: ColumnTexts | None = None
        self._behind = 0

    def __call__(self, rows: NDArray[Any], where: NDArray[np.intp]) -> dict[tuple[int, str], str]:
        """Of the next ``rows``, those at ``where``: what to say, by place there and column."""
        found = [
            (int(k), name)
            for name, at in self._at.items()
            for k in np.flatnonzero(rows[where, at] == 1)
        ]
        self._behind += len(rows)
        if not found:
            return {}
        if self._texts is None:
            self._texts = ColumnTexts(self._path, list(self._at), self._source)
        self._texts.skip(self._behind - len(rows))
        self._behind, cells = 0, self._texts(len(rows))
        return {(k, name): said_unseen(cells[name][where[k]]) for k, name in found}


def said_unseen(text: str) -> str:
    r"""In quotes, with nothing left that a terminal might obey; shortened if it is long.

    >>> print(said_unseen("mauve\x1b[2J"))
    'mauve\x1b[2J', a value never seen
    """
    return f"{quoted(text)}, {NEVER_SEEN}"
