"""Energy-based models whose density can be trusted, by uniform support partitioning."""

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

__version__ = "0.1.0"

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
    "load_snapshot",
    "mle_surrogate",
    "resume",
    "save",
    "save_snapshot",
]
