"""What is promised of decisions, simulated: alarms, confidence, discoveries, reasons, drift.

Everything is drawn anew for each of many fits, so that the law over calibration sets shows, on
continuous data and on rounded ones, of which most values are there many times. A rate is kept if
its mean over fits is at most what is stated, but for two standard errors. Folds are not exact, and
rows that repeat are kept together: there, alarms may be rarer.

Presets (one thread):
    PAPER  200 fits, 1,000 streams, a stream of ten million rows: an estimated
           half hour.
    FAST   200 fits, 300 streams, a stream of 300,000 rows: a quarter of an hour.
    SMOKE  seconds.
"""

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from operator import ge, le
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from ..detector.drift import DriftMonitor, Streams, batch_drift
from ..detector.energy_detector import EnergyDetector
from ..detector.reasons import Reasons
from ..support.memory import resident_mebibytes
from ..support.progress import console
from .claims import Claim, claim, save_results

OnePerFit = Sequence[float] | NDArray[np.float64]
"""One for each fit, or stream."""
Measured = Iterator[tuple[str, OnePerFit]]
Drawn = NDArray[np.float64]
RATES_STATED = (0.01, 0.05, 0.1)
ROWS_FITTED, COLUMNS_FITTED, ROWS_NEW = 400, 3, 4000
CONFIDENCE = 0.9


@dataclass(frozen=True)
class DecisionSettings:
    """How often everything is drawn anew."""

    fits: int
    streams: int
    long_stream: int
    """Drawn of the stream whose memory is watched."""


PAPER = DecisionSettings(fits=200, streams=1000, long_stream=10_000_000)
FAST = DecisionSettings(fits=200, streams=300, long_stream=300_000)
SMOKE = DecisionSettings(fits=3, streams=2, long_stream=3000)


def run(out: Path, config: DecisionSettings, seeds: int) -> list[Claim]:
    """All of it, for each seed."""
    found: dict[str, list[OnePerFit]] = {}
    parts = (_alarms, _discoveries, _reasons, _streams, _long_stream)
    for seed in range(seeds):
        for part in parts:
            for name, values in part(config, np.random.default_rng((seed, 17))):
                found.setdefault(name, []).append(values)
                console.print(f"{name}: {np.mean(values):.4g}", markup=False)
    claims = [_judged(name, values) for name, values in found.items()]
    save_results(out / "results.json", claims, config=asdict(config))
    return claims


def _judged(name: str, values: list[OnePerFit]) -> Claim:
    """Whether the mean is within its bound, but for two standard errors over fits or streams."""
    what, _, bound = name.rpartition(", ")
    sign, number = bound.split()
    every = np.concatenate(values)
    error = float(every.std() / math.sqrt(len(every)))
    kept = partial(ge, float(number) + 2 * error) if sign == "≤" else partial(le, float(number))
    return claim(what, bound, [float(np.mean(one)) for one in values], kept)


def _rows(draws: np.random.Generator, n: int, tied: bool, columns: int = COLUMNS_FITTED) -> Drawn:
    x = draws.normal(size=(n, columns))
    return np.asarray(np.round(x) if tied else x)


def _shifted(
    draws: np.random.Generator, n: int, tied: bool, by: float, columns: int = COLUMNS_FITTED
) -> Drawn:
    """Rows whose first column is shifted, before it is rounded."""
    x = _rows(draws, n, tied=False, columns=columns)
    x[:, 0] += by
    return np.asarray(np.round(x) if tied else x)


def _shift_weights(x: Drawn, tied: bool) -> Drawn:
    """How much more often a row is met where the first column is shifted by one."""
    first = x[:, 0]
    if not tied:
        return np.asarray(np.exp(first - 0.5))
    now, then = (norm.cdf(first + 0.5 - by) - norm.cdf(first - 0.5 - by) for by in (1, 0))
    return np.asarray(now / then)


def _fitted(draws: np.random.Generator, x: Drawn, kind: str) -> EnergyDetector:
    calibration = "folds" if kind == "folds" else 0.5
    seed = int(draws.integers(2**31))
    return EnergyDetector(calibration=calibration, random_state=seed).fit(x)  # type: ignore[arg-type]


