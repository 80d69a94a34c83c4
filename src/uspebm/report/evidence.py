"""What only the command that did the work knows, kept beside its results: ``evidence.json``.

The command, how long it took, and for some of them what was looked at: rows, images, scores. With
it, a page can be made again from the folder alone. It may hold rows or images of the user's.
"""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import __version__
from ..detector.folder import EVIDENCE
from ..support.files import whole_file
from ..support.reading import UnreadableError, reading
from .html import plain_numbers
from .run_files import read_object

FARTHEST_SCORE = -1e300
"""In place of minus infinity, which JSON has not."""


class Evidence(NamedTuple):
    """Of one command."""

    command: tuple[str, ...]
    seconds: float
    looked_at: dict[str, Any] = {}  # noqa: RUF012  nobody changes it
    version: str = __version__
    date: str = ""

    @property
    def facts(self) -> tuple[tuple[str, str], ...]:
        """For a page."""
        return (("made", f"{self.date}, by uspebm {self.version}"),)


def keep_evidence(folder: Path, evidence: Evidence) -> None:
    """Write it, whole or not at all."""
    dated = evidence._replace(date=datetime.now(UTC).date().isoformat())
    content = json.dumps(plain_numbers(dated._asdict()), allow_nan=False).encode()
    with whole_file(folder / EVIDENCE) as file:
        file.write(content)


def evidence_in(folder: Path) -> Evidence | None:
    """What was kept in ``folder``; None where nothing was."""
    path = folder / EVIDENCE
    if not path.is_file():
        return None
    found = read_object(path)
    with reading(path):
        kept = Evidence(**found)
        texts = (kept.version, kept.date, *kept.command)
        if not (all(isinstance(text, str) for text in texts) and isinstance(kept.looked_at, dict)):
            raise UnreadableError(f"{path} is not what uspebm wrote: remove it")
        return kept._replace(command=tuple(kept.command), seconds=float(kept.seconds))


def quantiles(scores: NDArray[np.float64], most: int = 1001) -> list[float]:
    """Scores in ascending order; of many, evenly spaced ones, the first and last among them.

    What scores minus infinity is an outlier, and stays one as a number.
    """
    ordered = np.sort(np.maximum(scores, FARTHEST_SCORE))
    if len(ordered) > most:
        ordered = ordered[np.linspace(0, len(ordered) - 1, most).round().astype(int)]
    return [float(score) for score in ordered]
