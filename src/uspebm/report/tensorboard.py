"""TensorBoard's event files, from the logs of runs while they are written."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

from ..support.extras import need
from ..training import CheckpointError
from ..training.run_log import log_rows
from .run_files import LOG, is_run, runs_below

SECONDS_BETWEEN_LOOKS = 2.0
AT_THIS_MOMENT = (OSError, CheckpointError)
"""What reading a file leads to that is being replaced, or damaged, as the training will say."""


def check_tensorboard_extra() -> None:
    """An error in one line where TensorBoard is not installed."""
    need("tensorboard", "--tensorboard", "tensorboard")


@contextmanager
def events_of(folder: Path, events: Path) -> Iterator[None]:
    """While the work in it lasts, all runs in or below ``folder`` are followed into ``events``.

    Each run has a folder of its own there. A training knows nothing of it: what it logs is read
    again, and a kill loses what the next call writes anyway.
    """
    follower, end = _Follower(folder, events), Event()

    def follow() -> None:
        while not end.wait(SECONDS_BETWEEN_LOOKS):
            with suppress(*AT_THIS_MOMENT):
                follower.look()

    thread = Thread(target=follow, name="tensorboard", daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()
        with suppress(*AT_THIS_MOMENT):
            follower.look()
        follower.close()


class _Follower:
    """Knows of every log how much of it is written."""

    def __init__(self, folder: Path, events: Path) -> None:
        self._folder, self._events = folder, events
        self._writers: dict[Path, Any] = {}
        self._known = {run: (0.0, self._written(run)) for run in self._runs()}
        """When a log was last changed, and the last step of it that is written."""

    def look(self) -> None:
        """Write what is new."""
        for run in self._runs():
            log = run / LOG
            changed, last = self._known.get(run, (0.0, 0))
            if not log.exists() or log.stat().st_mtime == changed:
                continue
            changed = log.stat().st_mtime
            rows = [row for row in log_rows(log) if row["step"] > last]
            for row in rows:
                self._write(run, row)
            self._known[run] = changed, int(rows[-1]["step"]) if rows else last

    def _runs(self) -> list[Path]:
        return [self._folder] if is_run(self._folder) else runs_below(self._folder)

    def _written(self, run: Path) -> int:
        """Steps that an earlier call has written, of a run that goes on."""
        there = any(self._place(run).glob("events.*"))
        rows = log_rows(run / LOG) if there else []
        return int(rows[-1]["step"]) if rows else 0

    def _place(self, run: Path) -> Path:
        return self._events / run.name

    def _write(self, run: Path, row: dict[str, Any]) -> None:
        if run not in self._writers:
            kind = need("torch.utils.tensorboard", "--tensorboard", "tensorboard").SummaryWriter
            self._writers[run] = kind(str(self._place(run)))
        for name, value in row.items():
            if name != "step" and isinstance(value, int | float):
                self._writers[run].add_scalar(name, value, int(row["step"]))

    def close(self) -> None:
        """All of it is on disk then."""
        for writer in self._writers.values():
            writer.close()
