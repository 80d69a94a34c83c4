"""Data and recipes that several tests train with."""

from dataclasses import replace

import torch
from torch import Tensor

from uspebm.recipes import Recipe
from uspebm.recipes.held_out import HeldOut
from uspebm.recipes.tables import TiltedKernel, density_recipe
from uspebm.support.randomness import generator


def mixture(n: int, seed: int = 0) -> Tensor:
    """Three correlated Gaussians in five dimensions."""
    laws = generator(7)
    roots = torch.randn(3, 5, 5, generator=laws) / 2
    means = 2 * torch.randn(3, 5, generator=laws)
    draws = generator(seed)
    k = torch.randint(3, (n,), generator=draws)
    noise = torch.randn(n, 5, generator=draws)
    return means[k] + torch.einsum("ni,nij->nj", noise, roots[k])


def small_table(
    centres: int = 20, updates: int = 100, rate: float = 1e-3, held_out: HeldOut | None = None
) -> Recipe:
    """The tables recipe with a poor reference, and so something to learn."""
    recipe = density_recipe()
    schedule = replace(
        recipe.schedule,
        updates=updates,
        learning_rate=rate,
        batch_size=100,
        held_out=held_out or HeldOut(patience=3),
    )
    return replace(recipe, energy=TiltedKernel(centres), schedule=schedule)


def small_images(n: int, shape: tuple[int, ...] = (1, 8, 8), seed: int = 0) -> Tensor:
    """Random bytes, scaled."""
    return 2 * torch.rand(n, *shape, generator=generator(seed, "images")) - 1
