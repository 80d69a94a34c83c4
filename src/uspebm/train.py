"""One trainer for every negative phase.

``fit`` yields a record per update and the caller decides what to do with it: progress bars, logs,
checkpoints and early stopping are ordinary code around ``for record in fit(...)``.
"""

import copy
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import LBFGS, Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from .checks import at_least, positive
from .engine import Engine, available, choose_engine, energy_on
from .objective import contrast, effective_sample_size
from .randomness import generator
from .types import NegativePhase, NonFiniteError, Proposal


@dataclass
class TrainState:
    """All that training changes, and so all that a checkpoint holds. Make one with ``start``."""

    module: nn.Module
    """The energy with its raw weights: what the optimiser and the particles follow."""
    average: AveragedModel
    """An exponential average of those weights: what scores. ``average.module`` is the energy."""
    optimizer: Optimizer
    scheduler: LRScheduler | None
    negative: tuple[Any, ...]
    """State of the negative phase."""
    seed: int
    step: int = 0
    """Updates made so far."""
    engine: Engine | None = None
    """Whether torch or compiled code moves the particles; ``fit`` chooses where it is left open."""

    @classmethod
    def start(
        cls,
        module: nn.Module,
        phase: NegativePhase[Any],
        optimizer: Optimizer,
        *,
        scheduler: LRScheduler | None = None,
        negative: tuple[Any, ...] | None = None,
        average_decay: float = 0.99,
        seed: int = 0,
        engine: Engine | None = None,
    ) -> "TrainState":
        """The state before the first update.

        Points are of the dtype and on the device of the module's weights. ``negative`` is a state
        of the phase to start from, such as ``phase.start_at(images)``; left out, ``phase.init``
        makes one. ``average_decay`` is the share of the old average that an update keeps: the
        last 100 updates or so by default. ``engine`` is chosen by itself: compiled code where
        there is some and the run is long enough to be worth it.
        """
        if not 0.0 <= average_decay < 1.0:
            raise ValueError(f"average_decay={average_decay} must be in [0, 1)")
        if isinstance(optimizer, LBFGS):
            raise ValueError(
                "optimizer=LBFGS evaluates its loss many times per update; this loss is random"
            )
        if isinstance(scheduler, ReduceLROnPlateau):
            raise ValueError(
                "scheduler=ReduceLROnPlateau follows the loss, which is no likelihood here; "
                "choose one that follows the step"
            )
        own = {id(p) for p in module.parameters()}
        if not own:
            raise ValueError(f"module={type(module).__name__} has no parameters to train")
        if any(id(p) not in own for group in optimizer.param_groups for p in group["params"]):
            raise ValueError("the optimizer holds parameters that are not the module's")
        weight = next(module.parameters())
        if negative is None:
            negative = phase.init(generator(seed, "init", device=weight.device), weight.dtype)
        return cls(
            module=module,
            average=AveragedModel(module, multi_avg_fn=get_ema_multi_avg_fn(average_decay)),
            optimizer=optimizer,
            scheduler=scheduler,
            negative=negative,
            seed=seed,
            engine=engine,
        )

    def learned(self) -> dict[str, Any]:
        """All but the negative phase's state: what an optimiser step changes."""
        return {
            "step": self.step,
            "module": self.module.state_dict(),
            "average": self.average.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": None if self.scheduler is None else self.scheduler.state_dict(),
        }

    def restore(self, learned: dict[str, Any]) -> None:
        """Put back what ``learned`` returned."""
        self.module.load_state_dict(learned["module"])
        self.average.load_state_dict(learned["average"])
        self.optimizer.load_state_dict(learned["optimizer"])
        if self.scheduler is not None:
            self.scheduler.load_state_dict(learned["scheduler"])
        self.step = learned["step"]


@dataclass(frozen=True)
class Record:
    """One update, in numbers."""

    step: int
    """Updates made, this one included."""
    loss: float
    """Mean energy of the data minus that of the nodes: no likelihood, near zero at rest."""
    gradient_norm: float
    """Norm of the parameters' gradient, before clipping."""
    ess: float
    """Effective number of nodes."""
    data_energy: float
    """Mean over the batch."""
    node_energy: float
    """Weighted mean over the nodes."""
    seconds: float
    """Time that this update took."""
    engine: Engine
    """What evaluated the energy for the particles."""
    info: NamedTuple
    """What the negative phase says of itself."""

    def row(self) -> dict[str, float | str]:
        """Flat, for a line of a log."""
        flat = {k: v for k, v in vars(self).items() if k != "info"}
        return flat | self.info._asdict()


class DivergedError(NonFiniteError):
    """Training ran away, as far as to a number that is none. ``state`` is the last finite one."""

    def __init__(self, message: str, state: TrainState) -> None:
        super().__init__(message)
        self.state = state


