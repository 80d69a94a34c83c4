"""Timing several ways to do one thing so that their ratio can be trusted."""

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """Seconds per call: the median, and the quartiles around it."""

    median: float
    low: float
    high: float


def race(contestants: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, Timing]:
    """Time the contestants in turn, ``repeats`` times over, after one call each to warm up.

    A machine that is busy for a while slows all of them: ratios hold where seconds do not.
    """
    for call in contestants.values():
        call()
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(repeats):
        for name, call in contestants.items():
            started = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - started)
    return {name: _summary(values) for name, values in seconds.items()}


def _summary(seconds: list[float]) -> Timing:
    if len(seconds) == 1:
        return Timing(seconds[0], seconds[0], seconds[0])
    low, median, high = statistics.quantiles(seconds, n=4, method="inclusive")
    return Timing(median, low, high)
