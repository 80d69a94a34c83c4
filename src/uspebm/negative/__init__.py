"""Negative phases: ways to stand in for the model's distribution by weighted points."""

from .crowded import CrowdedState, CrowdedUSP, CrowdedUSPInfo
from .langevin import Langevin, LangevinInfo
from .partition import Particles
from .persistent_usp import PersistentUSP, PersistentUSPInfo
from .quadrature import Importance, RiemannGrid
from .replay import Replay, ReplayState
from .usp import USP, USPInfo

__all__ = [
    "USP",
    "CrowdedState",
    "CrowdedUSP",
    "CrowdedUSPInfo",
    "Importance",
    "Langevin",
    "LangevinInfo",
    "Particles",
    "PersistentUSP",
    "PersistentUSPInfo",
    "Replay",
    "ReplayState",
    "RiemannGrid",
    "USPInfo",
]
