"""The same energy and the same data with other nodes: what overestimation comes from.

SRLMC's samples look like the data and score nearly like them, so training is content whatever the
density does elsewhere. Whether that is up to the nodes, or to the network or the data, shows when
only the nodes are exchanged.
"""

from copy import deepcopy
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from ..energies.rules import GivenEnergy
from ..negative import FixedNodes, Replay
from ..recipes import Recipe, Run, Schedule
from ..recipes.recipe import Noisy
from ..training import Share
from ..types import Proposal

UPDATES = 200
RATE = 1e-4
"""A tenth of the training's: the weights are at rest and the optimiser is new."""


def with_own_nodes(
    energy: nn.Module, recipe: Recipe, negative: tuple[Any, ...], images: Tensor, seed: int
) -> nn.Module:
    """A copy of ``energy`` trained on by its own recipe, from the phase's state ``negative``."""
    run = Run(_onward(energy, recipe), _data(recipe, images), None, seed, show=False)
    run.state.negative = deepcopy(negative)
    return _finished(run)


def with_points(
    energy: nn.Module, recipe: Recipe, points: Tensor, images: Tensor, seed: int
) -> nn.Module:
    """The same with ``points``, which stay where they are, for quadrature nodes."""
    nodes = FixedNodes(points, min(recipe.schedule.batch_size, len(points)))
    onward = replace(_onward(energy, recipe), phase=nodes)
    return _finished(Run(onward, _data(recipe, images), None, seed, show=False))


def _onward(energy: nn.Module, recipe: Recipe) -> Recipe:
    """``UPDATES`` of the given weights, or as many as the recipe's whole training has."""
    updates = min(UPDATES, recipe.schedule.updates)
    return replace(
        recipe,
        energy=GivenEnergy(energy),
        schedule=Schedule(updates, recipe.schedule.batch_size, learning_rate=RATE),
        start=None,
        noise=0.0,
    )


def _data(recipe: Recipe, images: Tensor) -> Proposal:
    """With the recipe's noise, in its own domain: points that stay in their place know of none."""
    assert isinstance(recipe.phase, Replay)
    return Noisy(Share.of(images), recipe.noise, recipe.phase.domain)


def _finished(run: Run) -> nn.Module:
    for _ in run:
        pass
    return run.energy
