"""One trainer for every negative phase.

``fit`` yields a record per update and the caller decides what to do with it: progress bars, logs,
checkpoints and early stopping are ordinary code around ``for record in fit(...)``.

Processes that train together (:mod:`uspebm.support.group`) have a share of the data and of the
nodes; of a batch, the rows that are in its share, which may be none. The energies of all of them
are put together, so that the loss is that of one process: the weights of the nodes sum to one over
all processes, and an objective sees the whole batch. Each has the gradient through its own rows,
and the sum of these is the gradient.
"""

import copy
import math
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..objective import LIKELIHOOD, Objective, effective_sample_size, node_term
from ..support.checks import at_least, positive
from ..support.group import current_group
from ..support.randomness import generator, global_seed
from ..types import Energy, NegativePhase, Nodes, NonFiniteError, Proposal, Workspace
from .data import Data, Share, as_points, check_points
from .engine import Engine, available, choose_engine, energy_on, workspace_on
from .health import Health
from .precision import check_precision, computing_in, in_precision
from .state import DivergedError, Record, TrainState

RUNAWAY = 1e5
"""Data's and nodes' mean energies differ by the order of one. A model where they differ by more
than this does not come back, but it may take all updates to become infinite."""


def fit(
    state: TrainState,
    phase: NegativePhase[Any],
    data: Data,
    *,
    batch_size: int,
    steps: int,
    objective: Objective = LIKELIHOOD,
) -> Iterator[Record]:
    """Advance ``state`` until it has made ``steps`` updates; yield a record after each.

    Arguments:
        state: Changed in place, whole after every record. After a divergence its weights are the
            ones from before the update that led to it; particles stay where they are.
        phase: Produces the nodes.
        data: All training points ``(N, *event)``, a tensor, an array, or a map-style ``Dataset``
            of points or (point, label), which is read once into memory. They are shown in epochs
            whose order follows from the seed, whole batches only. Several processes keep their
            rows of them; a ``Share`` has no more to begin with. Or a law to draw from, such as a
            mixture.
        batch_size: Data points per update.
        steps: Updates in all, those made before a resumption included.
        objective: What is learned: how the data's energies enter the loss.

    >>> from uspebm import MLP, Box, Gaussian, Importance
    >>> law, phase, net = Gaussian((0.3,), 0.1), Importance(Box(-1.0, 1.0, (1,)), 200), MLP(1, 16)
    >>> state = TrainState.start(net, phase, torch.optim.Adam(net.parameters(), 0.01))
    >>> losses = [record.loss for record in fit(state, phase, law, batch_size=200, steps=60)]
    >>> len(losses), bool(net(torch.tensor([[0.3], [-0.5]])).diff() > 1)  # the data's is lower
    (60, True)
    """
    group = current_group()
    at_least(group.size, batch_size=batch_size)  # of a law, each draws its own
    at_least(0, steps=steps)
    group.agree(state.step, "the update they are at")
    if state.clip_norm is not None:
        positive(clip_norm=state.clip_norm)
    points, weight = as_points(data, state.seed), next(state.module.parameters())
    check_points(points, phase.domain, batch_size, weight)
    state.engine = _engine(state, phase, steps)
    source = Batches(points, batch_size)
    workspace = workspace_on(state.engine)
    health = Health()
    good = None
    while state.step < steps:
        # An optimiser step can ruin the weights in a way that only the next update reveals.
        before = copy.deepcopy(state.learned())
        try:
            with computing_in(state.precision, weight.device):
                record = _update(state, phase, source, objective, workspace)
        except DivergedError:
            state.restore(good or before)
            state.whole = True
            raise
        good = before
        for trouble in health.look(record):
            warnings.warn(trouble, stacklevel=2)
        yield record


def _engine(state: TrainState, phase: NegativePhase[Any], steps: int) -> Engine:
    """The one that the run has, or the faster one where that is open; in half the digits torch."""
    check_precision(state.precision, state.module, state.engine)
    if state.precision != "full":
        return "torch"
    if state.engine is None:
        return choose_engine(state.module, phase, steps)
    return available(state.engine, state.module, phase)


