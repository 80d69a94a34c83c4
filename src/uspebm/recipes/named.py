"""Recipes by name, and which one data call for."""

from typing import Literal, get_args

from torch import Tensor

from .images import SIDES, image_recipe
from .recipe import Recipe
from .tables import pixel_recipe, table_recipe

RecipeName = Literal["auto", "tables", "tables-ps-usp", "tables-srlmc", "images", "pixels"]
RECIPE_NAMES: tuple[RecipeName, ...] = get_args(RecipeName)
ENOUGH_IMAGES = 2000
"""From here on a network learns more from images than a kernel over pixels tells."""


def name_for(points: Tensor) -> RecipeName:
    """What points ``(N, *event)`` call for: tables, images, or pixels where images are few."""
    if points.dim() == 2:
        return "tables"
    channels, *sides = points.shape[1:]
    fits = channels in (1, 3) and all(SIDES[0] <= side <= SIDES[1] for side in sides)
    return "images" if fits and len(points) >= ENOUGH_IMAGES else "pixels"


def recipe_named(name: RecipeName, points: Tensor) -> Recipe:
    """The recipe of that name for ``points`` in its units; images' lie in [−1, 1]."""
    if name == "images":
        return image_recipe(points)
    if name == "pixels":
        return pixel_recipe()
    methods: dict[str, Literal["importance", "ps-usp", "srlmc"]] = {
        "tables": "importance",
        "tables-ps-usp": "ps-usp",
        "tables-srlmc": "srlmc",
    }
    if name not in methods:
        raise ValueError(f"recipe={name!r} must be a Recipe, or one of {', '.join(RECIPE_NAMES)}")
    return table_recipe(methods[name])
