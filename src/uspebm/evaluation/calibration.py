r"""Decisions with a stated false-alarm rate, from scores of held-out in-distribution points.

A *conformal p-value* is the rank of a point's score among those of m calibration points,

.. math:: p(x) = \frac{1 + \#\{i : s_i \le s(x)\}}{m + 1}.

If x and the calibration points are exchangeable (drawn alike, none of them used for training),
then :math:`P(p(x) \le \alpha) \le \alpha` for every :math:`\alpha`, whatever the model is worth,
on average over calibration sets. For one calibration set without ties, the rate of false alarms is
a draw from :math:`\mathrm{Beta}(k, m + 1 - k)` with :math:`k = \lfloor \alpha (m + 1) \rfloor`.

With *confidence* :math:`\gamma`, k is the largest rank whose Beta law lies below :math:`\alpha`
with that probability: then the rate of *this* calibration set is at most :math:`\alpha` unless one
was unlucky, once in :math:`1 / (1 - \gamma)` sets.

Under a *known shift of covariates*, where new points are drawn from :math:`w(x) p(x)`, calibration
points count by their weights (Tibshirani et al., 2019):

.. math:: p(x) = \frac{w(x) + \sum_{i : s_i \le s(x)} w(x_i)}{w(x) + \sum_i w(x_i)}.

Nothing is said of points that are not exchangeable with the calibration points, OOD points least of
all: how many of them are found depends on the model alone. Scores by folds, each point's by a model
made without its fold, are not quite exchangeable with new ones either: what holds for them was
simulated (RESULTS.md) and is not proven.

References:
    Vovk, Gammerman, Shafer (2005), *Algorithmic learning in a random world*.
    Vovk (2012), *Conditional validity of inductive conformal predictors* (the Beta law).
    Benjamini, Hochberg (1995), *Controlling the false discovery rate*.
    Storey, Taylor, Siegmund (2004), *Strong control, conservative point estimation and simultaneous
    conservative consistency of false discovery rates*.
    Tibshirani, Foygel Barber, Candès, Ramdas (2019), *Conformal prediction under covariate shift*.
    Bates, Candès, Lei, Romano, Sesia (2023), *Testing for outliers with conformal p-values*.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

Reals = NDArray[np.float64]
SCORE_ROUNDING = 1e-5
"""Relative: ten times what float32 networks differ by from run to run."""
FEWEST_EFFECTIVE = 20
"""Weighted calibration points: what a false-alarm rate of 5 % needs."""


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
    return np.sort(lowered(scores))


def lowered(scores: Reals) -> Reals:
    """The same in their order: what calibration scores are to be compared with as equals."""
    return np.asarray(scores - SCORE_ROUNDING * np.maximum(1.0, np.abs(scores)), np.float64)


def threshold(
    calibration: Reals, false_alarm_rate: float, confidence: float | None = None
) -> float:
    """The score below which points are called outliers: there p ≤ ``false_alarm_rate``.

    On average over calibration sets; with ``confidence``, with that probability for this one.

    >>> threshold(np.arange(1.0, 100.0), 0.05), threshold(np.arange(1.0, 100.0), 0.05, 0.9)
    (5.0, 2.0)
    """
    rank = alarms(len(calibration), false_alarm_rate)
    if confidence is not None:
        rank = confident_alarms(len(calibration), false_alarm_rate, confidence)
    return float(np.sort(calibration)[rank - 1])


def confident_alarms(points: int, false_alarm_rate: float, confidence: float) -> int:
    """The largest k with P(Beta(k, m + 1 − k) ≤ α) ≥ γ.

    >>> confident_alarms(1000, 0.05, 0.95), alarms(1000, 0.05)
    (39, 50)
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence={confidence} must lie between 0 and 1")
    ranks = np.arange(1, alarms(points, false_alarm_rate) + 1)
    # At a confidence below a half more ranks would do; who asks for it means no more than the mean.
    kept = ranks[beta.cdf(false_alarm_rate, ranks, points + 1 - ranks) >= confidence]
    if not len(kept):
        needed = math.ceil(math.log(1 - confidence) / math.log(1 - false_alarm_rate))
        raise ValueError(
            f"false_alarm_rate={false_alarm_rate} with confidence={confidence} needs at least "
            f"{needed} calibration points; there are {points}"
        )
    return int(kept[-1])


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
    rank = min(math.floor(false_alarm_rate * (points + 1) + 1e-9), points)
    if rank < 1:
        needed = math.ceil(min(1 / false_alarm_rate, 1e18) - 1e-9) - 1
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


