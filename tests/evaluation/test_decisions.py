"""Confidence, weights and Storey's correction: their laws, and mutants that break them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, norm

from uspebm.evaluation.calibration import (
    alarms,
    benjamini_hochberg,
    confident_alarms,
    effective_size,
    fewest_discoveries,
    null_share,
    p_values,
    threshold,
    weighted_p_values,
)

# Confidence


@given(
    st.integers(1, 3000),
    st.floats(0.005, 0.5),
    st.sampled_from([0.5, 0.8, 0.95, 0.99]),
)
def test_the_confident_rank_is_the_largest_that_the_law_allows(
    points: int, rate: float, confidence: float
) -> None:
    """The rate of rank k exceeds α just if fewer than k of m uniform draws lie below α."""

    def kept(k: int) -> bool:
        return bool(1 - binom.cdf(k - 1, points, rate) >= confidence - 1e-9)

    if not kept(1) or rate < 1 / (points + 1):
        return
    try:
        rank = confident_alarms(points, rate, confidence)
    except ValueError:  # by rounding alone
        assert not 1 - binom.cdf(0, points, rate) >= confidence + 1e-9
        return
    assert kept(rank)
    assert not kept(rank + 1) or rank == alarms(points, rate)


@pytest.mark.parametrize("rate", [0.01, 0.05, 0.1])
@pytest.mark.parametrize("tied", [False, True])
def test_a_confident_rate_fails_as_rarely_as_it_states(rate: float, tied: bool) -> None:
    """Over 2,000 calibration sets; the rate of each is known exactly."""
    draws, sets, m, confidence = np.random.default_rng(0), 2000, 500, 0.9
    failed = {None: 0, confidence: 0}
    for _ in range(sets):
        scores = draws.normal(size=m)
        if tied:
            scores = np.round(2 * scores) / 2
        for stated in failed:
            limit = threshold(scores, rate, stated)
            # Below the limit; of rounded scores that is below the middle to the one before it.
            share = norm.cdf(limit - 0.25 if tied else limit)
            failed[stated] += share > rate
    allowed = (1 - confidence) + 4 * math.sqrt(confidence * (1 - confidence) / sets)
    assert failed[confidence] / sets < allowed
    if not tied:
        assert failed[None] / sets > allowed  # the mutant, without: it fails nearly half the time
        assert failed[confidence] / sets > 0.02  # and no more cautious than it has to be


def test_confidence_that_cannot_be_had_is_refused() -> None:
    with pytest.raises(ValueError, match=r"confidence=0\.95 needs at least 59 calibration points"):
        threshold(np.zeros(58), 0.05, 0.95)
    assert confident_alarms(59, 0.05, 0.95) == 1
    with pytest.raises(ValueError, match="confidence=1 must lie between 0 and 1"):
        threshold(np.zeros(100), 0.05, 1)


# Weights


def test_equal_weights_change_nothing() -> None:
    draws = np.random.default_rng(0)
    known, new = draws.normal(size=50).round(1), draws.normal(size=20).round(1)
    weighted = weighted_p_values(known, np.full(50, 3.0), new, np.full(20, 3.0))
    assert np.allclose(weighted, p_values(known, new))


def shifted_alarms(weighted: bool, rate: float) -> tuple[float, float]:
    """False alarms among points drawn with a shift, and their standard error.

    Points are N(0, 1), new ones N(1, 1), w(x) = exp(x − 1/2), and a point's score is −x.
    """
    draws, sets, m, n = np.random.default_rng(0), 400, 300, 50
    shares = []
    for _ in range(sets):
        old, new = draws.normal(size=m), draws.normal(1, 1, size=n)
        if weighted:
            p = weighted_p_values(-old, np.exp(old - 0.5), -new, np.exp(new - 0.5))
        else:
            p = p_values(-old, -new)
        shares.append((p <= rate).mean())
    return float(np.mean(shares)), float(np.std(shares)) / math.sqrt(sets)


@pytest.mark.parametrize("rate", [0.05, 0.1])
def test_weights_keep_the_rate_under_a_known_shift(rate: float) -> None:
    found, error = shifted_alarms(True, rate)
    assert found < rate + 4 * error
    assert shifted_alarms(False, rate)[0] > 3 * rate  # the mutant, without weights


def test_too_little_weight_is_refused() -> None:
    weights = np.exp(np.arange(100.0))
    with pytest.raises(ValueError, match=r"leave 2\.16 calibration points in effect, of 100"):
        weighted_p_values(np.arange(100.0), weights, np.zeros(1), np.ones(1))
    for bad in ([-1.0, 1.0], [math.nan, 1.0], [0.0, 0.0]):
        with pytest.raises(ValueError, match="weights must be finite numbers"):
            effective_size(np.array(bad))
    with pytest.raises(ValueError, match="one for each point"):
        weighted_p_values(np.arange(100.0), np.ones(100), np.zeros(2), np.ones(1))


# Discoveries


def discovered(outliers: int, storey: bool, correlated: bool = False) -> tuple[float, float, float]:
    """Mean share of false discoveries, its standard error, and the share of outliers found.

    Of 200 points; 1,000 calibration points of their own each time. Correlated: all inliers share a
    part that is drawn anew each time, calibration points included, which stays exchangeable.
    """
    draws, rounds, n, m = np.random.default_rng(0), 300, 200, 1000
    wrong, found = [], []
    for _ in range(rounds):
        common = draws.normal() if correlated else 0.0
        known = draws.normal(size=m) + common
        new = np.concatenate([draws.normal(size=n - outliers), draws.normal(-3, 1, outliers)])
        p = p_values(known, new + common)
        called = benjamini_hochberg(p, 0.1, null_share(p, m) if storey else 1.0)
        wrong.append(called[: n - outliers].sum() / max(1, called.sum()))
        found.append(called[n - outliers :].mean() if outliers else 0.0)
    return float(np.mean(wrong)), float(np.std(wrong)) / math.sqrt(rounds), float(np.mean(found))


@pytest.mark.parametrize("correlated", [False, True])
@pytest.mark.parametrize("outliers", [0, 20, 100])
def test_storeys_correction_keeps_the_rate_and_finds_more(outliers: int, correlated: bool) -> None:
    wrong, error, found = discovered(outliers, True, correlated)
    assert wrong < 0.1 + 4 * error
    plain = discovered(outliers, False, correlated)
    assert plain[0] < 0.1 + 4 * plain[1]
    if outliers == 100:
        assert found > plain[2] + 0.02
        assert plain[0] < 0.06  # the plain procedure leaves half of the rate unused


def test_too_small_a_share_of_inliers_breaks_it() -> None:
    """The mutant: a correction by a tenth of what it is."""
    draws, wrong = np.random.default_rng(0), []
    for _ in range(200):
        p = p_values(draws.normal(size=1000), draws.normal(size=200))
        wrong.append(benjamini_hochberg(p, 0.1, 0.1 * null_share(p, 1000)).any())
    assert np.mean(wrong) > 0.2


@given(
    st.integers(1, 300),
    st.integers(1, 300),
    st.sampled_from([0.01, 0.05, 0.1, 0.3]),
    st.floats(0.1, 2.0),
)
def test_how_many_it_takes_for_any_to_be_found(
    points: int, tested: int, rate: float, inliers: float
) -> None:
    """So many at the least p-value are found, and one fewer is not."""
    needed, least = fewest_discoveries(points, tested, rate, inliers), 1 / (points + 1)
    limit = rate * np.arange(1, tested + 1) / (tested * inliers)
    if np.abs(limit - least).min() < 1e-12 or limit[-1] >= 1:
        return  # rounding would decide, or all are found
    for k, found in ((needed, True), (needed - 1, False)):
        if 0 < k <= tested:
            p = np.ones(tested)
            p[:k] = least
            assert benjamini_hochberg(p, rate, inliers).any() == found
