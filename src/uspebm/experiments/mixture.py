"""The six-mode mixture in the plane (the paper's section 6.1), and how a model of it is judged."""

from typing import NamedTuple

import torch

from ..appendix import MODES, PLANE
from ..density import GridDensity, grid_density, kl, mass_by_nearest, ood_share
from ..energies import GaussianMixture
from ..types import Energy

MIXTURE = GaussianMixture(MODES, std=0.1)
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
    return grid_density(MIXTURE, PLANE, CELLS)


def measure(energy: Energy, seconds: float) -> tuple[GridDensity, Measured]:
    """The model's density on the grid, and how it compares with the truth."""
    p, q = truth(), grid_density(energy, PLANE, CELLS)
    masses = mass_by_nearest(q, torch.tensor(MODES))
    return q, Measured(kl(p, q), masses, ood_share(p, q), seconds)