def effective_size(weights: Reals) -> float:
    """How many equal weights tell as much: (Σ w)² / Σ w².

    >>> effective_size(np.array([1.0, 1.0, 0.0]))
    2.0
    """
    largest = weights.max(initial=0.0)
    if not np.isfinite(weights).all() or (weights < 0).any() or largest == 0:
        raise ValueError("weights must be finite numbers, none below zero and not all zero")
    scaled = weights / largest  # whose squares are numbers
    return float(scaled.sum() ** 2 / np.square(scaled).sum())


def weighted_p_values(
    calibration: Reals, calibration_weights: Reals, scores: Reals, weights: Reals
) -> Reals:
    """p-values of ``scores`` of points with ``weights``, where new points are drawn by weight.

    Refused where weights leave fewer than twenty calibration points in effect: a few of them would
    decide about everything.

    >>> scores = np.arange(40.0)
    >>> weighted_p_values(scores, np.ones(40), np.array([1.5]), np.array([1.0])).round(3)
    array([0.073])
    """
    size = effective_size(calibration_weights)
    if size < FEWEST_EFFECTIVE:
        raise ValueError(
            f"the weights leave {size:.3g} calibration points in effect, of "
            f"{len(calibration_weights)}; at least {FEWEST_EFFECTIVE} are needed: the data it was "
            "calibrated by say too little of such points"
        )
    if weights.shape != scores.shape or not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError("weights must be finite numbers, none below zero, one for each point")
    order = np.argsort(calibration, kind="stable")
    below = np.concatenate([[0.0], np.cumsum(calibration_weights[order])])
    found = below[np.searchsorted(calibration[order], scores, side="right")]
    return np.asarray((weights + found) / (weights + below[-1]), np.float64)


def null_share(p: Reals, points: int) -> float:
    """Storey's estimate of the share of inliers, from p-values by ``points`` calibration points.

    Above λ there are hardly any but inliers': (1 + #{p > λ}) / (n (1 − λ)), λ about a half and a
    value that p-values can have. It may exceed one, and has to: a cut would make it too small on
    average.

    >>> round(null_share(np.array([0.01, 0.02, 0.3, 0.7, 0.9]), 99), 2)
    1.2
    """
    middle = ((points + 1) // 2) / (points + 1)
    return float((1 + (p > middle).sum()) / (len(p) * (1 - middle)))


def fewest_discoveries(
    points: int, tested: int, false_discovery_rate: float, inliers: float = 1.0
) -> int:
    """Of ``tested`` points, how many have to have the least p-value there is for any to be found.

    That is 1 / (m + 1) with ``points`` = m to calibrate by, and k discoveries need p-values of at
    most k q / (n π): fewer than n π / (q (m + 1)) are none, whatever they are.

    >>> fewest_discoveries(99, 200, 0.1)
    20
    """
    return max(1, math.ceil(tested * inliers / (false_discovery_rate * (points + 1)) - 1e-9))


def benjamini_hochberg(
    p: Reals, false_discovery_rate: float, inliers: float = 1.0
) -> NDArray[np.bool_]:
    """Which of the points to call outliers so that, of those called so, at most this share is not.

    In expectation, for p-values that share a calibration set as conformal ones do (Bates et al.,
    2023: they are positively dependent, which the procedure of Benjamini & Hochberg allows; and
    with ``inliers`` from :func:`null_share`, Storey's correction, it holds as well). Not for points
    that depend on each other in other ways, as rows of a time series do.

    >>> benjamini_hochberg(np.array([0.001, 0.9, 0.02, 0.5]), 0.1).tolist()
    [True, False, True, False]
    """
    if not 0 < false_discovery_rate < 1:
        raise ValueError(f"false_discovery_rate={false_discovery_rate} must lie between 0 and 1")
    order = np.argsort(p)
    passes = p[order] <= false_discovery_rate * np.arange(1, len(p) + 1) / (len(p) * inliers)
    found = np.zeros(len(p), dtype=bool)
    if passes.any():
        found[order[: passes.nonzero()[0][-1] + 1]] = True
    return found
