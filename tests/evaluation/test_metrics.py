"""Detection figures against scikit-learn's curve, closed forms and what must fail."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_curve

from uspebm.evaluation.metrics import Detection, detection, fpr_at_tpr, intervals

few = st.lists(st.integers(-5, 5), min_size=1, max_size=40)  # many ties


@given(few, few)
def test_fpr95_is_read_off_the_curve_of_scikit_learn(inside: list[int], outside: list[int]) -> None:
    labels = [1] * len(inside) + [0] * len(outside)
    fpr, tpr, _ = roc_curve(labels, inside + outside, drop_intermediate=False)
    assert fpr_at_tpr(inside, outside) == pytest.approx(fpr[tpr >= 0.95 - 1e-12].min())


@given(few, few)
def test_auroc_counts_pairs_and_ties_half(inside: list[int], outside: list[int]) -> None:
    wins = [1.0 if a > b else 0.5 if a == b else 0.0 for a in inside for b in outside]
    assert detection(inside, outside).auroc == pytest.approx(sum(wins) / len(wins))


def normal_tail(z: float) -> float:
    return 0.5 * math.erfc(z / math.sqrt(2))


def test_gaussian_scores_give_the_closed_forms() -> None:
    """ID N(δ, 1) and OOD N(0, 1): AUROC Φ(δ/√2), FPR95 Φ(1.645 − δ)."""
    n, delta = 200_000, 1.5
    draws = np.random.default_rng(0)
    found = detection(draws.normal(delta, 1, n), draws.normal(0, 1, n))
    auroc = 1 - normal_tail(delta / math.sqrt(2))
    fpr95 = normal_tail(delta - 1.6448536269514722)
    # Standard errors: of a U-statistic at most sqrt(A(1 − A)/n), of FPR95 from both samples.
    assert abs(found.auroc - auroc) < 4 * math.sqrt(auroc * (1 - auroc) / n)
    density = math.exp(-0.5 * (delta - 1.645) ** 2) / math.exp(-0.5 * 1.645**2)
    assert abs(found.fpr95 - fpr95) < 4 * math.sqrt((0.25 + 0.05 * 0.95 * density**2) / n)


def test_perfect_reversed_and_constant_scores() -> None:
    assert detection([2, 3], [0, 1]) == Detection(0.0, 1.0, 1.0, 1.0)
    reversed_ = detection([0, 1], [2, 3])
    assert (reversed_.fpr95, reversed_.auroc) == (1.0, 0.0)
    same = detection([1, 1, 1], [1])
    assert (same.fpr95, same.auroc, same.aupr_id, same.aupr_ood) == (1.0, 0.5, 0.75, 0.25)


@given(few, few)
def test_average_precisions_are_those_of_scikit_learn(
    inside: list[int], outside: list[int]
) -> None:
    found = detection(inside, outside)
    scores, is_id = np.array(inside + outside), np.repeat([1, 0], [len(inside), len(outside)])
    assert found.aupr_id == pytest.approx(average_precision_score(is_id, scores))
    assert found.aupr_ood == pytest.approx(average_precision_score(1 - is_id, -scores))
    assert found.fpr95 == fpr_at_tpr(inside, outside)


def test_infinite_scores_are_scores() -> None:
    assert detection([0.0, math.inf], [-math.inf]).auroc == 1.0


@pytest.mark.parametrize(
    ("inside", "outside", "message"),
    [
        ([0.0, math.nan], [1.0], "1 of 2 ID scores are NaN"),
        ([0.0], [math.nan], "1 of 1 OOD scores are NaN"),
        ([], [1.0], "ID scores must be a list of numbers, got shape"),
        ([[1.0]], [1.0], "got shape"),
    ],
)
def test_bad_scores_are_refused(inside: list[float], outside: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        detection(inside, outside)


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """90 % intervals of the AUROC of 100 + 100 Gaussian scores, over 100 draws."""
    truth = 1 - normal_tail(1.0 / math.sqrt(2))
    hits = 0
    for seed in range(100):
        draws = np.random.default_rng(seed)
        found = intervals(
            draws.normal(1, 1, 100), draws.normal(0, 1, 100), level=0.9, resamples=100, seed=seed
        )["auroc"]
        assert found.low <= found.value <= found.high
        hits += found.low <= truth <= found.high
    # Binomial(100, 0.9) has standard deviation 3; the percentile interval is a little short.
    assert 78 <= hits <= 99


def test_a_wrong_level_is_refused() -> None:
    with pytest.raises(ValueError, match=r"level=95 must lie between 0 and 1"):
        intervals([1.0], [0.0], level=95)
    with pytest.raises(ValueError, match=r"resamples=0 must be a whole number, at least 1"):
        intervals([1.0], [0.0], resamples=0)


@pytest.mark.parametrize("tpr", [0.0, 1.5, float("nan")])
def test_a_rate_is_a_share(tpr: float) -> None:
    with pytest.raises(ValueError, match=r"tpr=\S+ must lie above 0"):
        fpr_at_tpr([1.0], [0.0], tpr)
