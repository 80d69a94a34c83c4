"""A copy of a model, fitted again, does what trained the model: the same recipe, the same bits."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import nn

from uspebm import EnergyDetector, Recipe, load, save_model, train
from uspebm.data.image_sets import fashion_mnist
from uspebm.data.points import points
from uspebm.energies.rules import ConvRule
from uspebm.experiments.image_problem import FASHION_MNIST, ImageProblem
from uspebm.recipes.images import crowded_recipe, energy_recipe

FROZEN = replace(crowded_recipe((1, 28, 28), 10.0, 10_000), name="images-energy")
"""What the models of Table 1 were trained by."""


def updates(recipe: Recipe, count: int) -> Recipe:
    return replace(recipe, schedule=replace(recipe.schedule, updates=count))


def assert_same_weights(one: nn.Module, other: nn.Module) -> None:
    mine, theirs = one.state_dict(), other.state_dict()
    assert mine.keys() == theirs.keys()
    for name, value in mine.items():
        assert torch.equal(value, theirs[name]), name


def test_a_copy_has_the_recipe_of_table_1() -> None:
    detector = load("fashion-mnist")
    copied = clone(detector)
    assert copied.recipe == detector.recipe_ == FROZEN
    assert copied.max_updates is None
    assert copied.random_state == detector.seed_ == 0
    assert copied.calibration == pytest.approx(5_000 / 60_000)


def small_problem(images: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> ImageProblem:
    scaled = points(images)
    return ImageProblem("small", train=lambda: scaled, test=lambda: scaled, ood={})


@pytest.mark.parametrize("trained_by", ["a recipe", "a folder"])
def test_fitting_is_the_training_of_the_experiments(trained_by: str, tmp_path: Path) -> None:
    """Of 60 images, the experiments' split trains on 56; four are kept for calibration here."""
    images = np.random.default_rng(0).integers(0, 256, (60, 8, 8), dtype=np.uint8)
    data = small_problem(images).split()
    assert [len(part) for part in data] == [56, 2, 2]
    recipe = replace(crowded_recipe((1, 8, 8), 4.0, 40), energy=ConvRule((4, 8, 8), width=16))
    run = train(updates(recipe, 3), data.train, None, seed=0, show=False)
    detector = EnergyDetector(recipe, max_updates=3, calibration=4 / 60, random_state=0)
    if trained_by == "a folder":
        kept = detector.set_params(max_updates=1).fit(images)
        save_model(kept, tmp_path / "model")
        detector = clone(load(tmp_path / "model")).set_params(max_updates=3)
    detector.fit(images)
    assert detector.recipe_ == run.recipe
    assert_same_weights(detector.scorer_.energy, run.energy)
    start = recipe.energy.build(data.train, 0)
    for name, value in start.named_parameters():
        assert not torch.equal(value, run.energy.state_dict()[name]), name
    with pytest.raises(AssertionError):  # another seed, other weights
        other = train(updates(recipe, 3), data.train, None, seed=1, show=False)
        assert_same_weights(other.energy, run.energy)


AT_HAND = pytest.mark.skipif("USPEBM_DATA" not in os.environ, reason="the images are not at hand")


@AT_HAND
def test_the_images_call_for_the_recipe_that_table_1_was_frozen_with() -> None:
    train_images = FASHION_MNIST.split().train
    assert len(train_images) == 55_000
    assert energy_recipe(train_images) == FROZEN


@AT_HAND
def test_the_model_of_the_package_is_trained_again_to_the_bit() -> None:
    detector = clone(load("fashion-mnist")).set_params(max_updates=2)
    detector.fit(fashion_mnist("train").numpy())
    run = train(updates(FROZEN, 2), FASHION_MNIST.split().train, None, seed=0, show=False)
    assert detector.recipe_ == run.recipe
    assert_same_weights(detector.scorer_.energy, run.energy)
