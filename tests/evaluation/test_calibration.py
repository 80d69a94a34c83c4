"""Conformal p-values: their law, their guarantee, and what must be refused."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from uspebm.evaluation.calibration import alarms, benjamini_hochberg, p_values, threshold

scores = st.lists(st.integers(-5, 5).map(float), min_size=1, max_size=30).map(np.array)


@given(scores, scores, st.floats(0.04, 0.9))
def test_the_threshold_and_the_p_values_decide_alike(
    calibration: np.ndarray, points: np.ndarray, rate: float
) -> None:
    if rate < 1 / (len(calibration) + 1):
        return
    by_p = p_values(calibration, points) <= rate + 1e-9
    assert np.array_equal(by_p, points < threshold(calibration, rate))


@given(scores, st.floats(0.05, 0.95))
def test_the_guarantee_holds_exactly_under_exchangeability(both: np.ndarray, rate: float) -> None:
    """Whichever of the m + 1 points is the new one: at most α of them are false alarms."""
    if len(both) < 2:
        return
    wrong = [
        p_values(np.delete(both, k), both[k : k + 1])[0] <= rate + 1e-12 for k in range(len(both))
    ]
    assert np.mean(wrong) <= rate + 1e-9


@pytest.mark.parametrize("rate", [0.01, 0.05, 0.1])
def test_false_alarms_follow_the_beta_law(rate: float) -> None:
    """Over 200 splits, for 500 calibration points: mean and variance of Beta(k, m + 1 − k)."""
    m, splits, tests = 500, 200, 2_000
    k = alarms(m, rate)
    draws = np.random.default_rng(0)
    rates = [
        (draws.normal(size=tests) < threshold(draws.normal(size=m), rate)).mean()
        for _ in range(splits)
    ]
    mean = k / (m + 1)
    spread = mean * (1 - mean) / (m + 2)
    variance = spread + (mean * (1 - mean) - spread) / tests  # of a Beta-binomial share
    assert abs(np.mean(rates) - mean) < 4 * math.sqrt(variance / splits)
    # A sample variance of 200 has a relative standard error of about sqrt(2 / 199), and more where
    # the law is skewed, as at 1 %.
    assert 0.6 * variance < np.var(rates, ddof=1) < 1.6 * variance


def test_a_threshold_from_the_training_scores_breaks_the_law() -> None:
    """The mutant: calibrating on scores that are too good alarms too often."""
    draws = np.random.default_rng(0)
    rates = [
        (draws.normal(size=2_000) < threshold(draws.normal(0.3, 1, size=500), 0.05)).mean()
        for _ in range(200)
    ]
    assert np.mean(rates) > 0.08


@pytest.mark.parametrize(
    ("points", "rate", "message"),
    [
        (98, 0.01, "needs at least 99 calibration points; there are 98"),
        (0, 0.5, "needs at least 1 calibration points; there are 0"),
        (98, 5e-324, "needs at least 999999999999999999 calibration points; there are 98"),
        (10, 0.0, "false_alarm_rate=0.0 must lie between 0 and 1"),
        (10, 5.0, "false_alarm_rate=5.0 must lie between 0 and 1"),
    ],
)
def test_rates_that_cannot_be_kept_are_refused(points: int, rate: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        alarms(points, rate)


def test_enough_points_are_enough() -> None:
    assert alarms(99, 0.01) == 1
    assert alarms(1, 0.5) == 1
    assert alarms(99, 1 - 1e-16) == 99  # there is no hundredth score


def test_false_discoveries_stay_below_their_rate() -> None:
    """20 of 200 points are outliers; of those called so, on average at most a tenth is not."""
    draws = np.random.default_rng(0)
    shares, found = [], []
    for _ in range(200):
        calibration = draws.normal(size=2_000)
        points = np.concatenate([draws.normal(size=180), draws.normal(-5, 1, size=20)])
        called = benjamini_hochberg(p_values(calibration, points), 0.1)
        shares.append(called[:180].sum() / max(1, called.sum()))
        found.append(called[180:].mean())
    assert np.mean(shares) < 0.1 + 3 * np.std(shares) / math.sqrt(200)
    assert np.mean(found) > 0.8


def test_calling_everything_below_the_rate_discovers_falsely() -> None:
    """The mutant: p ≤ 0.1 for each point alone."""
    draws = np.random.default_rng(0)
    points = np.concatenate([draws.normal(size=180), draws.normal(-5, 1, size=20)])
    called = p_values(draws.normal(size=2_000), points) <= 0.1
    assert called[:180].sum() / called.sum() > 0.3


def test_no_points_are_no_outliers() -> None:
    assert benjamini_hochberg(np.array([]), 0.1).tolist() == []
    with pytest.raises(ValueError, match="false_discovery_rate=2"):
        benjamini_hochberg(np.array([0.5]), 2)