def fit(
    state: TrainState,
    phase: NegativePhase[Any],
    data: Tensor | Proposal,
    *,
    batch_size: int,
    steps: int,
    clip_norm: float | None = None,
    level: float = 0.0,
) -> Iterator[Record]:
    """Advance ``state`` until it has made ``steps`` updates; yield a record after each.

    Arguments:
        state: Changed in place, whole after every record. After a divergence its weights are the
            ones from before the update that led to it; particles stay where they are.
        phase: Produces the nodes.
        data: All training points ``(N, *event)``, read in epochs whose order follows from the
            seed, whole batches only; or a law to draw from, such as a mixture.
        batch_size: Data points per update.
        steps: Updates in all, those made before a resumption included.
        clip_norm: Bound on the norm of the parameters' gradient.
        level: Weight of the variance of the data's energies, added to the loss. Beyond the paper:
            the model then tends to the support of the data rather than to its density, which
            tells outliers from rare data; zero leaves maximum likelihood.
    """
    at_least(1, batch_size=batch_size)
    at_least(0, steps=steps)
    if clip_norm is not None:
        positive(clip_norm=clip_norm)
    if level:
        positive(level=level)
    _check_data(data, phase, batch_size, next(state.module.parameters()))
    if state.engine is None:
        state.engine = choose_engine(state.module, phase, steps)
    else:
        state.engine = available(state.engine, state.module, phase)
    good = None
    while state.step < steps:
        # An optimiser step can ruin the weights in a way that only the next update reveals.
        before = copy.deepcopy(state.learned())
        try:
            record = _update(state, phase, data, batch_size, clip_norm, level)
        except DivergedError:
            state.restore(good or before)
            raise
        good = before
        yield record


def _check_data(
    data: Tensor | Proposal, phase: NegativePhase[Any], batch_size: int, like: Tensor
) -> None:
    domain = getattr(phase, "domain", None)
    if not isinstance(data, Tensor):
        if not hasattr(data, "sample"):
            raise ValueError(
                f"data is of type {type(data).__name__}; it must be a torch tensor (N, *event), "
                "or have a method sample"
            )
        data = data.sample(batch_size, generator(0, "check", device=like.device), like.dtype)
    if not data.is_floating_point() or data.dim() < 2:
        raise ValueError(
            f"data is {data.dtype} of shape {tuple(data.shape)}; it must be floating-point, "
            "(N, *event): convert and scale it first"
        )
    if batch_size > len(data):
        raise ValueError(f"batch_size={batch_size} is more than the {len(data)} data points")
    if not torch.isfinite(data).all():
        raise ValueError("data holds NaN or infinite values; remove or replace them first")
    if domain is None:
        return
    if data.shape[1:] != domain.shape:
        raise ValueError(
            f"data has points of shape {tuple(data.shape[1:])}, but domain={domain} "
            f"has shape {domain.shape}"
        )
    if (outside := domain.share_outside(data)) > 0.01:
        raise ValueError(
            f"{outside:.0%} of the data lies outside domain={domain}, where the model has no mass: "
            "scale the data, or choose a larger domain"
        )


def _update(
    state: TrainState,
    phase: NegativePhase[Any],
    data: Tensor | Proposal,
    batch_size: int,
    clip_norm: float | None,
    level: float,
) -> Record:
    started = time.perf_counter()
    module, weight = state.module, next(state.module.parameters())
    engine = state.engine or "torch"
    draws = generator(state.seed, "negative", state.step, device=weight.device)
    # Modules that draw, such as dropout, do so from the global generator.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(generator(state.seed, "module", state.step).initial_seed())
        energy = energy_on(engine, module)
        try:
            nodes, state.negative, info = phase.step(energy, state.negative, draws)
        except NonFiniteError as error:
            raise DivergedError(f"update {state.step + 1}: {error}", state) from error
        batch = _batch(data, state, batch_size, weight)
        data_energy, node_energy = energy(batch), energy(nodes.x)
        loss = contrast(data_energy, node_energy, nodes.log_weight)
        module.zero_grad(set_to_none=True)
        (loss + level * data_energy.var(correction=0)).backward()
    norm = nn.utils.clip_grad_norm_(
        module.parameters(), math.inf if clip_norm is None else clip_norm
    ).item()
    ess = effective_sample_size(nodes.log_weight)
    # Looked at before the optimiser acts.
    if not (math.isfinite(loss.item()) and math.isfinite(norm)):
        raise DivergedError(
            f"update {state.step + 1}: loss {loss.item():g}, gradient norm {norm:g}, effective "
            f"sample size {ess:.1f} of {len(nodes.x)}; try a smaller learning rate or clip_norm",
            state,
        )
    state.optimizer.step()
    if state.scheduler is not None:
        state.scheduler.step()
    state.average.update_parameters(module)
    state.step += 1
    return Record(
        step=state.step,
        loss=loss.item(),
        gradient_norm=norm,
        ess=ess,
        data_energy=data_energy.mean().item(),
        node_energy=(nodes.log_weight.softmax(0) * node_energy).sum().item(),
        seconds=time.perf_counter() - started,
        engine=engine,
        info=info,
    )


def _batch(data: Tensor | Proposal, state: TrainState, size: int, like: Tensor) -> Tensor:
    """The data of this update: a function of (seed, step), so that resuming is exact."""
    if not isinstance(data, Tensor):
        draws = generator(state.seed, "data", state.step, device=like.device)
        return data.sample(size, draws, like.dtype)
    per_epoch = len(data) // size
    epoch, position = divmod(state.step, per_epoch)
    order = torch.randperm(len(data), generator=generator(state.seed, "epoch", epoch))
    chosen = order[position * size : (position + 1) * size]
    return data[chosen.to(data.device)].to(like)
