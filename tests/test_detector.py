"""The detector as its users meet it: scikit-learn, inputs, invariances, and what it promises."""

import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import Tensor, nn

from uspebm import calibration, detector
from uspebm.detector import EnergyDetector
from uspebm.learning import DRAWS, Split
from uspebm.objective import effective_sample_size
from uspebm.randomness import generator
from uspebm.reference import TiltedEnergy, likeliest_bandwidth
from uspebm.scorer import Scorer

Values = NDArray[np.float64]
X = np.random.default_rng(0).normal(size=(300, 3)) @ [[1, 0.8, 0], [0, 0.5, 0], [0, 0, 2]]
NEW = np.concatenate([X[:20] + 0.1, np.random.default_rng(1).normal(4, 1, size=(20, 3))])
IMAGES = np.random.default_rng(0).integers(0, 256, size=(80, 8, 9, 3)).astype(np.uint8)


def small(**changes: Any) -> EnergyDetector:
    """Fitted in a fraction of a second."""
    return EnergyDetector(**({"random_state": 0, "max_updates": 20} | changes))


def reference_only(**changes: Any) -> EnergyDetector:
    return small(max_updates=0, **changes)


FITTED = small().fit(X)


@parametrize_with_checks([EnergyDetector(max_updates=20)])
def test_scikit_learn_takes_it_for_its_own(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


def test_it_works_where_estimators_do() -> None:
    pipeline = make_pipeline(StandardScaler(), reference_only()).fit(X)
    assert set(pipeline.predict(NEW)) == {-1, 1}
    assert cross_val_score(reference_only(), X, cv=3).shape == (3,)
    copied = clone(small(network=nn.Linear(3, 1)).set_params(centres=7))
    assert copied.centres == 7
    assert not hasattr(copied, "scorer_")


def test_a_grid_search_finds_the_likelier_model() -> None:
    """Two centres are worse than two hundred, by far more than log Z may be off by."""
    search = GridSearchCV(small(), {"centres": np.array([2, 200])}, cv=3).fit(X)
    assert search.best_params_ == {"centres": 200}
    few, many = search.cv_results_["mean_test_score"]
    assert many > few + 0.3
    rates = GridSearchCV(small(), {"learning_rate": np.array([1e-4, 1e-3])}, cv=2).fit(X)
    assert np.isfinite(rates.cv_results_["mean_test_score"]).all()


def test_a_pickle_scores_the_same_bit_for_bit() -> None:
    again = pickle.loads(pickle.dumps(FITTED))
    assert np.array_equal(again.score_samples(NEW), FITTED.score_samples(NEW))
    assert again.offset_ == FITTED.offset_
    assert again.log_normaliser_ == FITTED.log_normaliser_


def test_the_reference_is_made_of_as_many_points_as_it_may_be() -> None:
    for centres, found in ((40, 40), (2000, 216)):  # of 300: 60 calibrate, 24 say when to stop
        reference = reference_only(centres=centres).fit(X).scorer_.energy.reference
        assert reference is not None
        assert reference.centres.shape == (found, 3)
        assert reference.bandwidth.item() == likeliest_bandwidth(reference.centres)[0]


# Log-densities


def test_densities_integrate_to_one_in_the_datas_units() -> None:
    x = 1e3 + 50 * np.random.default_rng(0).gamma(2, size=(400, 1))
    found = small(centres=20, max_updates=100).fit(x)
    energy = found.scorer_.energy
    assert energy.strength == 1
    grid = np.linspace(-1e3, 4e3, 20_001)[:, None]
    total = np.exp(found.score_samples(grid)).sum() * 0.25
    with torch.no_grad():
        assert energy.reference is not None
        log_weight = -energy.tilt(energy.reference.sample(DRAWS, generator(5)))
    # That of a mean of weights, by delta method: their relative variance over their number.
    error = math.sqrt(1 / effective_sample_size(log_weight) - 1 / DRAWS)
    assert 1e-4 < error < 0.1
    assert abs(total - 1) < 5 * error
    without = math.exp(found.log_normaliser_ + found.scorer_.scaling.log_det)
    assert abs(total * without - 1) > 5 * error  # a mutant that forgets log Z


def test_the_score_of_a_known_gaussian_is_its_log_likelihood() -> None:
    """By Gibbs' inequality no model is likelier than the truth; how far below it is, is its KL.

    That of a kernel estimate with n centres is at most some hundredths here: smoothing by h widens
    by 1 + h², and log(1 + h²) − h² / (1 + h²) is below 0.02 for h < 0.45.
    """
    draws = np.random.default_rng(0)
    units, n = np.array([1e3, 1e-2]), 4000
    new = draws.normal(size=(n, 2))
    exact = -0.5 * (new**2).sum(1) - math.log(2 * math.pi) - np.log(units).sum()
    found = reference_only().fit(draws.normal(size=(1500, 2)) * units)
    gaps = exact - found.score_samples(new * units)
    error = gaps.std() / math.sqrt(n)
    assert -4 * error < gaps.mean() < 0.1
    assert found.score(new * units) == pytest.approx(exact.mean() - gaps.mean())


def test_without_a_reference_nothing_is_subtracted() -> None:
    found = copy.deepcopy(FITTED)
    old = FITTED.scorer_
    found.scorer_ = Scorer(old.scaling, TiltedEnergy(old.energy.network, None)).eval()
    assert found.log_normaliser_ == 0
    assert np.isfinite(found.score_samples(NEW)).all()
    with pytest.raises(ValueError, match="no reference density to draw from"):
        found.sample(3)


def test_samples_look_like_the_data() -> None:
    drawn = FITTED.sample(2000)
    assert drawn.shape == (2000, 3)
    # Standard errors of 300 data points' moments; smoothing adds to the second.
    assert np.abs(drawn.mean(0) - X.mean(0)).max() < 5 * X.std() / math.sqrt(200)
    assert np.allclose(drawn.std(0), X.std(0), rtol=0.35)


# Inputs


def test_whatever_holds_the_numbers_scores_are_the_same() -> None:
    expected = FITTED.score_samples(NEW)
    tensor = torch.tensor(NEW, requires_grad=True)
    for same in (NEW.tolist(), tensor, np.asfortranarray(NEW), NEW[::-1][::-1]):
        assert np.array_equal(FITTED.score_samples(same), expected)
    assert np.array_equal(small().fit(torch.tensor(X)).score_samples(tensor), expected)
    float32 = FITTED.score_samples(NEW.astype(np.float32))
    assert np.allclose(float32, expected, rtol=1e-4)
    whole = np.arange(-2, 4).reshape(2, 3)
    assert np.array_equal(FITTED.score_samples(whole), FITTED.score_samples(whole * 1.0))


def test_names_of_columns_are_checked() -> None:
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    found = small().fit(table)
    assert found.feature_names_in_.tolist() == ["a", "b", "c"]
    assert np.array_equal(found.score_samples(table), FITTED.score_samples(X))
    with pytest.raises(ValueError, match="feature names"):
        found.predict(table[["b", "a", "c"]])
    with pytest.raises(ValueError, match="feature names"):
        found.predict(table.rename(columns={"a": "z"}))


def test_images_are_the_same_whatever_their_axes_and_type() -> None:
    found = reference_only().fit(IMAGES)
    expected = found.score_samples(IMAGES)
    assert found.of_bytes_
    assert found.event_shape_ == (3, 8, 9)
    scaled = IMAGES / 127.5 - 1
    channels_first = IMAGES.transpose(0, 3, 1, 2)
    for same in (scaled, channels_first, torch.from_numpy(IMAGES)):
        assert np.array_equal(found.score_samples(same), expected)
    on_floats = reference_only().fit(scaled)
    assert not on_floats.of_bytes_
    assert np.array_equal(on_floats.score_samples(IMAGES), expected)


def test_grey_images_are_learned() -> None:
    found = small(max_updates=2).fit(IMAGES[..., 0])
    assert np.array_equal(found.score_samples(IMAGES[..., 0]), found.score_samples(IMAGES[..., :1]))
    assert len(found.curve_) == 2


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros((2, 4)), "X has 4 features, but EnergyDetector is expecting 3"),
        (np.zeros((2, 8, 9)), "X has points of 8 × 9 pixels, but .* fitted to points of 3 columns"),
        (np.zeros((2, 9, 9, 9)), "it must be a table"),
        ([[0, 1, math.nan]], "Input X contains NaN"),
        ([[0, 1, math.inf]], "Input X contains infinity"),
        (np.full((1, 3, 3), math.nan), "Input X contains NaN"),
        (np.zeros((0, 3)), "0 sample"),
    ],
)
def test_other_points_are_refused(x: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        FITTED.score_samples(x)
    if "NaN" not in message:  # scikit-learn's own advice about NaN takes several lines
        assert "\n" not in str(caught.value)


def awkward() -> dict[str, Values]:
    draws = np.random.default_rng(0)
    constant = np.c_[X, np.full(300, 0.1)]
    nearly = np.c_[X, X[:, 0] + 1e-9 * draws.normal(size=300)]
    return {
        "a constant column": constant,
        "repeated rows": np.repeat(X[:30], 10, axis=0),
        "counts": draws.poisson(1, size=(300, 4)).astype(float),
        "two values": (X > 0).astype(float),
        "equal rows": np.full((100, 3), 0.1),
        "units far apart": X * [1e9, 1e-9, 1],
        "a large shift": X + 1e9,
        "nearly collinear": nearly,
        "collinear": np.c_[X, X[:, 0]],
        "one column": X[:, :1],
        "two rows": X[:2],
        "three rows": X[:3],
        "more columns than rows": draws.normal(size=(70, 200)),
        "heavy tails": draws.standard_cauchy(size=(300, 3)),
    }


@pytest.mark.parametrize("x", awkward().values(), ids=awkward().keys())
def test_awkward_tables_are_fitted(x: Values) -> None:
    found = small().fit(x)
    far = x.mean(0) + 10.0 ** np.arange(3, 300, 9)[:, None] * (1 + np.abs(x).max(0))
    assert np.isfinite(found.score_samples(x)).all()
    scores = found.score_samples(far)
    assert np.isfinite(scores).all()
    assert (np.diff(scores) <= 0).all()
    assert (found.predict(far) == -1).all()


# Invariances


@settings(max_examples=5)
@given(st.lists(st.integers(-20, 20), min_size=3, max_size=3))
def test_units_of_columns_do_not_change_ranks(powers: list[int]) -> None:
    """Powers of two, so that rounding is the same; log-densities differ by the units' logarithm."""
    units = 2.0 ** np.array(powers)
    scores = small().fit(X * units).score_samples(NEW * units)
    expected = FITTED.score_samples(NEW)
    assert np.array_equal(np.argsort(scores), np.argsort(expected))
    assert np.allclose(scores + np.log(units).sum(), expected, rtol=1e-9, atol=1e-9)


def test_shifts_and_other_units_change_ranks_no_more_than_rounding() -> None:
    units, shift = np.array([3.7e5, 1e-4, 11.0]), np.array([1e3, 0.1, -7.0])
    scores = reference_only().fit(X * units + shift).score_samples(NEW * units + shift)
    expected = reference_only().fit(X).score_samples(NEW)
    assert np.array_equal(np.argsort(scores), np.argsort(expected))
    assert np.allclose(scores + np.log(units).sum(), expected, rtol=1e-6)


def test_points_are_scored_each_by_itself() -> None:
    expected = FITTED.score_samples(NEW)
    order = np.random.default_rng(0).permutation(len(NEW))
    # Sums of another batch are made in another order: float32 in the network, and no more.
    assert np.allclose(FITTED.score_samples(NEW[order]), expected[order], rtol=1e-5, atol=1e-5)
    parts = [FITTED.score_samples(part) for part in np.array_split(NEW, 7)]
    assert np.allclose(np.concatenate(parts), expected, rtol=1e-5, atol=1e-5)


def test_the_seed_decides_everything() -> None:
    assert np.array_equal(small().fit(X).score_samples(NEW), FITTED.score_samples(NEW))
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    state = np.random.RandomState(0)
    assert np.array_equal(
        small(random_state=state).fit(X).score_samples(NEW), FITTED.score_samples(NEW)
    )
    other = small(random_state=1).fit(X).score_samples(NEW)
    assert not np.allclose(other, FITTED.score_samples(NEW), rtol=1e-3)


# The guarantee

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
        shares.append([(found.predict(new, rate) == -1).mean() for rate in rates])
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

    def leaky(x: Tensor, calibration: float, seed: int) -> Split:
        held_back = round(calibration * len(x))
        return Split(x, x[:0], x[:held_back])

    monkeypatch.setattr(detector, "split", leaky)
    shares = false_alarms(50, RATES)
    for k, rate in enumerate(RATES):
        with pytest.raises(AssertionError):
            assert_guarantee(shares[:, k], rate)


def test_discoveries_are_mistaken_no_more_often_than_stated() -> None:
    """20 of 200 points are outliers, over 100 draws of everything."""
    draws = np.random.default_rng(0)
    shares, found, naive = [], [], []
    for seed in range(100):
        model = reference_only(random_state=seed, calibration=0.5, centres=200)
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
    assert np.array_equal(FITTED.predict(NEW), FITTED.predict(NEW, false_alarm_rate=0.05))
    few = reference_only().fit(X[:20])  # four calibration points
    assert np.array_equal(few.predict(NEW), few.predict(NEW, false_alarm_rate=0.2))


def test_a_score_at_the_threshold_is_no_alarm() -> None:
    """There p is above the rate."""
    found = copy.deepcopy(FITTED)
    found.offset_ = found.score_samples(NEW)[0]
    assert found.predict(NEW)[0] == 1


def test_rates_that_cannot_be_kept_are_refused_before_training(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    message = "false_alarm_rate=0.001 needs at least 999 calibration points; there are 60"
    with pytest.raises(ValueError, match=message):
        FITTED.predict(NEW, false_alarm_rate=0.001)
    monkeypatch.delattr(detector, "learn")
    with pytest.raises(ValueError, match=message):
        small(false_alarm_rate=0.001).fit(X)


# Settings


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "x"}, "method='x' must be one of importance, ps-usp, srlmc"),
        ({"calibration": 1.5}, "calibration=1.5 must lie between 0 and 1"),
        ({"calibration": 0.0}, "calibration=0.0 must be a positive number"),
        ({"patience": 0}, "patience=0 must be a whole number, at least 1"),
        ({"max_updates": 1.5}, "max_updates=1.5 must be a whole number"),
        ({"centres": 0}, "centres=0 must be"),
        ({"batch_size": 0}, "batch_size=0 must be"),
        ({"learning_rate": -1.0}, "learning_rate=-1.0 must be a positive number"),
        ({"false_alarm_rate": "often"}, "false_alarm_rate='often' must be"),
        ({"false_alarm_rate": 5}, "false_alarm_rate=5 must lie between 0 and 1"),
        ({"network": "mlp"}, "network='mlp' must be a torch module"),
        ({"network": nn.Linear(3, 1)}, "network=Linear does not fit"),
    ],
)
def test_bad_settings_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        small(**changes).fit(X)
    assert "\n" not in str(caught.value)


