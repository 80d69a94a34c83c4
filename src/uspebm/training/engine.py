"""Which code moves the particles: torch's, or code compiled for the network and the search.

Both compute the same numbers up to rounding. Which one a run takes is decided once, from its
settings and whether the machine has a compiler, and kept in its checkpoints: a resumed run takes
the same and stays exact.
"""

import logging
from typing import Any, Literal

from torch import nn

from ..energies import Conv
from ..native import BuildError, NativeConv, NativePairs, can_search
from ..types import Energy, NegativePhase, Workspace

log = logging.getLogger("uspebm")

Engine = Literal["torch", "native"]

WORTH_COMPILING = 20_000
"""Gradients of a network from which on a second of compilation, once per machine, pays off."""
WORTH_SEARCHING = 500_000
"""Likewise, moves of points whose neighbours compiled code finds: it saves less on each."""


def choose_engine(module: nn.Module, phase: NegativePhase[Any], steps: int) -> Engine:
    """The faster engine for ``steps`` updates of ``module``."""
    moves = getattr(phase, "gradients", 0) * steps
    evaluates = NativeConv.can_run(module) and moves >= WORTH_COMPILING
    searches = _searches(module, phase) and moves >= WORTH_SEARCHING
    if isinstance(module, Conv) and not NativeConv.can_run(module) and moves >= WORTH_COMPILING:
        filters = module.settings["filters"]
        log.warning("Gradients by torch, which is slower: no compiled code for filters %s", filters)
    return available("native", module, phase) if evaluates or searches else "torch"


def available(engine: Engine, module: nn.Module, phase: NegativePhase[Any]) -> Engine:
    """``engine`` if this machine has it, else torch, and a line that says so.

    A run that was begun on another machine then goes on, though no longer to the last digit.
    """
    if engine == "torch":
        return engine
    try:
        if not NativeConv.can_run(module) and not _searches(module, phase):
            raise BuildError(f"there is none for {type(module).__name__} as it is")
        energy_on(engine, module)
        if _searches(module, phase):
            NativePairs.build(next(module.parameters()).dtype)
    except BuildError as error:
        log.warning("Using torch instead of compiled code, which is slower: %s", error)
        return "torch"
    return engine


def _searches(module: nn.Module, phase: NegativePhase[Any]) -> bool:
    """Whether the phase looks for neighbours, and compiled code can do it for such points."""
    weight = next(module.parameters())
    return getattr(phase, "searches", False) and can_search(weight.dtype, weight.device)


def energy_on(engine: Engine, module: nn.Module) -> Energy:
    """``module`` as an energy on ``engine``; compiled code takes the weights that it has now."""
    return NativeConv(module) if engine == "native" and NativeConv.can_run(module) else module


def workspace_on(engine: Engine) -> Workspace:
    """Scratch for the phase of one run, which searches as the engine does."""
    return Workspace(compiled=engine == "native")
