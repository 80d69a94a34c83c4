"""A run as its folder tells it: what was to be trained, the log so far, frames, going back."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from ..recipes.frames import Frame, read_frames
from ..support.reading import read_at_most, reading
from ..training.run_log import log_rows, whole_rows
from .diagnoses import LogRow

ABOUT_RUN, LOG = "run.json", "log.jsonl"
MOST_JSON = 1 << 26
"""Bytes of a file of results."""


class RunFiles(NamedTuple):
    """What there is of one run."""

    name: str
    about: dict[str, Any]
    """Recipe, seed and a fingerprint of the data."""
    rows: list[LogRow]
    frames: list[Frame]
    rollbacks: list[dict[str, float]]

    @property
    def updates(self) -> int:
        """That the recipe has."""
        return int(_part(self.about, "recipe", "schedule").get("updates", 0))

    @property
    def recipe(self) -> str:
        """What it is called."""
        return str(_part(self.about, "recipe").get("name", self.name))

    @property
    def seconds(self) -> float:
        """Of all updates so far."""
        return sum(float(row["seconds"]) for row in self.rows)


def is_run(folder: Path) -> bool:
    """Whether a training was begun in ``folder``."""
    return (folder / ABOUT_RUN).is_file()


def runs_below(folder: Path) -> list[Path]:
    """Folders of runs in ``folder``, and in folders there, in the order of their names."""
    found = [*folder.glob(f"*/{ABOUT_RUN}"), *folder.glob(f"*/*/{ABOUT_RUN}")]
    return sorted(path.parent for path in found)


def read_run(folder: Path) -> RunFiles:
    """What there is, whether or not the run goes on meanwhile."""
    return RunFiles(
        folder.name,
        read_object(folder / ABOUT_RUN),
        log_rows(folder / LOG),
        read_frames(folder / "frames"),
        whole_rows(folder / "rollbacks.jsonl"),
    )


def read_object(path: Path) -> dict[str, Any]:
    """A JSON object."""
    with reading(path):
        found = json.loads(read_at_most(path, MOST_JSON))
        if not isinstance(found, dict):
            raise ValueError("it holds no JSON object")
        return found


def _part(plain: dict[str, Any], *names: str) -> dict[str, Any]:
    """A part of a part, empty where it is not there or something else."""
    for name in names:
        found = plain.get(name)
        plain = found if isinstance(found, dict) else {}
    return plain
