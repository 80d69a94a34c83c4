"""Energy-based models whose density can be trusted, by uniform support partitioning."""

from importlib import import_module
from typing import TYPE_CHECKING

from . import _openmp  # noqa: F401  before anything that imports torch
from .annealing import Annealing, importance_log_z
from .checkpoint import (
    CheckpointError,
    checkpointed,
    load_snapshot,
    resume,
    save,
    save_snapshot,
)
from .density import grid_density
from .domains import Box
from .energies import MLP, Conv, Gaussian, GaussianMixture, Reconstruction
from .negative import (
    USP,
    CrowdedUSP,
    Importance,
    Langevin,
    Particles,
    PersistentUSP,
    Replay,
    RiemannGrid,
)
from .objective import effective_sample_size, mle_surrogate
from .train import DivergedError, Record, TrainState, fit
from .types import Energy, NegativePhase, Nodes, NonFiniteError

if TYPE_CHECKING:
    from .detector import EnergyDetector
    from .modelfile import load
    from .modelfile import save as save_model

__version__ = "0.1.0"

# They need scikit-learn and matplotlib, which take longer to import than all else: when asked for.
_LATER = {
    "EnergyDetector": ("detector", "EnergyDetector"),
    "load": ("modelfile", "load"),
    "save_model": ("modelfile", "save"),
}


def __getattr__(name: str) -> object:
    if name not in _LATER:
        raise AttributeError(f"module 'uspebm' has no attribute {name!r}")
    module, attribute = _LATER[name]
    return getattr(import_module(f".{module}", __name__), attribute)


__all__ = [
    "MLP",
    "USP",
    "Annealing",
    "Box",
    "CheckpointError",
    "Conv",
    "CrowdedUSP",
    "DivergedError",
    "Energy",
    "EnergyDetector",
    "Gaussian",
    "GaussianMixture",
    "Importance",
    "Langevin",
    "NegativePhase",
    "Nodes",
    "NonFiniteError",
    "Particles",
    "PersistentUSP",
    "Reconstruction",
    "Record",
    "Replay",
    "RiemannGrid",
    "TrainState",
    "checkpointed",
    "effective_sample_size",
    "fit",
    "grid_density",
    "importance_log_z",
    "load",
    "load_snapshot",
    "mle_surrogate",
    "resume",
    "save",
    "save_model",
    "save_snapshot",
]
