"""TensorBoard's event files, from the logs of runs while they are written."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import takewhile
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

Mark = tuple[int, float]
"""Of an update, its number and its seconds: made anew, it takes other ones."""


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


def _marks(rows: list[dict[str, Any]]) -> list[Mark]:
    return [(row["step"], row["seconds"]) for row in rows]


class _Follower:
    """Knows of every log which updates of it are written."""

    def __init__(self, folder: Path, events: Path) -> None:
        self._folder, self._events = folder, events
        self._writers: dict[Path, Any] = {}
        self._known = {run: (0.0, self._written(run)) for run in self._runs()}
        """When a log was last changed, and the updates of it that are written."""

    def look(self) -> None:
        """Write what is new; of a run that went back, also what it makes anew."""
        for run in self._runs():
            log = run / LOG
            changed, written = self._known.get(run, (0.0, []))
            if not log.exists() or log.stat().st_mtime == changed:
                continue
            changed = log.stat().st_mtime
            rows = log_rows(log)
            marks = _marks(rows)
            pairs = zip(written, marks, strict=False)
            same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
            if same < len(written):
                self._go_back(run, int(written[same][0]))
            for row in rows[same:]:
                self._write(run, row)
            self._known[run] = changed, marks

    def _runs(self) -> list[Path]:
        return [self._folder] if is_run(self._folder) else runs_below(self._folder)

    def _written(self, run: Path) -> list[Mark]:
        """What an earlier call has written, of a run that goes on."""
        there = any(self._place(run).glob("events.*"))
        return _marks(log_rows(run / LOG)) if there else []

    def _place(self, run: Path) -> Path:
        return self._events / run.name

    def _go_back(self, run: Path, step: int) -> None:
        """TensorBoard is to forget what was written from ``step`` on."""
        if run in self._writers:
            self._writers.pop(run).close()
        self._open(run, purge_step=step)

    def _open(self, run: Path, **options: int) -> None:
        kind = need("torch.utils.tensorboard", "--tensorboard", "tensorboard").SummaryWriter
        self._writers[run] = kind(str(self._place(run)), **options)

    def _write(self, run: Path, row: dict[str, Any]) -> None:
        if run not in self._writers:
            self._open(run)
        for name, value in row.items():
            if name != "step" and isinstance(value, int | float):
                self._writers[run].add_scalar(name, value, int(row["step"]))

    def close(self) -> None:
        """All of it is on disk then."""
        for writer in self._writers.values():
            writer.close()
