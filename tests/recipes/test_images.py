"""The images recipe finds its lengths in the data, and trains on every shape it says it does."""

from dataclasses import replace

import pytest
import torch

from tests.recipes.common import small_images
from uspebm import Leveled, Recipe, train
from uspebm.energies.features import FeatureEnergy, Pixels
from uspebm.negative import CrowdedUSP
from uspebm.recipes.images import CROWDING, crowded_recipe, image_recipe, pixel_recipe
from uspebm.recipes.named import RECIPE_NAMES, name_for, recipe_named
from uspebm.support.randomness import generator


def crowded(recipe: Recipe) -> CrowdedUSP:
    assert isinstance(recipe.phase, CrowdedUSP)
    return recipe.phase


def test_lengths_scale_with_the_distances_between_images() -> None:
    images = 0.5 * small_images(600)
    near, far = crowded(image_recipe(images / 2)).phase, crowded(image_recipe(images)).phase
    assert far.spacing == pytest.approx(2 * near.spacing, rel=0.06)  # two digits
    assert far.repulsion_size == pytest.approx(far.spacing / 20)
    assert far.ascent_size == pytest.approx(far.spacing**2 / 50)
    distance = torch.cdist(images.flatten(1), images.flatten(1)).fill_diagonal_(torch.inf)
    assert far.spacing == pytest.approx(CROWDING * distance.min(1).values.mean().item(), rel=0.06)


def test_the_settings_of_table_1_come_of_the_rule_for_28_pixels() -> None:
    recipe = crowded_recipe((1, 28, 28), 10.0, 10_000)
    phase = crowded(recipe)
    assert (phase.phase.ascent_size, phase.phase.repulsion_size) == (2.0, 0.5)
    assert (phase.phase.active, phase.phase.nodes, phase.phase.rounds) == (125, 625, 20)
    assert (phase.restarts, phase.violating) == (6.25, 0.5)
    assert phase.fresh is not None
    assert phase.fresh.cells == (2, 4, 7, 14, 28)  # type: ignore[attr-defined]
    assert recipe.objective == Leveled(10.0)


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 8, 12), (1, 17, 31), (3, 32, 32), (1, 128, 128)])
def test_it_trains_on_every_shape_it_takes(shape: tuple[int, ...]) -> None:
    images = small_images(60, shape)
    recipe = image_recipe(images)
    phase = crowded(recipe)
    small = replace(
        recipe,
        phase=replace(phase, phase=replace(phase.phase, rounds=1, active=10, nodes=20)),
        schedule=replace(recipe.schedule, updates=2, batch_size=10),
    )
    run = train(small, images, None, 0, show=False)
    assert run.state.step == 2
    assert torch.isfinite(run.energy(images)).all()


def test_of_large_images_there_are_fewer_particles() -> None:
    images = small_images(40, (3, 128, 128))
    assert crowded(image_recipe(images)).particles == 500
    assert crowded(image_recipe(small_images(700))).particles == 700


@pytest.mark.parametrize("shape", [(1, 7, 8), (2, 8, 8), (1, 129, 20), (5,)])
def test_other_shapes_are_refused_with_what_to_do(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"1 or 3 channels with sides from 8 to 128 .*: resize"):
        image_recipe(small_images(10, shape))


def test_images_that_are_all_alike_are_refused() -> None:
    with pytest.raises(ValueError, match="all images are alike"):
        image_recipe(torch.zeros(20, 1, 8, 8))


def test_data_call_for_a_recipe() -> None:
    assert name_for(torch.zeros(5000, 784)) == "tables"
    assert name_for(torch.zeros(500, 1, 16, 16)) == "images"
    assert name_for(torch.zeros(499, 1, 16, 16)) == "pixels"
    assert name_for(torch.zeros(500, 2, 16, 16)) == "pixels"
    assert name_for(torch.zeros(500, 1, 15, 16)) == "pixels"
    assert name_for(torch.zeros(500, 3, 16, 129)) == "pixels"


def test_pixels_are_scored_by_their_neighbours_and_nothing_is_trained() -> None:
    images = torch.rand(60, 1, 4, 4, generator=generator(0))
    recipe = pixel_recipe()
    assert recipe.phase is None
    with pytest.raises(ValueError, match="recipe pixels trains nothing"):
        train(recipe, images, None, seed=0, show=False)
    energy = recipe.energy.build(images, seed=0)
    assert isinstance(energy, FeatureEnergy)
    assert isinstance(energy.network, Pixels)
    kept = {tuple(row) for row in energy.centres.tolist()}
    assert kept == {tuple(row) for row in images.flatten(1).tolist()}


@pytest.mark.parametrize("name", [name for name in RECIPE_NAMES if name != "auto"])
def test_recipes_are_called_by_their_names(name: str) -> None:
    images = torch.rand(20, 1, 8, 8, generator=generator(0))
    assert recipe_named(name, images).name == name  # type: ignore[arg-type]


def test_a_wrong_name_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ValueError, match="recipe='table' must be a Recipe, or one of auto, tables"):
        recipe_named("table", torch.zeros(2, 2))  # type: ignore[arg-type]
