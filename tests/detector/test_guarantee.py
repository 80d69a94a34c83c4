"""What is promised of alarms: rates, discoveries, and what rounding may not decide."""

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch import Tensor

from tests.detector.common import NEW, Values, X, fitted, reference_only, small, with_centres
from uspebm import EnergyDetector, arrow_scorer, load, save_model
from uspebm.detector import decisions, fitting
from uspebm.detector.onnx_export import to_onnx
from uspebm.detector.scorer import Scorer
from uspebm.evaluation import calibration
from uspebm.recipes import Run, train
from uspebm.serve.served_model import ServedModel

RATES = (0.01, 0.05, 0.1)
HELD_BACK, TESTS = 199, 1000


def false_alarms(splits: int, rates: tuple[float, ...]) -> Values:
    """The share of alarms among new points, ``(splits, rates)``: all of it anew every time."""
    draws = np.random.default_rng(0)
    shares = []
    for seed in range(splits):
        found = reference_only(random_state=seed, calibration=0.5)
        found.fit(draws.normal(size=(2 * HELD_BACK, 3)))
        new = draws.normal(size=(TESTS, 3))
        scores = found.score_samples(new)
        thresholds = [calibration.threshold(found.calibration_scores_, rate) for rate in rates]
        assert np.array_equal(found.predict(new, rates[0]) == -1, scores < thresholds[0])
        shares.append([(scores < threshold).mean() for threshold in thresholds])
    return np.array(shares)


def assert_guarantee(shares: Values, rate: float) -> None:
    """A Beta-binomial share: mean k / (m + 1), and the variance of Beta(k, m + 1 − k) and of n."""
    mean = calibration.alarms(HELD_BACK, rate) / (HELD_BACK + 1)
    beta = mean * (1 - mean) / (HELD_BACK + 2)
    variance = beta + (mean * (1 - mean) - beta) / TESTS
    assert abs(shares.mean() - mean) < 4 * math.sqrt(variance / len(shares))
    # The relative error of a variance of 200 is sqrt(2 / 199), more where the law is skewed.
    assert 0.5 * variance < shares.var(ddof=1) < 1.7 * variance


def test_false_alarms_follow_their_law() -> None:
    """And a mutant's, one rank too high, do not: at 1 % it is off by nine standard errors."""
    mutant = RATES[0] + 1 / (HELD_BACK + 1)
    shares = false_alarms(200, (*RATES, mutant))
    for k, rate in enumerate(RATES):
        assert_guarantee(shares[:, k], rate)
    with pytest.raises(AssertionError):
        assert_guarantee(shares[:, 3], RATES[0])


