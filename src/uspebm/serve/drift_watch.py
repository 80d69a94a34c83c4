"""Whether what is asked for is still like the data, watched beside the work.

The monitor scores rows again, by and by: it may take a tenth of the time and no more, and under
load it sees a part of the rows. Which ones does not depend on what is in them, so the law of its
alarms holds.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from numpy.typing import NDArray

from ..detector.drift import DriftMonitor
from .served_model import ServedModel

SHARE_OF_TIME = 0.1
MOST_WATCHED = 256
"""Rows that are looked at in one go."""


class DriftWatch:
    """A monitor of one model, in a thread of its own.

    Arguments:
        model: To watch.
        false_alarm_rate: Of ever raising an alarm while nothing drifts.
    """

    def __init__(self, model: ServedModel, false_alarm_rate: float = 0.01) -> None:
        self._model = model
        self._monitor = DriftMonitor(model.detector, false_alarm_rate)
        self._thread = ThreadPoolExecutor(1, "drift")
        self._free_at = 0.0
        self.log10_capital, self.rows = 0.0, 0
        self.alarm_at: int | None = None

    def offer(self, model: ServedModel, X: NDArray[Any]) -> None:
        """Rows that ``model`` has scored: looked at if it is the one watched, and there is time."""
        if model is self._model and time.monotonic() >= self._free_at:
            self._free_at = float("inf")
            with suppress(RuntimeError):  # closed, since another model has come
                self._thread.submit(self._look, X[:MOST_WATCHED])

    def close(self) -> None:
        """Finish what was begun."""
        self._thread.shutdown()

    def _look(self, X: NDArray[Any]) -> None:
        began = time.monotonic()
        try:
            self._monitor.update(X)
            self.log10_capital = float(self._monitor.log10_capital)
            self.rows, self.alarm_at = self._monitor.rows, self._monitor.alarm_at
        finally:
            now = time.monotonic()
            self._free_at = now + (now - began) * (1 / SHARE_OF_TIME - 1)
