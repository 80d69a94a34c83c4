"""Recipes by name, and which one data call for."""

from typing import Literal, get_args

from torch import Tensor

from .images import SIDES, energy_recipe, image_recipe, pixel_recipe
from .recipe import Recipe
from .tables import density_recipe, table_recipe

RecipeName = Literal[
    "auto",
    "tables",
    "tables-density",
    "tables-ps-usp",
    "tables-srlmc",
    "images",
    "images-energy",
    "pixels",
]
RECIPE_NAMES: tuple[RecipeName, ...] = get_args(RecipeName)
ENOUGH_IMAGES = 500
"""From here on a network's features tell more than pixels do (LOG.md has the figures)."""
LEAST_SIDE = 16
"""Of images that a network learns more from than pixels tell: of 8 × 8 its poolings leave one."""


def name_for(points: Tensor) -> RecipeName:
    """What points ``(N, *event)`` call for: tables, images, or pixels where images are few."""
    if points.dim() == 2:
        return "tables"
    channels, *sides = points.shape[1:]
    fits = channels in (1, 3) and all(LEAST_SIDE <= side <= SIDES[1] for side in sides)
    return "images" if fits and len(points) >= ENOUGH_IMAGES else "pixels"


def recipe_named(name: RecipeName, points: Tensor) -> Recipe:
    """The recipe of that name for ``points`` in its units; images' lie in [−1, 1]."""
    if name == "images":
        return image_recipe(points)
    if name == "images-energy":
        return energy_recipe(points)
    if name == "pixels":
        return pixel_recipe()
    if name == "tables":
        return table_recipe()
    methods: dict[str, Literal["importance", "ps-usp", "srlmc"]] = {
        "tables-density": "importance",
        "tables-ps-usp": "ps-usp",
        "tables-srlmc": "srlmc",
    }
    if name not in methods:
        raise ValueError(f"recipe={name!r} must be a Recipe, or one of {', '.join(RECIPE_NAMES)}")
    return density_recipe(methods[name])
