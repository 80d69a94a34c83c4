"""One trainer for every phase: ``fit`` and its state, checkpoints, the engine, the log of a run.

May know: phases, objectives and all below them. Knows no recipe and no experiment.
"""

from .checkpoint import CheckpointError, checkpointed, resume, save
from .data import Share
from .loop import fit
from .snapshot import load_snapshot, save_snapshot
from .state import DivergedError, Record, TrainState

__all__ = [
    "CheckpointError",
    "DivergedError",
    "Record",
    "Share",
    "TrainState",
    "checkpointed",
    "fit",
    "load_snapshot",
    "resume",
    "save",
    "save_snapshot",
]