def _alarms(config: DecisionSettings, draws: np.random.Generator) -> Measured:
    """Mean false alarms of each kind of calibration, and how often confidence is broken."""
    for kind in ("split", "folds", "other rows", "weights"):
        for tied in (False, True):
            shares: dict[float, list[float]] = {rate: [] for rate in RATES_STATED}
            broken: list[float] = []
            for _ in range(config.fits):
                found = _fitted(draws, _rows(draws, ROWS_FITTED, tied), kind)
                new, weights = _rows(draws, ROWS_NEW, tied), None
                if kind == "other rows":
                    found = found.recalibrated(_rows(draws, ROWS_FITTED, tied))
                if kind == "weights":
                    known = _rows(draws, ROWS_FITTED, tied)
                    found = found.recalibrated(known, _shift_weights(known, tied))
                    new = _shifted(draws, ROWS_NEW, tied, 1.0)
                    weights = _shift_weights(new, tied)
                for rate in RATES_STATED:
                    wrong = found.predict(new, rate, weights=weights) == -1
                    shares[rate].append(float(wrong.mean()))
                if kind != "weights":
                    wrong = found.predict(new, 0.1, confidence=CONFIDENCE) == -1
                    # Rates that chance alone lifts, among so many new rows, are not counted.
                    broken.append(wrong.mean() > 0.1 + 2 * math.sqrt(0.09 / ROWS_NEW))
            data = "rounded" if tied else "continuous"
            for rate, share in shares.items():
                yield f"false alarms by {kind}, {data}, ≤ {rate}", share
            if kind != "weights":
                name = f"rate of 0.1 broken at confidence {CONFIDENCE} by {kind}, {data}"
                yield f"{name}, ≤ {1 - CONFIDENCE:.1f}", broken


def _discoveries(config: DecisionSettings, draws: np.random.Generator) -> Measured:
    """False ones among 200 rows of which 20 are outliers; and the mutant, each row for itself."""
    for kind in ("split", "folds"):
        wrong, naive = [], []
        for _ in range(config.fits):
            found = _fitted(draws, _rows(draws, ROWS_FITTED, tied=False), kind)
            new = _rows(draws, 200, tied=False)
            new[180:] += 4
            wrong.append(_false(found.discoveries(new, 0.2)))
            naive.append(_false(found.predict(new, 0.2) == -1))
        yield f"false discoveries by {kind}, ≤ 0.2", wrong
        name = f"false discoveries by {kind} where each row decides for itself, ≥ 0.4"
        yield name, naive


def _false(called: NDArray[np.bool_]) -> float:
    """Share of calls among the first 180 rows, which are no outliers."""
    return float(called[:180].sum() / max(1, called.sum()))


def _reasons(config: DecisionSettings, draws: np.random.Generator) -> Measured:
    """Planted causes that come first, and how many rows are explained in a minute."""
    for columns, factors in ((6, 2), (10, 3), (30, 5)):
        loadings = draws.normal(size=(factors, columns))
        noise = 0.3 * draws.normal(size=(4000, columns))
        x = draws.normal(size=(4000, factors)) @ loadings + noise
        found = EnergyDetector(random_state=0).fit(x[:3000])
        new, cause = x[3000:].copy(), draws.integers(columns, size=1000)
        new[np.arange(1000), cause] += 3 * x.std(0)[cause] * draws.choice([-1, 1], 1000)
        began = time.perf_counter()
        why = found.explain(new)
        pace = 60_000 / (time.perf_counter() - began)
        assert isinstance(why, Reasons)
        first = (why.first(1)[:, 0] == cause).astype(np.float64)
        yield f"planted causes first among {columns} columns, ≥ 0.9", first
    yield f"rows of {columns} columns explained in a minute, ≥ 10000", [pace]


def _streams(config: DecisionSettings, draws: np.random.Generator) -> Measured:
    """Of streams like the data, how many raise an alarm; of shifted ones, how many do in time."""
    for tied in (False, True):
        alarms: list[float] = []
        batches: list[float] = []
        noticed: list[float] = []
        for k in range(config.streams):
            found = Streams(_fitted(draws, _rows(draws, ROWS_FITTED, tied, 10), "folds"))
            same = DriftMonitor(found, 0.05, k).update(_rows(draws, 1000, tied, 10))
            alarms.append(same.alarm_at is not None)
            batches.append(batch_drift(found, _rows(draws, 300, tied, 10)).p_value <= 0.05)
            new = _shifted(draws, 500, tied, 0.5, columns=10)
            noticed.append(DriftMonitor(found, 0.01, k).update(new).alarm_at is not None)
        data = "rounded" if tied else "continuous"
        yield f"streams like the data with an alarm, {data}, ≤ 0.05", alarms
        yield f"batches like the data called drifted, {data}, ≤ 0.05", batches
        name = f"streams whose shift by half a deviation is noticed in 500 rows, {data}"
        yield f"{name}, ≥ 0.9", noticed


def _long_stream(config: DecisionSettings, draws: np.random.Generator) -> Measured:
    """What memory grows by over a long stream, after its first tenth."""
    found = _fitted(draws, _rows(draws, 200, tied=False), "folds")
    monitor, most, first = DriftMonitor(found), 0.0, 0.0
    while monitor.rows < config.long_stream:
        monitor.update(_rows(draws, 4096, tied=False))
        if monitor.rows <= config.long_stream / 10:
            first = max(first, resident_mebibytes())
        most = max(most, resident_mebibytes())
    yield f"MiB that a stream of {config.long_stream:,} rows adds, ≤ 16", [most - (first or most)]
