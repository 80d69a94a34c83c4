"""What is scored is watched for drift, in a part of the time."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from uspebm.serve import drift_watch
from uspebm.serve.drift_watch import MOST_WATCHED, SHARE_OF_TIME, DriftWatch
from uspebm.serve.service import Service

from .common import TABLE, npy, post, serving


class Monitor:
    """Counts rows, and raises an alarm at the tenth."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.rows, self.log10_capital = 0, 0.0
        self.alarm_at: int | None = None

    def update(self, X: NDArray[Any]) -> None:
        time.sleep(self.seconds)
        self.rows += len(X)
        self.log10_capital = self.rows / 5
        if self.rows >= 10 and self.alarm_at is None:
            self.alarm_at = 10


@pytest.fixture
def watched_by(monkeypatch: pytest.MonkeyPatch) -> Callable[[Monitor], None]:
    return lambda monitor: monkeypatch.setattr(drift_watch, "DriftMonitor", lambda *_: monitor)


def test_metrics_tell_of_drift(served: Path, watched_by: Callable[[Monitor], None]) -> None:
    watched_by(Monitor())
    with serving(served / "named") as client:
        post(client, npy(TABLE[:12]))
        deadline = time.monotonic() + 10
        while "uspebm_drift_rows 12.0" not in (text := client.get("/metrics").text):
            assert time.monotonic() < deadline
    assert "uspebm_drift_log10_capital 2.4" in text
    assert "uspebm_drift_alarm 1.0" in text


def test_rows_of_another_kind_raise_an_alarm(served: Path) -> None:
    """The real monitor; the control: rows like the data raise none."""
    like = np.random.default_rng(1).normal(size=(200, 3)) * [1.0, 1e4, 1e-3]
    shift = np.array([3.0, 3e4, 3e-3])
    for rows, alarm in ((like, 0.0), (like + shift, 1.0)):
        with serving(served / "named") as client:
            post(client, npy(rows))
            deadline = time.monotonic() + 20
            while "uspebm_drift_rows 200.0" not in (text := client.get("/metrics").text):
                assert time.monotonic() < deadline
        assert f"uspebm_drift_alarm {alarm}" in text


def test_it_takes_its_share_of_the_time(
    served: Path, watched_by: Callable[[Monitor], None]
) -> None:
    """Whoever offers rows all the time has them looked at for a tenth of it."""
    monitor = Monitor(seconds=0.02)
    watched_by(monitor)
    service = Service(served / "named")
    watch = DriftWatch(service.model)
    began = time.monotonic()
    while time.monotonic() - began < 1.0:
        watch.offer(service.model, np.zeros((2 * MOST_WATCHED, 3)))
        time.sleep(0.001)
    watch.close()
    service.close()
    looks = monitor.rows / MOST_WATCHED
    assert 1 <= looks <= 1 + 1.0 * SHARE_OF_TIME / monitor.seconds
