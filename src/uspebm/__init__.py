"""Energy-based models by uniform support partitioning, and outlier detectors made of them.

Every name is imported when it is first asked for: ``import uspebm`` costs nothing, and the command
answers ``--help`` without torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from . import _openmp  # noqa: F401  before anything that imports torch

if TYPE_CHECKING:
    from .detector.arrow import arrow_scorer
    from .detector.energy_detector import EnergyDetector
    from .detector.folder import load, save_model
    from .detector.pipelines import load_pipeline, pipeline_to_onnx, save_pipeline
    from .domains import Box
    from .energies import MLP, Conv, Gaussian, GaussianMixture, Reconstruction
    from .evaluation.annealing import Annealing, importance_log_z
    from .evaluation.grid_density import grid_density
    from .evaluation.sampling import Chains, Samples, sample
    from .negative import (
        USP,
        CrowdedUSP,
        FixedNodes,
        Importance,
        Langevin,
        Particles,
        PersistentUSP,
        Replay,
        RiemannGrid,
    )
    from .objective import (
        Leveled,
        Likelihood,
        Objective,
        Tempered,
        effective_sample_size,
        mle_surrogate,
    )
    from .recipes import Recipe, train
    from .training import (
        CheckpointError,
        DivergedError,
        Record,
        TrainState,
        checkpointed,
        fit,
        load_snapshot,
        resume,
        save,
        save_snapshot,
    )
    from .types import Energy, NegativePhase, Nodes, NonFiniteError

__version__ = "0.2.0"

_ROOMS = {
    "detector.arrow": ("arrow_scorer",),
    "detector.energy_detector": ("EnergyDetector",),
    "detector.folder": ("load", "save_model"),
    "detector.pipelines": ("load_pipeline", "pipeline_to_onnx", "save_pipeline"),
    "domains": ("Box",),
    "energies": ("MLP", "Conv", "Gaussian", "GaussianMixture", "Reconstruction"),
    "evaluation.annealing": ("Annealing", "importance_log_z"),
    "evaluation.grid_density": ("grid_density",),
    "evaluation.sampling": ("Chains", "Samples", "sample"),
    "negative": (
        *("USP", "CrowdedUSP", "FixedNodes", "Importance", "Langevin", "Particles"),
        *("PersistentUSP", "Replay", "RiemannGrid"),
    ),
    "objective": (
        *("Leveled", "Likelihood", "Objective", "Tempered"),
        *("effective_sample_size", "mle_surrogate"),
    ),
    "recipes": ("Recipe", "train"),
    "training": (
        *("CheckpointError", "DivergedError", "Record", "TrainState", "checkpointed", "fit"),
        *("load_snapshot", "resume", "save", "save_snapshot"),
    ),
    "types": ("Energy", "NegativePhase", "Nodes", "NonFiniteError"),
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _ROOM_OF:
        raise AttributeError(f"module 'uspebm' has no attribute {name!r}")
    return getattr(import_module(f".{_ROOM_OF[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_ROOM_OF})


__all__ = [
    "MLP",
    "USP",
    "Annealing",
    "Box",
    "Chains",
    "CheckpointError",
    "Conv",
    "CrowdedUSP",
    "DivergedError",
    "Energy",
    "EnergyDetector",
    "FixedNodes",
    "Gaussian",
    "GaussianMixture",
    "Importance",
    "Langevin",
    "Leveled",
    "Likelihood",
    "NegativePhase",
    "Nodes",
    "NonFiniteError",
    "Objective",
    "Particles",
    "PersistentUSP",
    "Recipe",
    "Reconstruction",
    "Record",
    "Replay",
    "RiemannGrid",
    "Samples",
    "Tempered",
    "TrainState",
    "arrow_scorer",
    "checkpointed",
    "effective_sample_size",
    "fit",
    "grid_density",
    "importance_log_z",
    "load",
    "load_pipeline",
    "load_snapshot",
    "mle_surrogate",
    "pipeline_to_onnx",
    "resume",
    "sample",
    "save",
    "save_model",
    "save_pipeline",
    "save_snapshot",
    "train",
]
