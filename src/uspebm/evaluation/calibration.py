r"""Decisions with a stated false-alarm rate, from scores of held-out in-distribution points.

A *conformal p-value* is the rank of a point's score among those of m calibration points,

.. math:: p(x) = \frac{1 + \#\{i : s_i \le s(x)\}}{m + 1}.

If x and the calibration points are exchangeable (drawn alike, none of them used for training),
then :math:`P(p(x) \le \alpha) \le \alpha` for every :math:`\alpha`, whatever the model is worth,
on average over calibration sets. For one calibration set without ties, the rate of false alarms is
a draw from :math:`\mathrm{Beta}(k, m + 1 - k)` with :math:`k = \lfloor \alpha (m + 1) \rfloor`.

Nothing is said of points that are not exchangeable with the calibration points, OOD points least of
all: how many of them are found depends on the model alone.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

Reals = NDArray[np.float64]
SCORE_ROUNDING = 1e-5
"""Relative: ten times what float32 networks differ by from run to run."""


def p_values(calibration: Reals, scores: Reals) -> Reals:
    """Conformal p-values of ``scores``; small where hardly a calibration point scores as low.

    >>> p_values(np.array([1.0, 2.0, 3.0]), np.array([0.5, 2.0, 9.0])).tolist()
    [0.25, 0.75, 1.0]
    """
    below = np.searchsorted(np.sort(calibration), scores, side="right")
    return np.asarray((1 + below) / (len(calibration) + 1), np.float64)


def loosened(scores: Reals) -> Reals:
    """Calibration scores in ascending order, a little lower than they are.

    A score depends on its last digits: on how many points are scored together, and on which program
    does it. Where points are equal, as in tables of counts, that would decide about alarms. Lower
    calibration scores only make p-values larger.

    >>> loosened(np.array([200.0, 0.5])).tolist()
    [0.49999, 199.998]
    """
    return np.sort(scores - SCORE_ROUNDING * np.maximum(1.0, np.abs(scores)))


def threshold(calibration: Reals, false_alarm_rate: float) -> float:
    """The score below which points are called outliers: there p ≤ ``false_alarm_rate``.

    >>> threshold(np.arange(1.0, 100.0), 0.05)
    5.0
    """
    return float(np.sort(calibration)[alarms(len(calibration), false_alarm_rate) - 1])


def rate_at(calibration: Reals, threshold: float) -> float:
    """The rate of false alarms, at most, that is to be expected of scores below ``threshold``.

    >>> rate_at(np.arange(1.0, 100.0), 5.0)
    0.05
    """
    return float((1 + (calibration < threshold).sum()) / (len(calibration) + 1))


def alarms(points: int, false_alarm_rate: float) -> int:
    """k = ⌊α (m + 1)⌋, if there are enough calibration ``points`` for that rate."""
    if not 0 < false_alarm_rate < 1:
        raise ValueError(f"false_alarm_rate={false_alarm_rate} must lie between 0 and 1")
    rank = math.floor(false_alarm_rate * (points + 1) + 1e-9)
    if rank < 1:
        needed = math.ceil(1 / false_alarm_rate - 1e-9) - 1
        raise ValueError(
            f"false_alarm_rate={false_alarm_rate} needs at least {needed} calibration points; "
            f"there are {points}"
        )
    return rank


def interval(points: int, false_alarm_rate: float, level: float = 0.95) -> tuple[float, float]:
    """Where the rate of one calibration set lies at this level: quantiles of the Beta law.

    >>> [round(rate, 4) for rate in interval(200, 0.01)]
    [0.0012, 0.0275]
    """
    rank = alarms(points, false_alarm_rate)
    edges = (1 - level) / 2, (1 + level) / 2
    low, high = beta.ppf(edges, rank, points + 1 - rank)
    return float(low), float(high)


def benjamini_hochberg(p: Reals, false_discovery_rate: float) -> NDArray[np.bool_]:
    """Which of the points to call outliers so that, of those called so, at most this share is not.

    In expectation, for p-values that share a calibration set as conformal ones do (Bates et al.,
    2023: they are positively dependent, which the procedure of Benjamini & Hochberg allows).

    >>> benjamini_hochberg(np.array([0.001, 0.9, 0.02, 0.5]), 0.1).tolist()
    [True, False, True, False]
    """
    if not 0 < false_discovery_rate < 1:
        raise ValueError(f"false_discovery_rate={false_discovery_rate} must lie between 0 and 1")
    order = np.argsort(p)
    passes = p[order] <= false_discovery_rate * np.arange(1, len(p) + 1) / len(p)
    found = np.zeros(len(p), dtype=bool)
    if passes.any():
        found[order[: passes.nonzero()[0][-1] + 1]] = True
    return found