def test_training_on_calibration_points_breaks_the_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: kernels sit on the calibration points, which then score too well."""
    trained_on: list[Tensor] = []

    def spied(recipe: Any, data: Tensor, *rest: Any, **named: Any) -> Run:
        trained_on.append(data)
        return train(recipe, data, *rest, **named)

    def leaky(scorer: Scorer, x: Tensor) -> Tensor:
        return scorer.in_parts(scorer.scaling.inverse(trained_on[-1][: len(x)]))

    monkeypatch.setattr(fitting, "train", spied)
    monkeypatch.setattr(decisions, "calibration_scores", leaky)
    shares = false_alarms(50, RATES)
    for k, rate in enumerate(RATES):
        with pytest.raises(AssertionError):
            assert_guarantee(shares[:, k], rate)


def test_discoveries_are_mistaken_no_more_often_than_stated() -> None:
    """20 of 200 points are outliers, over 100 draws of everything."""
    draws = np.random.default_rng(0)
    shares, found, naive = [], [], []
    for seed in range(100):
        model = reference_only(with_centres(200), random_state=seed, calibration=0.5)
        model.fit(draws.normal(size=(1000, 1)))
        points = np.concatenate([draws.normal(size=(180, 1)), draws.normal(7, 1, size=(20, 1))])
        called = model.discoveries(points, 0.1)
        shares.append(called[:180].sum() / max(1, called.sum()))
        found.append(called[180:].mean())
        alarms = model.predict(points, false_alarm_rate=0.1) == -1
        naive.append(alarms[:180].sum() / alarms.sum())
    assert np.mean(shares) < 0.1 + 3 * np.std(shares) / 10
    assert np.mean(found) > 0.8
    assert np.mean(naive) > 0.3  # the mutant: every point by itself


def test_the_rate_can_be_chosen_afterwards() -> None:
    found = reference_only(false_alarm_rate=0.1).fit(X)
    assert np.array_equal(found.predict(NEW), found.predict(NEW, false_alarm_rate=0.1))
    assert np.array_equal(found.predict(NEW) == -1, found.decision_function(NEW) < 0)
    assert np.array_equal(found.predict(NEW, 0.5) == -1, found.p_values(NEW) <= 0.5)
    alarms = [(found.predict(X, rate) == -1).sum() for rate in (0.02, 0.1, 0.5)]
    assert alarms == sorted(set(alarms))


def test_auto_is_five_per_cent_or_what_there_is() -> None:
    assert np.array_equal(fitted().predict(NEW), fitted().predict(NEW, false_alarm_rate=0.05))
    few = reference_only().fit(X[:20])  # four calibration points
    assert np.array_equal(few.predict(NEW), few.predict(NEW, false_alarm_rate=0.2))


def test_a_score_at_the_threshold_is_no_alarm() -> None:
    """There p is above the rate."""
    found = copy.deepcopy(fitted())
    found.offset_ = found.score_samples(NEW)[0]
    assert found.predict(NEW)[0] == 1


def test_rates_that_cannot_be_kept_are_refused_before_training(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    message = "false_alarm_rate=0.001 needs at least 999 calibration points; there are 60"
    with pytest.raises(ValueError, match=message):
        fitted().predict(NEW, false_alarm_rate=0.001)
    monkeypatch.delattr(fitting, "train")
    with pytest.raises(ValueError, match=message):
        small(false_alarm_rate=0.001).fit(X)


def test_equal_points_are_not_told_apart_by_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = np.random.default_rng(0)
    kinds = chance.normal(size=(8, 6))
    known, new = (kinds[chance.choice(8, n, p=[0.08] + [0.92 / 7] * 7)] for n in (1000, 200))
    found = reference_only().fit(known)
    exact = found.scorer_.in_parts
    # As another batch or another program may score them.
    monkeypatch.setattr(found.scorer_, "in_parts", lambda x: exact(x) - 1e-6 * (1 + exact(x).abs()))
    # No kind is as rare as one in twenty, so none can be an outlier.
    assert (found.predict(new, false_alarm_rate=0.05) == 1).all()
    without_allowance = np.sort(exact(found._points(known, reset=False)))
    monkeypatch.setattr(found, "calibration_scores_", without_allowance)
    assert (found.predict(new, false_alarm_rate=0.05) == -1).any()


def test_a_rate_with_confidence() -> None:
    found = reference_only(calibration=0.5).fit(X)
    limit = calibration.threshold(found.calibration_scores_, 0.1, 0.95)
    called = found.predict(NEW, 0.1, confidence=0.95) == -1
    assert np.array_equal(called, found.score_samples(NEW) < limit)
    assert limit < calibration.threshold(found.calibration_scores_, 0.1)
    with pytest.raises(ValueError, match="needs at least 299 calibration points"):
        found.predict(NEW, 0.01, confidence=0.95)


def test_other_points_calibrate_a_copy() -> None:
    found, draws = fitted(), np.random.default_rng(5)
    other = draws.normal(size=(400, X.shape[1]))
    again = found.recalibrated(other)
    assert len(again.calibration_scores_) == 400
    assert len(found.calibration_scores_) != 400
    assert np.array_equal(again.score_samples(NEW), found.score_samples(NEW))
    assert again.offset_ == calibration.threshold(again.calibration_scores_, 0.05)


def test_weights_for_a_known_shift(tmp_path: Path) -> None:
    """New points are drawn with x₀ shifted by one: weighted, alarms are at the rate."""
    draws = np.random.default_rng(0)
    found = EnergyDetector(random_state=0).fit(draws.normal(size=(300, 2)))
    shares: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(30):
        other, new = (
            draws.normal(size=(1000, 2)),
            draws.normal(size=(300, 2)) + np.array([1.0, 0.0]),
        )
        known = found.recalibrated(other, np.exp(other[:, 0] - 0.5))
        w = np.exp(new[:, 0] - 0.5)
        called = known.predict(new, 0.1, weights=w) == -1
        assert np.array_equal(called, known.p_values(new, w) <= 0.1)
        shares[True].append(called.mean())
        shares[False].append((found.recalibrated(other).predict(new, 0.1) == -1).mean())
    error = np.std(shares[True]) / math.sqrt(30)
    assert np.mean(shares[True]) < 0.1 + 3 * error
    assert np.mean(shares[False]) > 0.15  # the mutant
    save_model(known, tmp_path / "m")
    again = load(tmp_path / "m")
    assert np.array_equal(again.p_values(new, w), known.p_values(new, w))
    assert again.offset_ == known.offset_
    with pytest.raises(ValueError, match="which the exported model does not take"):
        to_onnx(known, tmp_path / "m.onnx")
    with pytest.raises(ValueError, match="which an Arrow scorer does not take"):
        arrow_scorer(tmp_path / "m", false_alarm_rate=0.1)
    with pytest.raises(ValueError, match="which the service does not take"):
        ServedModel(tmp_path / "m")
    with pytest.raises(ValueError, match="give those of X, too"):
        known.p_values(new)
    with pytest.raises(ValueError, match="no Beta law"):
        known.predict(new, 0.1, confidence=0.9, weights=w)
    for refused in (found.predict, found.p_values):
        with pytest.raises(ValueError, match="see recalibrated"):
            refused(new, weights=w)
    with pytest.raises(ValueError, match="one number for each of 1000 points"):
        found.recalibrated(other, w)


def test_discoveries_that_cannot_be_are_told_of() -> None:
    found = reference_only(calibration=0.2).fit(X)
    few = len(found.calibration_scores_)
    with pytest.warns(UserWarning, match=f"finds nothing with {few} calibration points"):
        assert not found.discoveries(NEW, 1 / (len(NEW) * (few + 1))).any()
    found.discoveries(NEW, 0.5 / (few + 1))  # no warning: were all outliers, they would be found
    far = np.full((5, X.shape[1]), 50.0)
    assert found.discoveries(far, 0.5).all()  # no warning
