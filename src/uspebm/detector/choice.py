"""Which recipe data get, in which units, and for how long."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from ..energies.scaling import Scaling, as_is, of_images, of_pixels, of_table
from ..recipes import Recipe
from ..recipes.budget import within_minutes
from ..recipes.named import RecipeName, name_for, recipe_named
from ..recipes.signature import recipe_in
from ..recipes.tables import TiltedKernel

OWN = "own"
"""Stands for a recipe of its maker's own, which a model folder cannot hold."""


def units_and_recipe(
    wanted: Recipe | RecipeName, inside: Tensor, max_updates: int | None
) -> tuple[Scaling, Recipe]:
    """Units for the training points, and the recipe with all its numbers."""
    if wanted == OWN:
        raise ValueError(
            f"recipe={OWN!r}: this model was trained by a recipe of its maker's own, which is "
            "not kept with it: set recipe to that one, or to another"
        )
    name: Any = name_for(inside) if wanted == "auto" else wanted
    if name in ("images", "images-energy"):
        units = of_pixels(inside)
        recipe = recipe_named(name, units(inside).float())
    else:
        recipe = name if isinstance(name, Recipe) else recipe_named(name, inside)
        units = _units(recipe, inside)
    if max_updates is not None and recipe.phase is not None:
        recipe = replace(recipe, schedule=replace(recipe.schedule, updates=int(max_updates)))
    return units, recipe


def _units(recipe: Recipe, inside: Tensor) -> Scaling:
    if isinstance(recipe.energy, TiltedKernel):
        return (of_table if inside.dim() == 2 else of_images)(inside)
    if inside.dim() > 2 and recipe.phase is None:
        return of_images(inside)
    return as_is(tuple(inside.shape[1:])) if inside.dim() == 2 else of_pixels(inside)


def budgeted(
    recipe: Recipe,
    points: Tensor,
    minutes: float | None,
    folder: Path | None,
    seed: int,
    device: str = "cpu",
) -> Recipe:
    """``recipe`` with as many updates as fit; those that an interrupted run was begun with."""
    if minutes is None or recipe.phase is None:
        return recipe
    begun = None if folder is None else recipe_in(folder)
    if begun is not None:
        begun = replace(begun, score=recipe.score)
        if replace(begun, schedule=recipe.schedule) == recipe:
            return begun
    return within_minutes(recipe, points, minutes, seed, device)
