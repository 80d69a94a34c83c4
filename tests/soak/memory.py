"""A long training, whose memory does not grow."""

import time
from dataclasses import replace
from multiprocessing.connection import Connection

import torch

from uspebm.recipes import Run
from uspebm.support.memory import resident_mebibytes

from .jobs import CROWDED, context, images, working_folder
from .report import Row, say

ALLOWED = 16.0
"""MiB that a training may grow by after its first tenth: what an allocator does not give back."""


class Soaking:
    """A training in a process of its own, beside whatever else is tried."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=_train, args=(seconds, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def row(self) -> Row:
        """Wait for its end."""
        try:
            first, most, updates, checkpoints = self._ours.recv()
        except EOFError:
            return Row("training for long", 1, 0, self._seconds, "it ended before its time")
        self._process.join()
        grown = most - first
        say(f"memory: {first:.0f} MiB after the first tenth, at most {most:.0f} MiB after it")
        note = (
            f"{updates:,} updates, {checkpoints:,} checkpoints: {first:.0f} MiB after a tenth, at "
            f"most {grown:+.1f} MiB after that (allowed: {ALLOWED:g})"
        )
        return Row("training for long", 1, int(grown <= ALLOWED), self._seconds, note)


def _train(seconds: float, pipe: Connection) -> None:
    torch.set_num_threads(1)
    # At a small rate: in so many updates so small a model would collapse, which is no matter here.
    still = replace(CROWDED.schedule, updates=10**9, snapshot_every=None, learning_rate=1e-6)
    endless = replace(CROWDED, schedule=still)
    started, looked, first, most, updates = time.monotonic(), 0.0, 0.0, 0.0, 0
    with working_folder() as root:
        for record in Run(endless, images(), root / "run", 0, show=False):
            updates = record.step
            passed = time.monotonic() - started
            if passed - looked < min(1.0, seconds / 100):
                continue
            looked = passed
            if passed < seconds / 10:
                first = max(first, resident_mebibytes())
            else:
                most = max(most, resident_mebibytes())
            if passed >= seconds:
                break
        pipe.send((first, most, updates, int(seconds // 20)))
