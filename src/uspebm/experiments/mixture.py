"""The six-mode mixture in the plane (the paper's section 6.1), and how a model of it is judged."""

import math
from typing import NamedTuple

import torch

from ..density import GridDensity, grid_density, kl, mass_by_nearest, ood_share
from ..domains import Box
from ..energies import Gaussian, GaussianMixture
from ..negative import Langevin, Replay
from ..types import Energy

DOMAIN = Box(-2.0, 2.0, shape=(2,))
MODES = tuple((math.cos(k * math.pi / 3), math.sin(k * math.pi / 3)) for k in range(6))
MIXTURE = GaussianMixture(MODES, std=0.1)
RIGHTMOST = Gaussian(MODES[0], std=0.1)
SRLMC = Replay(
    Langevin(RIGHTMOST, chains=1000, steps=40, step_size=1e-3, noise_scale=1e-4),
    capacity=50_000,
    refresh=0.05,
)
"""Chains that start where the partition points do; the appendix's settings."""
CELLS = 200
"""Grid cells per axis: a fifth of the modes' width, so that sums over the grid are exact."""


class Measured(NamedTuple):
    """How well a model has learned the mixture."""

    kl: float
    mode_mass: list[float]
    ood_share: float
    seconds: float


def truth() -> GridDensity:
    """The mixture on the grid."""
    return grid_density(MIXTURE, DOMAIN, CELLS)


def measure(energy: Energy, seconds: float) -> tuple[GridDensity, Measured]:
    """The model's density on the grid, and how it compares with the truth."""
    p, q = truth(), grid_density(energy, DOMAIN, CELLS)
    masses = mass_by_nearest(q, torch.tensor(MODES))
    return q, Measured(kl(p, q), masses, ood_share(p, q), seconds)
