"""Which code moves the particles: torch's, or code compiled for the network and the search.

Both compute the same numbers up to rounding. Which one a run takes is decided once, from its
settings and whether the machine has a compiler, and kept in its checkpoints: a resumed run takes
the same and stays exact.
"""

import logging
from typing import Any, Literal

from torch import nn

from .native import BuildError, NativeConv, NativePairs, NativeSearch
from .negative import CrowdedUSP, PersistentUSP
from .types import Energy, NegativePhase

log = logging.getLogger("uspebm")

Engine = Literal["torch", "native"]

WORTH_COMPILING = 20_000
"""Gradients of a network from which on a second of compilation, once per machine, pays off."""
WORTH_SEARCHING = 500_000
"""Likewise, moves of points whose neighbours compiled code finds: it saves less on each."""


def choose_engine(module: nn.Module, phase: NegativePhase[Any], steps: int) -> Engine:
    """The faster engine for ``steps`` updates of ``module``."""
    moves = phase.gradients * steps
    evaluates = NativeConv.can_run(module) and moves >= WORTH_COMPILING
    searches = _searches(phase) and NativeSearch.can_run(module) and moves >= WORTH_SEARCHING
    return available("native", module, phase) if evaluates or searches else "torch"


def available(engine: Engine, module: nn.Module, phase: NegativePhase[Any]) -> Engine:
    """``engine`` if this machine has it, else torch, and a line that says so.

    A run that was begun on another machine then goes on, though no longer to the last digit.
    """
    if engine == "native":
        try:
            energy_on(engine, module)
            if _searches(phase):
                NativePairs.build(next(module.parameters()).dtype)
        except BuildError as error:
            log.warning("Using torch instead of compiled code, which is slower: %s", error)
            return "torch"
    return engine


def _searches(phase: NegativePhase[Any]) -> bool:
    """Whether the phase looks for neighbours among all points, which compiled code can do."""
    inner = phase.phase if isinstance(phase, CrowdedUSP) else phase
    return isinstance(inner, PersistentUSP) and inner.others is None


def energy_on(engine: Engine, module: nn.Module) -> Energy:
    """``module`` as an energy on ``engine``; compiled code takes the weights that it has now."""
    if engine == "torch":
        return module
    return NativeConv(module) if NativeConv.can_run(module) else NativeSearch(module)
