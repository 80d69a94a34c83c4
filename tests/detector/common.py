"""Data and detectors that several tests share."""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from uspebm import Box, EnergyDetector, Importance, Recipe
from uspebm.energies.kernel import KernelReference, TiltedEnergy
from uspebm.energies.rules import GivenEnergy
from uspebm.recipes import Schedule
from uspebm.recipes.tables import TiltedKernel, density_recipe

Values = NDArray[np.float64]
X = np.random.default_rng(0).normal(size=(300, 3)) @ [[1, 0.8, 0], [0, 0.5, 0], [0, 0, 2]]
NEW = np.concatenate([X[:20] + 0.1, np.random.default_rng(1).normal(4, 1, size=(20, 3))])
IMAGES = np.random.default_rng(0).integers(0, 256, size=(80, 8, 9, 3)).astype(np.uint8)


def with_centres(centres: int, rate: float = 1e-3) -> Recipe:
    """The tables recipe; with few centres its reference is poor, and there is much to learn."""
    recipe = density_recipe()
    schedule = replace(recipe.schedule, learning_rate=rate)
    return replace(recipe, energy=TiltedKernel(centres), schedule=schedule)


def small(recipe: Any = None, **changes: Any) -> EnergyDetector:
    """Fitted in a fraction of a second, and with a network that is kept."""
    settings = {"random_state": 0, "max_updates": 20} | changes
    return EnergyDetector(recipe or with_centres(20, rate=1e-2), **settings)


def reference_only(recipe: Any = "tables-density", **changes: Any) -> EnergyDetector:
    """No network is trained."""
    return small(recipe, **{"max_updates": 0} | changes)


@cache
def fitted() -> EnergyDetector:
    """``small`` on ``X``; whoever changes it copies it first."""
    detector = small().fit(X)
    assert tilted(detector).strength == 1
    return detector


def tilted(detector: EnergyDetector) -> TiltedEnergy:
    energy = detector.scorer_.energy
    assert isinstance(energy, TiltedEnergy)
    return energy


class Own(nn.Module):
    """An energy of a user's: quadratic, in double precision, with a weight and a buffer."""

    scale: Tensor

    def __init__(self, width: int = 3) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((width,), 0.1, dtype=torch.float64))
        self.register_buffer("scale", torch.tensor(0.5, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        energy: Tensor = self.scale * (self.weight * x.double().square()).sum(1)
        return energy


@dataclass(frozen=True, eq=False)
class OwnTilt:
    """A rule of a user's: a module of their own on top of a kernel density."""

    network: nn.Module
    centres: int = 5

    def build(self, points: Tensor, seed: int) -> TiltedEnergy:
        reference = KernelReference(points[: self.centres], 1.0)
        return TiltedEnergy(GivenEnergy(self.network).build(points, seed), reference)


def own_recipe(module: nn.Module, updates: int = 20) -> Recipe:
    """A module of the user's own, trained on tables as they are."""
    phase = Importance(Box(-10.0, 10.0, (3,)), nodes=200)
    return Recipe("mine", GivenEnergy(module), phase, Schedule(updates, 50, learning_rate=1e-2))
