"""Runs below a folder of results: whether one was interrupted, and what only resuming needs."""

import shutil
from pathlib import Path

from ..training.checkpoint import checkpoints


def unfinished(folder: Path) -> bool:
    """Whether a run below ``folder`` was interrupted."""
    return any(checkpoints(sub) for sub in folder.glob("*/"))


def drop_checkpoints(folder: Path) -> None:
    """Remove the checkpoints of the runs below ``folder``, and nothing else."""
    for sub in folder.glob("*/"):
        for path in checkpoints(sub):
            path.unlink()


def drop_run(folder: Path) -> None:
    """Remove the whole run in ``folder``, if there is one."""
    if (folder / "run.json").exists():
        shutil.rmtree(folder)
