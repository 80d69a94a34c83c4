"""One trainer for every negative phase.

``fit`` yields a record per update and the caller decides what to do with it: progress bars, logs,
checkpoints and early stopping are ordinary code around ``for record in fit(...)``.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.optim import LBFGS, Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from .objective import contrast, effective_sample_size
from .randomness import generator
from .types import NegativePhase, NonFiniteError


class Source(Protocol):
    """A distribution that data can be drawn from without end, such as a mixture."""

    def sample(self, n: int, generator: torch.Generator, dtype: torch.dtype) -> Tensor: ...


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

    @classmethod
    def start(
        cls,
        module: nn.Module,
        phase: NegativePhase[Any],
        optimizer: Optimizer,
        *,
        scheduler: LRScheduler | None = None,
        average_decay: float = 0.99,
        seed: int = 0,
    ) -> "TrainState":
        """The state before the first update.

        Points are of the dtype and on the device of the module's weights. ``average_decay`` is
        the share of the old average that an update keeps: the last 100 updates or so by default.
        """
        if not 0.0 <= average_decay < 1.0:
            raise ValueError(f"average_decay={average_decay} must be in [0, 1)")
        if isinstance(optimizer, LBFGS):
            raise ValueError(
                "optimizer=LBFGS evaluates a loss many times per update; this one is random"
            )
        if isinstance(scheduler, ReduceLROnPlateau):
            raise ValueError(
                "scheduler=ReduceLROnPlateau follows the loss, which is no likelihood here; "
                "choose one that follows the step"
            )
        weight = next(module.parameters())
        return cls(
            module=module,
            average=AveragedModel(module, multi_avg_fn=get_ema_multi_avg_fn(average_decay)),
            optimizer=optimizer,
            scheduler=scheduler,
            negative=phase.init(generator(seed, "init", device=weight.device), weight.dtype),
            seed=seed,
        )


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
    node_energy: float
    """Weighted mean over the nodes."""
    seconds: float
    info: NamedTuple
    """What the negative phase says of itself."""

    def row(self) -> dict[str, float]:
        """Flat, for a line of a log."""
        flat = {k: v for k, v in vars(self).items() if k != "info"}
        return flat | self.info._asdict()


class DivergedError(NonFiniteError):
    """Training met a number that is none. ``state`` is the last good one."""

    def __init__(self, message: str, state: TrainState) -> None:
        super().__init__(message)
        self.state = state


def fit(
    state: TrainState,
    phase: NegativePhase[Any],
    data: Tensor | Source,
    *,
    batch_size: int,
    steps: int,
    clip_norm: float | None = None,
) -> Iterator[Record]:
    """Advance ``state`` until it has made ``steps`` updates; yield a record after each.

    Arguments:
        state: Changed in place, whole after every record.
        phase: Produces the nodes.
        data: All training points ``(N, *event)``, read in epochs whose order follows from the
            seed; or a source that can be drawn from.
        batch_size: Data points per update.
        steps: Updates in all, those made before a resumption included.
        clip_norm: Bound on the norm of the parameters' gradient.
    """
    if batch_size < 1:
        raise ValueError(f"batch_size={batch_size} must be at least 1")
    if isinstance(data, Tensor):
        if batch_size > len(data):
            raise ValueError(f"batch_size={batch_size} is more than the {len(data)} data points")
        if not torch.isfinite(data).all():
            raise ValueError("data holds NaN or infinite values; remove or replace them first")
    while state.step < steps:
        yield _update(state, phase, data, batch_size, clip_norm)


def _update(
    state: TrainState,
    phase: NegativePhase[Any],
    data: Tensor | Source,
    batch_size: int,
    clip_norm: float | None,
) -> Record:
    started = time.perf_counter()
    module, weight = state.module, next(state.module.parameters())
    draws = generator(state.seed, "negative", state.step, device=weight.device)
    try:
        nodes, negative, info = phase.step(module, state.negative, draws)
    except NonFiniteError as error:
        raise DivergedError(f"update {state.step + 1}: {error}", state) from error
    state.negative = negative

    batch = _batch(data, state, batch_size, weight)
    data_energy, node_energy = module(batch), module(nodes.x)
    loss = contrast(data_energy, node_energy, nodes.log_weight)
    state.optimizer.zero_grad(set_to_none=True)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(
        module.parameters(), float("inf") if clip_norm is None else clip_norm
    ).item()
    ess = effective_sample_size(nodes.log_weight)
    # Looked at before the optimiser acts: the weights in the state stay the last good ones.
    if not (torch.isfinite(loss) and torch.isfinite(torch.tensor(norm))):
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
        info=info,
    )


def _batch(data: Tensor | Source, state: TrainState, size: int, like: Tensor) -> Tensor:
    """The data of this update: a function of (seed, step), so that resuming is exact."""
    if not isinstance(data, Tensor):
        draws = generator(state.seed, "data", state.step, device=like.device)
        return data.sample(size, draws, like.dtype)
    per_epoch = len(data) // size
    epoch, position = divmod(state.step, per_epoch)
    order = torch.randperm(len(data), generator=generator(state.seed, "epoch", epoch))
    chosen = order[position * size : (position + 1) * size]
    return data[chosen.to(data.device)].to(like)
