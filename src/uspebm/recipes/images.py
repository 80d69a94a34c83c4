r"""Images: crowded PS-USP for any image shape, its settings from the data.

Particles start at training images and are held so close that half of them are being repelled; one
in twenty starts at a random field, and so do one in twenty of those that are visited. The objective
is the leveled one. What has a length follows from how far images are from each other:

- ε begins at 1.27 times the mean distance from a particle to the nearest other, and then adapts;
- a repulsion is at most ε / 20 long;
- ascents move by :math:`\epsilon^2 / 50` times the gradient: energies of the order of one that
  change over a distance of ε have gradients of the order of 1 / ε.

On Fashion-MNIST this gives the settings that Table 1 was frozen with: 10,000 particles, ε = 10,
repulsions of 0.5, ascents of 2.

Two recipes share all that. ``images`` is what people get: images are scored by the features of the
network, and by those of a smaller one beside it that is not trained
(:mod:`uspebm.energies.features`), which is as good in about a sixth of the time.
``images-energy`` is scored by the energy itself, whose last digits need the rest.

What either learns is a score that orders images by how much they are like the data, not a density:
see RESULTS.md for its bits per dimension.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from ..domains import Box
from ..energies.features import FeatureRule
from ..energies.kernel import pairwise_squared
from ..energies.reading import OF_NETWORKS
from ..energies.rules import ConvRule
from ..negative import CrowdedUSP, PersistentUSP, RandomFields
from ..objective import Leveled
from ..support.randomness import generator
from .recipe import AtData, Recipe, Schedule

PARTICLES = 10_000
LARGEST_SET = 30_000_000
"""Numbers that all particles together may have: of large images there are fewer."""
FEWEST_PARTICLES = 500
CROWDING = 1.27
"""ε over the mean distance to the nearest, to begin with."""
SAMPLED = 2000
"""Images whose nearest others are looked for."""
SIDES = (8, 128)
FILTERS = (32, 64, 128, 128)


class Work(NamedTuple):
    """How much work an update is: points visited, nodes, and rounds of moves of the visited."""

    batch: int
    nodes: int
    rounds: int


FULL_WORK = Work(batch=125, nodes=625, rounds=20)
LIGHT_WORK = Work(batch=64, nodes=128, rounds=5)


def image_recipe(images: Tensor) -> Recipe:
    """For images ``(N, C, H, W)`` in [−1, 1] like these, to be scored by features."""
    recipe, network = _recipe_for("images", images, LIGHT_WORK), _network(images.shape[1:])
    # Half as wide in every layer: a quarter of the work.
    half = ConvRule(tuple(count // 2 for count in network.filters), network.width // 2)
    return replace(recipe, score=FeatureRule(reading=OF_NETWORKS, beside=half))


def energy_recipe(images: Tensor) -> Recipe:
    """For images like these, to be scored by their energy: Table 1's crowded PS-USP."""
    return _recipe_for("images-energy", images, FULL_WORK)


def _recipe_for(name: str, images: Tensor, work: Work) -> Recipe:
    shape = tuple(images.shape[1:])
    if len(shape) != 3 or shape[0] not in (1, 3) or not _in_reach(shape):
        raise ValueError(
            f"the images recipe takes images of 1 or 3 channels with sides from {SIDES[0]} to "
            f"{SIDES[1]} pixels, not {tuple(images.shape)}: resize them, or take another recipe"
        )
    particles = min(PARTICLES, max(FEWEST_PARTICLES, len(images)), LARGEST_SET // math.prod(shape))
    recipe = crowded_recipe(shape, _spacing(images, particles), particles, work)
    return replace(recipe, name=name)


def pixel_recipe() -> Recipe:
    """Neighbours in pixels, and nothing trained: for images too few to learn a network from."""
    return Recipe("pixels", FeatureRule(of="pixels"))


def crowded_recipe(
    shape: tuple[int, ...], spacing: float, particles: int, work: Work = FULL_WORK
) -> Recipe:
    """Crowded PS-USP with a leveled objective, for so many particles at this spacing."""
    batch = min(work.batch, particles // 4)
    partition = PersistentUSP(
        domain=Box(-1.0, 1.0, shape),
        particles=particles,
        spacing=spacing,
        active=batch,
        nodes=min(work.nodes, particles),
        rounds=work.rounds,
        ascent_size=spacing**2 / 50,
        repulsion_size=spacing / 20,
    )
    channels, height, width = shape
    crowded = CrowdedUSP(
        phase=partition,
        restarts=batch / 20,
        fresh=RandomFields((channels, height, width), _cells(min(height, width))),
    )
    return Recipe(
        name="crowded",
        energy=_network(shape),
        phase=crowded,
        schedule=Schedule(
            updates=2400,
            batch_size=work.batch,
            learning_rate=1e-3,
            cooling=0.25,
            average_decay=0.995,
            snapshot_every=150,
            rollbacks=3,
        ),
        objective=Leveled(10.0),
        start=AtData(afresh=0.05),
    )


def _network(shape: Sequence[int]) -> ConvRule:
    return ConvRule(FILTERS[: 3 if min(shape[1:]) <= 64 else 4])


def _in_reach(shape: tuple[int, ...]) -> bool:
    return all(SIDES[0] <= side <= SIDES[1] for side in shape[1:])


def _cells(side: int) -> tuple[int, ...]:
    """Sides of the grids that random fields are drawn on: 2, 4, and fractions of the image's."""
    return tuple(sorted({2, 4, *(max(2, side // k) for k in (4, 2, 1))}))


def _spacing(images: Tensor, particles: int) -> float:
    """ε to begin with, to two digits: it adapts."""
    draws = generator(0, "spacing")
    chosen = images[torch.randperm(len(images), generator=draws)[:particles]].flatten(1)
    squared = pairwise_squared(chosen[:SAMPLED], chosen).fill_diagonal_(math.inf)
    nearest = squared.min(1).values.sqrt().mean().item()
    if not 0 < nearest < math.inf:
        raise ValueError("all images are alike, or there is one: there is nothing to learn")
    return float(f"{CROWDING * nearest:.2g}")
