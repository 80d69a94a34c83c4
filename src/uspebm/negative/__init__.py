"""Negative phases: ways to stand in for the model's distribution by weighted points, one per file.

May know: neighbour search, energies, domains and types. Knows nothing of training.
"""

from .crowded_usp import CrowdedState, CrowdedUSP, CrowdedUSPInfo
from .interpolated import Interpolated
from .langevin import Langevin, LangevinInfo
from .partition import Particles
from .persistent_usp import PersistentUSP, PersistentUSPInfo
from .quadrature import FixedNodes, Importance, RiemannGrid, TiltImportance
from .random_fields import RandomFields
from .replay import Replay, ReplayState
from .usp import USP, USPInfo

__all__ = [
    "USP",
    "CrowdedState",
    "CrowdedUSP",
    "CrowdedUSPInfo",
    "FixedNodes",
    "Importance",
    "Interpolated",
    "Langevin",
    "LangevinInfo",
    "Particles",
    "PersistentUSP",
    "PersistentUSPInfo",
    "RandomFields",
    "Replay",
    "ReplayState",
    "RiemannGrid",
    "TiltImportance",
    "USPInfo",
]
