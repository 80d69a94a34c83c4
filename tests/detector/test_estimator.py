"""The detector as scikit-learn's tools and its users' settings meet it."""

import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from torch import nn

from tests.detector.common import (
    IMAGES,
    NEW,
    Own,
    OwnTilt,
    X,
    fitted,
    own_recipe,
    reference_only,
    small,
    tilted,
    with_centres,
)
from uspebm import EnergyDetector
from uspebm.energies.kernel import likeliest_bandwidth
from uspebm.energies.rules import GivenEnergy
from uspebm.recipes.held_out import HeldOut
from uspebm.recipes.named import RecipeName
from uspebm.recipes.tables import TiltedKernel, density_recipe


@parametrize_with_checks([EnergyDetector(max_updates=20)])
def test_scikit_learn_takes_it_for_its_own(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


def test_it_works_where_estimators_do() -> None:
    pipeline = make_pipeline(StandardScaler(), reference_only()).fit(X)
    assert set(pipeline.predict(NEW)) == {-1, 1}
    assert cross_val_score(reference_only(), X, cv=3).shape == (3,)
    for recipe in (with_centres(7), own_recipe(Own()), "tables-srlmc"):
        copied = clone(small(recipe, max_updates=1).fit(X).set_params(max_updates=7))
        assert copied.max_updates == 7
        assert getattr(copied.recipe, "name", "named") == getattr(recipe, "name", "named")
        assert not hasattr(copied, "scorer_")
    assert clone(small(with_centres(7))).recipe == with_centres(7)


def test_a_grid_search_finds_the_likelier_model() -> None:
    """Two centres are worse than two hundred, by far more than log Z may be off by."""
    grid = {"recipe": [with_centres(2), with_centres(200)]}
    search = GridSearchCV(small(), grid, cv=3).fit(X)
    assert search.best_params_ == {"recipe": with_centres(200)}
    few, many = search.cv_results_["mean_test_score"]
    assert many > few + 0.3
    numbers = {"max_updates": np.array([0, 5]), "calibration": np.array([0.2, 0.3])}
    found = GridSearchCV(small(), numbers, cv=2).fit(X)
    assert np.isfinite(found.cv_results_["mean_test_score"]).all()


def test_a_pickle_scores_the_same_bit_for_bit() -> None:
    again = pickle.loads(pickle.dumps(fitted()))
    assert np.array_equal(again.score_samples(NEW), fitted().score_samples(NEW))
    assert again.offset_ == fitted().offset_
    assert again.recipe_ == fitted().recipe_
    assert again.log_z_error_ == fitted().log_z_error_


def test_the_reference_is_made_of_as_many_points_as_it_may_be() -> None:
    for centres, found in ((40, 40), (2000, 216)):  # of 300: 60 calibrate, 24 say when to stop
        reference = tilted(reference_only(with_centres(centres)).fit(X)).reference
        assert reference.centres.shape == (found, 3)
        assert reference.bandwidth.item() == likeliest_bandwidth(reference.centres)[0]


def test_the_seed_decides_everything() -> None:
    expected = fitted().score_samples(NEW)
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    assert np.array_equal(small().fit(X).score_samples(NEW), expected)
    assert np.array_equal(small(random_state=np.int64(0)).fit(X).score_samples(NEW), expected)
    other = small(random_state=1).fit(X).score_samples(NEW)
    assert not np.allclose(other, expected, rtol=1e-3)
    drawn = [small(random_state=np.random.RandomState(0)).fit(X) for _ in range(2)]
    first, second = (found.score_samples(NEW) for found in drawn)
    assert np.array_equal(first, second)
    assert drawn[0].seed_ is not None
    # What a generator drew is kept, and repeats the fit.
    again = small(random_state=drawn[0].seed_).fit(X)
    assert np.array_equal(again.score_samples(NEW), first)


def test_what_ran_is_told_with_all_its_numbers() -> None:
    found = reference_only("tables-srlmc").fit(X)
    recipe = density_recipe("srlmc")
    assert found.recipe_ == replace(recipe, schedule=replace(recipe.schedule, updates=0))
    assert found.seed_ == 0
    assert found.dropped_columns_ == ()
    assert small(max_updates=None).recipe.schedule.updates == 2000


# Recipes

NAMES: list[RecipeName] = ["tables-ps-usp", "tables-srlmc"]


@pytest.mark.parametrize("name", NAMES)
def test_the_other_methods_give_finite_scores(name: RecipeName) -> None:
    found = small(name, max_updates=3).fit(X)
    assert found.recipe_ is not None
    assert found.recipe_.name == name
    assert found.recipe_.schedule.updates == 3
    assert len(found.curve_) == 2
    assert np.isfinite(found.score_samples(NEW)).all()


def test_data_call_for_their_recipe() -> None:
    many = np.random.default_rng(0).integers(0, 256, (700, 16, 16), dtype=np.uint8)
    for points, name in ((X, "tables"), (IMAGES, "pixels"), (many, "images")):
        found = reference_only("auto").fit(points)
        assert found.recipe_ is not None
        assert found.recipe_.name == name


def test_a_tilt_of_ones_own_is_trained_in_a_copy() -> None:
    own = Own()
    recipe = replace(with_centres(5, rate=1e-2), energy=OwnTilt(own))
    found = small(recipe, max_updates=50).fit(X)
    used = tilted(found).network
    assert isinstance(used, Own)
    assert torch.equal(own.weight, Own().weight)
    assert own.weight.grad is None
    assert not torch.equal(used.weight, own.weight)
    assert tilted(found).strength == 1
    assert found.log_z_error_ is not None


def test_an_energy_of_ones_own_is_trained_in_a_copy() -> None:
    """It learns the variances that the data have, each by itself."""
    own = Own()
    found = small(own_recipe(own, updates=400), max_updates=None).fit(X)
    assert torch.equal(own.weight, Own().weight)
    used = found.scorer_.energy
    assert isinstance(used, Own)
    variance = 1 / (2 * 0.5 * used.weight.detach().numpy())
    # Of 240 points a variance is known to √(2 / 240) = 9 %; 200 nodes and batches of 50 add to it.
    assert np.allclose(variance, X.var(0), rtol=0.4)
    assert found.log_z_error_ is None
    assert np.array_equal(found.scorer_.scaling.factor.numpy(), np.ones(()))  # tables as they are


# Settings


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"recipe": "x"}, "recipe='x' must be a Recipe, or one of auto, tables, tables-density"),
        ({"recipe": Own()}, "recipe=Own.* must be a Recipe, or one of"),
        ({"recipe": "images"}, "the images recipe takes images of 1 or 3 channels"),
        ({"calibration": 1.5}, "calibration=1.5 must lie between 0 and 1"),
        ({"calibration": 0.0}, "calibration=0.0 must lie between 0 and 1"),
        ({"max_updates": 1.5}, "max_updates=1.5 must be a whole number"),
        ({"max_updates": -1}, "max_updates=-1 must be a whole number"),
        ({"false_alarm_rate": "often"}, "false_alarm_rate='often' must be"),
        ({"false_alarm_rate": 5}, "false_alarm_rate=5 must lie between 0 and 1"),
        ({"recipe": own_recipe(nn.Linear(3, 1))}, "energy=Linear does not fit"),
        ({"recipe": own_recipe(Own(width=4))}, "energy=Own does not fit points of shape"),
        ({"recipe": replace(density_recipe(), energy=GivenEnergy(Own()))}, "needs a tilted energy"),
    ],
)
def test_bad_settings_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        small(**changes).fit(X)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: TiltedKernel(centres=0), "centres=0 must be a whole number, at least 1"),
        (lambda: HeldOut(patience=0), "patience=0 must be a whole number, at least 1"),
        (lambda: with_centres(5, rate=-1.0), "learning_rate=-1.0 must be a positive number"),
        (
            lambda: replace(density_recipe().schedule, batch_size=0),
            "batch_size=0 must be a whole number, at least 1",
        ),
    ],
)
def test_bad_parts_of_a_recipe_are_refused_at_once(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_nothing_is_printed_unless_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    small(max_updates=2).fit(X)
    assert not any(capsys.readouterr())
    small(max_updates=2, verbose=True).fit(X)
    assert "tables-density 2/2" in capsys.readouterr().out


def test_what_is_not_fitted_says_so() -> None:
    for call in ("predict", "score_samples", "p_values", "explain", "recalibrated", "as_points"):
        with pytest.raises(NotFittedError):
            getattr(EnergyDetector(), call)(X)
    for call in ("verdict", "sample"):
        with pytest.raises(NotFittedError):
            getattr(EnergyDetector(), call)(*([3] if call == "sample" else []))


def test_evaluation_tells_outliers_apart() -> None:
    found = fitted().evaluate(NEW[:20], NEW[20:])
    assert found["auroc"].value > 0.9
