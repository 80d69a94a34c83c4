"""An energy that was trained elsewhere becomes a calibrated detector, is saved and comes back."""

import copy
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import Tensor, nn

from tests.detector.common import NEW, Own, OwnTilt, X, own_recipe, small, with_centres
from tests.detector.signing import about
from uspebm import MLP, Box, EnergyDetector, Importance, Recipe, load, save_model, train
from uspebm.detector.folder import ModelFileError
from uspebm.energies.rules import GivenEnergy
from uspebm.energies.scaling import Scaling, of_table
from uspebm.recipes import Schedule
from uspebm.support.randomness import generator

SHAPE = (3, 8, 8)


class Pictures(nn.Module):
    """A user's network for images, with dropout, which must not be heard of when scoring."""

    def __init__(self, filters: int = 4) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, filters, 3, stride=2),
            nn.SiLU(),
            nn.Dropout(0.5),
            nn.Flatten(),
            nn.Linear(9 * filters, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        energy: Tensor = self.net(x).squeeze(1)
        return energy


def pictures(n: int, seed: int) -> Tensor:
    """A bright spot on a dark field, and some noise."""
    noise = 0.1 * torch.randn(n, *SHAPE, generator=generator(seed))
    noise[:, :, 2:5, 2:5] += 0.8
    return noise - 0.4


PHASE = Importance(Box(-1.0, 1.0, SHAPE), nodes=64)


@pytest.fixture(scope="module")
def trained() -> nn.Module:
    torch.manual_seed(0)
    recipe = Recipe("mine", GivenEnergy(Pictures()), PHASE, Schedule(30, 32, learning_rate=3e-3))
    return train(recipe, pictures(200, seed=0), None, seed=0, show=False).energy


@pytest.fixture(scope="module")
def detector(trained: nn.Module) -> EnergyDetector:
    return EnergyDetector.from_energy(trained, pictures(399, seed=1))


def test_a_trained_module_becomes_a_calibrated_detector(
    trained: nn.Module, detector: EnergyDetector
) -> None:
    assert detector.event_shape_ == SHAPE
    assert detector.n_features_in_ == math.prod(SHAPE)
    assert len(detector.calibration_scores_) == 399
    assert not detector.of_bytes_
    new = pictures(1000, seed=2)
    with torch.no_grad():
        energy = copy.deepcopy(trained).eval()(new).double().numpy()
    assert np.allclose(detector.score_samples(new.numpy()), -energy, rtol=1e-5, atol=1e-5)
    # Beta(20, 380) and 1,000 points: 0.05 with a deviation of 0.013.
    assert (detector.predict(new) == -1).mean() == pytest.approx(0.05, abs=4 * 0.013)
    inside_out = pictures(100, seed=3).neg()
    assert (detector.predict(inside_out) == -1).all()
    assert detector.evaluate(new[:200], inside_out)["auroc"].value > 0.99


def test_axes_may_come_in_any_order(detector: EnergyDetector) -> None:
    new = pictures(10, seed=2)
    channels_last = new.permute(0, 2, 3, 1)
    assert np.array_equal(detector.score_samples(new), detector.score_samples(channels_last))
    again = EnergyDetector.from_energy(
        detector.scorer_.energy, pictures(399, seed=1).permute(0, 2, 3, 1)
    )
    assert np.array_equal(again.calibration_scores_, detector.calibration_scores_)


def test_it_is_saved_and_comes_back_with_its_energy(
    detector: EnergyDetector, tmp_path: Path
) -> None:
    save_model(detector, tmp_path / "model")
    with pytest.raises(
        ModelFileError, match=r"maker's own: give one that is built alike as load\(\.\.\., energy="
    ) as error:
        load(tmp_path / "model")
    assert str(error.value).startswith(str(tmp_path / "model"))
    assert "\n" not in str(error.value)
    mine = Pictures()
    before = copy.deepcopy(mine.state_dict())
    again = load(tmp_path / "model", energy=mine)
    new = pictures(50, seed=2)
    assert np.array_equal(again.score_samples(new), detector.score_samples(new))
    assert np.array_equal(again.predict(new), detector.predict(new))
    assert again.offset_ == detector.offset_
    # The given module is copied, weights and mode.
    assert all(torch.equal(value, before[name]) for name, value in mine.state_dict().items())
    assert mine.training
    for other in (Pictures(filters=5), Pictures().double(), MLP(SHAPE)):
        with pytest.raises(ModelFileError, match="or energy is another one") as error:
            load(tmp_path / "model", energy=other)
        assert "\n" not in str(error.value)


def test_later_changes_of_the_module_do_not_reach_the_detector() -> None:
    module = nn.Sequential(Own(), nn.Identity()).train()
    found = EnergyDetector.from_energy(module, X)
    expected = found.score_samples(NEW)
    assert module.training
    with torch.no_grad():
        next(module.parameters()).mul_(2)
    assert np.array_equal(found.score_samples(NEW), expected)


def test_units_are_those_that_are_given() -> None:
    units = of_table(torch.from_numpy(X))
    found = EnergyDetector.from_energy(Own(), X, scaling=units)
    with torch.no_grad():
        energy = Own()(units(torch.from_numpy(NEW)))
    assert np.array_equal(found.score_samples(NEW), -energy.numpy())
    doubled = Scaling(torch.zeros(3), torch.tensor(2.0))
    known = EnergyDetector.from_energy(Own(), X, scaling=doubled, log_z=(1.0, 0.5))
    # A density in units half as large: each of three columns adds log 2.
    expected = -Own()(2 * torch.from_numpy(NEW)).detach().numpy() - 1 + 3 * math.log(2)
    assert np.allclose(known.score_samples(NEW), expected)
    assert known.log_z_error_ == 0.5


def test_bytes_can_be_scored_by_a_model_of_scaled_images(trained: nn.Module) -> None:
    draws = np.random.default_rng(0).integers(0, 256, (60, 8, 8, 3), dtype=np.uint8)
    floats = (draws / 127.5 - 1).astype(np.float32)
    found = EnergyDetector.from_energy(trained, floats, of_bytes=True)
    assert found.of_bytes_
    assert np.allclose(found.score_samples(draws), found.score_samples(floats), atol=1e-5)
    from_bytes = EnergyDetector.from_energy(trained, draws)
    assert np.allclose(from_bytes.calibration_scores_, found.calibration_scores_, atol=1e-5)


@pytest.mark.parametrize(
    ("energy", "message"),
    [
        (nn.Linear(3, 1), r"does not fit points of shape \(3,\): the energy returned .*, 1\) for"),
        (nn.Linear(2, 1), r"energy=Linear does not fit points of shape \(3,\): mat1 and mat2"),
        (nn.Flatten(0), "energy=Flatten does not fit .* one number per point"),
    ],
)
@pytest.mark.parametrize("points", [1, 300])
def test_energies_that_do_not_fit_are_refused(energy: nn.Module, message: str, points: int) -> None:
    with pytest.raises(ValueError, match=message) as error:
        EnergyDetector.from_energy(energy, X[:points], false_alarm_rate=0.5)
    assert "\n" not in str(error.value)


# Fitting again


def refused_again(detector: EnergyDetector) -> None:
    with pytest.raises(
        ValueError, match=r"a recipe of its maker's own, .*: set recipe to"
    ) as error:
        clone(detector).fit(X)
    assert "\n" not in str(error.value)


def test_what_was_trained_elsewhere_is_not_fitted_again_by_another_recipe(tmp_path: Path) -> None:
    found = EnergyDetector.from_energy(Own(), X)
    refused_again(found)
    save_model(found, tmp_path / "model")
    assert about(tmp_path / "model")["recipe"] is None
    again = load(tmp_path / "model", energy=Own())
    refused_again(again)
    assert clone(again).set_params(recipe="tables", max_updates=0).fit(X).recipe_ is not None


@pytest.mark.parametrize("kind", ["an energy", "a tilt", "a rule that is no dataclass"])
def test_what_a_recipe_of_ones_own_trained_is_not_fitted_again_by_another(
    tmp_path: Path, kind: str
) -> None:
    class Rule:
        def build(self, points: Tensor, seed: int) -> nn.Module:
            return Own()

    usual = with_centres(5)
    recipes = {
        "an energy": own_recipe(Own()),
        "a tilt": Recipe("mine", OwnTilt(Own()), usual.phase, usual.schedule),
        "a rule that is no dataclass": replace(own_recipe(Own()), energy=Rule()),
    }
    found = small(recipes[kind], max_updates=2).fit(X)
    again = clone(found).fit(X)  # the recipe is at hand
    assert np.array_equal(again.score_samples(NEW), found.score_samples(NEW))
    save_model(found, tmp_path / "model")
    assert about(tmp_path / "model")["recipe"]["name"] == "mine"
    loaded = load(tmp_path / "model", energy=found.scorer_.energy)
    assert np.array_equal(loaded.score_samples(NEW), found.score_samples(NEW))
    refused_again(loaded)