def _update(
    state: TrainState,
    phase: NegativePhase[Any],
    source: "Batches",
    objective: Objective,
    workspace: Workspace,
) -> Record:
    started = time.perf_counter()
    state.whole = False
    module, weight = state.module, next(state.module.parameters())
    engine = state.engine or "torch"
    group = current_group()
    # Modules that draw, such as dropout, do so from the global generator.
    module_draws = group.own(generator(state.seed, "module", state.step))
    with global_seed(module_draws.initial_seed()):
        energy = in_precision(state.precision, energy_on(engine, module))
        nodes, info = _step(state, phase, energy, workspace)
        own = source.energies(energy, state, weight), energy(nodes.x), nodes.log_weight
        data_energy, energies, log_weight = group.joined(*own)
        data_term = objective.data_term(data_energy)
        node_energy = node_term(energies, log_weight)
        loss = data_term - node_energy
        module.zero_grad(set_to_none=True)
        loss.backward()
    group.add_gradients(module.parameters())
    norm = nn.utils.clip_grad_norm_(
        module.parameters(), math.inf if state.clip_norm is None else state.clip_norm
    ).item()
    ess = effective_sample_size(log_weight)
    gap = data_energy.mean().item() - node_energy.item()
    if problem := _problem(loss.item(), norm, gap):  # looked at before the optimiser acts
        nodes_left = f"effective sample size {ess:.1f} of {len(log_weight)}"
        advice = "try a smaller learning rate, or set state.clip_norm"
        raise DivergedError(f"update {state.step + 1}: {problem}, {nodes_left}; {advice}", state)
    state.optimizer.step()
    if state.scheduler is not None:
        state.scheduler.step()
    state.average.update_parameters(module)
    state.step += 1
    state.whole = True
    return Record(
        step=state.step,
        loss=loss.item(),
        data_term=data_term.item(),
        gradient_norm=norm,
        ess=ess,
        nodes=len(log_weight),
        data_energy=data_energy.mean().item(),
        node_energy=node_energy.item(),
        seconds=time.perf_counter() - started,
        engine=engine,
        info=info,
    )


def _step(
    state: TrainState, phase: NegativePhase[Any], energy: Energy, workspace: Workspace
) -> tuple[Nodes, NamedTuple]:
    """The nodes of this update; where a process has none, none of them goes on."""
    device = next(state.module.parameters()).device
    draws = generator(state.seed, "negative", state.step, device=device)
    trouble = None
    try:
        nodes, state.negative, info = phase.step(energy, state.negative, draws, workspace)
    except NonFiniteError as error:
        trouble = error
    if current_group().any(trouble is not None)[0]:
        said = trouble or "points of another process stopped being finite"
        raise DivergedError(f"update {state.step + 1}: {said}", state) from trouble
    return nodes, info


def _problem(loss: float, norm: float, gap: float) -> str | None:
    """What is wrong with an update, if anything."""
    if not (math.isfinite(loss) and math.isfinite(norm)):
        return f"loss {loss:g}, gradient norm {norm:g}"
    if abs(gap) > RUNAWAY:
        return f"data's and nodes' energies are {gap:.2g} apart, and run away"
    return None


@dataclass(frozen=True)
class Batches:
    """Where the data of every update come from, ``size`` at a time in all processes together."""

    data: Share | Proposal
    size: int

    def energies(self, energy: Energy, state: TrainState, like: Tensor) -> Tensor:
        """Of this process's part of the batch, ``(n,)``, with a graph even where n is 0."""
        x = self.batch(state, like)
        if len(x) or not isinstance(self.data, Share):
            return energy(x)
        # Not every module takes no points at all: one that is then left out has no gradient.
        return energy(self.data.points[:1].to(like))[:0]

    def batch(self, state: TrainState, like: Tensor) -> Tensor:
        """The data of this update: a function of (seed, step), so that resuming is exact.

        Of these, however many processes there are, the ones that are this process's.
        """
        if not isinstance(self.data, Share):
            draws = generator(state.seed, "data", state.step, device=like.device)
            return current_group().rows(self.data.sample(self.size, draws, like.dtype))
        epoch, position = divmod(state.step, self.data.count // self.size)
        order = torch.randperm(self.data.count, generator=generator(state.seed, "epoch", epoch))
        return self.data.own(order[position * self.size : (position + 1) * self.size]).to(like)