class Own(nn.Module):
    """A user's network: quadratic, with one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(0.1))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * x.square().sum(1)


def test_a_network_of_ones_own_is_trained_in_a_copy() -> None:
    own = Own()
    found = small(network=own, centres=5, max_updates=100).fit(X)
    used = found.scorer_.energy.network
    assert isinstance(used, Own)
    assert own.weight.item() == pytest.approx(0.1)
    assert own.weight.grad is None
    assert used.weight.item() != pytest.approx(0.1)
    assert found.scorer_.energy.strength == 1


@pytest.mark.parametrize("method", ["ps-usp", "srlmc"])
def test_the_other_methods_give_finite_scores(method: str) -> None:
    found = small(method=method, max_updates=3).fit(X)
    assert np.isfinite(found.score_samples(NEW)).all()


def test_nothing_is_printed_unless_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    small(max_updates=2).fit(X)
    assert not any(capsys.readouterr())
    small(max_updates=2, verbose=True).fit(X)
    assert "importance 2/2" in capsys.readouterr().out


def test_evaluation_tells_outliers_apart() -> None:
    found = FITTED.evaluate(NEW[:20], NEW[20:])
    assert found["auroc"].value > 0.9


def test_equal_points_are_not_told_apart_by_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = np.random.default_rng(0)
    kinds = chance.normal(size=(8, 6))
    X, new = (kinds[chance.choice(8, n, p=[0.08] + [0.92 / 7] * 7)] for n in (1000, 200))
    found = reference_only().fit(X)
    exact = found.scorer_.in_parts
    # As another batch or another program may score them.
    monkeypatch.setattr(found.scorer_, "in_parts", lambda x: exact(x) - 1e-6 * (1 + exact(x).abs()))
    # No kind is as rare as one in twenty, so none can be an outlier.
    assert (found.predict(new, false_alarm_rate=0.05) == 1).all()
    monkeypatch.setattr(found, "calibration_scores_", np.sort(exact(found._points(X, reset=False))))
    assert (found.predict(new, false_alarm_rate=0.05) == -1).any()  # without the allowance


@pytest.mark.parametrize("kind", [int, float], ids=["whole numbers", "floats"])
def test_a_model_of_bytes_refuses_what_can_be_no_bytes(kind: type) -> None:
    images = np.random.default_rng(0).integers(0, 256, (30, 4, 4), dtype=np.uint8)
    found = reference_only().fit(images)
    known = found.score_samples(images)
    np.testing.assert_array_equal(found.score_samples(images.astype(int)), known)
    wrong: NDArray[Any] = images.astype(kind) * 2
    with pytest.raises(ValueError, match="fitted to bytes, but X has") as error:
        found.score_samples(wrong)
    assert "\n" not in str(error.value)


def test_fitted_to_images_it_forgets_the_columns_of_a_table() -> None:
    found = reference_only()
    found.fit(pd.DataFrame(np.random.default_rng(0).normal(size=(30, 2)), columns=["a", "b"]))
    found.fit(np.random.default_rng(0).normal(size=(30, 4, 4)))
    assert not hasattr(found, "feature_names_in_")
