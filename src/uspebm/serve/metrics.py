"""What Prometheus is told."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from .drift_watch import DriftWatch
from .served_model import ServedModel

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096)
SCORE_SHARES = (0.0, 0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0)
"""Of the calibration points, those below a bucket's end."""


class ScoreCounts(Collector):
    """A histogram of scores, counted by the array; its buckets are quantiles of normal data."""

    def __init__(self, calibration: NDArray[np.float64]) -> None:
        self._ends = np.unique(np.quantile(calibration, SCORE_SHARES))
        self._counts = np.zeros(len(self._ends) + 1, np.int64)
        self._sum = 0.0

    def add(self, scores: NDArray[np.float64]) -> None:
        """Count these."""
        places = np.searchsorted(self._ends, scores, side="left")
        self._counts += np.bincount(places, minlength=len(self._counts))
        self._sum += float(scores[np.isfinite(scores)].sum())

    def collect(self) -> Iterable[Metric]:
        """For Prometheus; scores of minus infinity are in the lowest bucket, and not in the sum."""
        upto = np.cumsum(self._counts).tolist()
        ends = [*map(repr, self._ends.tolist()), "+Inf"]
        yield HistogramMetricFamily(
            "uspebm_score",
            "Scores given; the buckets end at quantiles of the calibration scores.",
            buckets=list(zip(ends, upto, strict=True)),
            sum_value=self._sum,
        )


class Metrics:
    """Counts of one service, in a registry of its own.

    Arguments:
        model: Whose calibration scores make the buckets; they stay when it is replaced.
    """

    def __init__(self, model: ServedModel) -> None:
        self.registry = CollectorRegistry()
        on = self.registry
        self.requests = Counter(
            "uspebm_requests", "Requests answered.", ["path", "status"], registry=on
        )
        self.seconds = Histogram(
            "uspebm_request_seconds", "Time to answer.", ["path"], buckets=SECONDS, registry=on
        )
        self.at_work = Gauge("uspebm_requests_at_work", "Requests being answered.", registry=on)
        self.rows = Counter("uspebm_rows", "Rows scored.", registry=on)
        self.alarms = Counter("uspebm_alarms", "Rows called outliers.", registry=on)
        self.batch = Histogram(
            "uspebm_batch_rows", "Rows scored in one call.", buckets=BATCHES, registry=on
        )
        self.reloads = Counter("uspebm_reloads", "Readings of the model.", ["ok"], registry=on)
        self._capital = Gauge(
            "uspebm_drift_log10_capital",
            "Logarithm of the test martingale: grows where rows are no longer like the data.",
            registry=on,
        )
        self._watched = Gauge("uspebm_drift_rows", "Rows that the drift monitor saw.", registry=on)
        self._alarm = Gauge("uspebm_drift_alarm", "1 after an alarm, otherwise 0.", registry=on)
        self.scores = ScoreCounts(model.detector.calibration_scores_)
        self.registry.register(self.scores)
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)

    def text(self, drift: DriftWatch) -> bytes:
        """All of it, in Prometheus' format."""
        self._capital.set(drift.log10_capital)
        self._watched.set(drift.rows)
        self._alarm.set(drift.alarm_at is not None)
        return generate_latest(self.registry)
