"""Which code moves the particles: torch's, or code compiled for the network and the search.

Both compute the same numbers up to rounding. Which one a run takes is decided once, from its
settings and whether the machine has a compiler, and kept in its checkpoints: a resumed run takes
the same and stays exact.
"""

import logging
from typing import Any, Literal

from torch import nn

from ..energies import Conv
from ..native import BuildError, NativeConv, NativeMLP, NativePairs, can_search
from ..types import Energy, NegativePhase, Workspace

log = logging.getLogger("uspebm")

Engine = Literal["torch", "native"]

WORTH_COMPILING = 20_000
"""Gradients of a convolutional network from which on a second of compilation, once per machine,
pays off."""
WORTH_SAVING_LITTLE = 500_000
"""Likewise, gradients of a perceptron, and moves of points whose neighbours compiled code finds: it
saves less on each."""


def choose_engine(module: nn.Module, phase: NegativePhase[Any], steps: int) -> Engine:
    """The faster engine for ``steps`` updates of ``module``."""
    moves = getattr(phase, "gradients", 0) * steps
    worth = WORTH_COMPILING if isinstance(module, Conv) else WORTH_SAVING_LITTLE
    evaluates = _compiled(module) is not None and moves >= worth
    searches = _searches(module, phase) and moves >= WORTH_SAVING_LITTLE
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
        if _compiled(module) is None and not _searches(module, phase):
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
    """``module`` as an energy on ``engine``; compiled gradients are of the weights it has now."""
    kind = _compiled(module) if engine == "native" else None
    return module if kind is None else kind(module)


def _compiled(module: nn.Module) -> type[NativeConv | NativeMLP] | None:
    """The compiled code that there is for ``module`` as it is, if any."""
    return next((kind for kind in (NativeConv, NativeMLP) if kind.can_run(module)), None)


def workspace_on(engine: Engine) -> Workspace:
    """Scratch for the phase of one run, which searches as the engine does."""
    return Workspace(compiled=engine == "native")
