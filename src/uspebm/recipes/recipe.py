"""A training as a value: all that decides what is learned, and nothing else.

Two recipes that are equal give, with the same data and seed, the same weights. A model folder keeps
the recipe of its training (:mod:`.plain`), and ``clone(detector).fit`` repeats it.
"""

from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, Optimizer
from torch.optim.lr_scheduler import LambdaLR

from ..domains import Box
from ..energies.features import FeatureRule
from ..energies.rules import EnergyRule
from ..negative import CrowdedUSP, PersistentUSP
from ..objective import LIKELIHOOD, Objective
from ..support.checks import at_hand, at_least, one_of, positive
from ..support.group import current_group
from ..support.randomness import generator
from ..training import Share, TrainState
from ..training.precision import Precision, placed
from ..types import Domain, NegativePhase, Proposal
from .held_out import HeldOut


@runtime_checkable
class PhaseRule(Protocol):
    """A phase that depends on the energy or the data, such as one that draws from a reference."""

    def given(self, energy: nn.Module, data: Tensor) -> tuple[nn.Module, NegativePhase[Any]]:
        """What is trained of ``energy``, and what stands in for its law."""
        ...


@dataclass(frozen=True)
class Schedule:
    """How long to train, how fast, and what is kept on the way.

    Arguments:
        updates: Of the parameters, at most.
        batch_size: Data points per update; fewer where there are fewer.
        optimizer: Adam, or plain gradient descent.
        learning_rate: At first.
        cooling: Share of the updates, at the end, over which the rate falls to zero.
        average_decay: Share of the averaged weights that an update keeps.
        snapshot_every: Updates between snapshots, of raw and of averaged weights; the last update
            has one too. Left out: none.
        held_out: When to stop, by what was held back; left out: after all updates.
        rollbacks: How often a divergence may be answered by going back some fifty updates or more,
            with half the learning rate; after that, and by default, it ends the run.
    """

    updates: int
    batch_size: int
    optimizer: Literal["adam", "sgd"] = "adam"
    learning_rate: float = 1e-3
    cooling: float = 0.0
    average_decay: float = 0.99
    snapshot_every: int | None = None
    held_out: HeldOut | None = None
    rollbacks: int = 0

    def __post_init__(self) -> None:
        at_least(0, updates=self.updates, rollbacks=self.rollbacks)
        at_least(1, batch_size=self.batch_size)
        one_of(("adam", "sgd"), optimizer=self.optimizer)
        positive(learning_rate=self.learning_rate)
        if not 0 <= self.cooling <= 1:
            raise ValueError(f"cooling={self.cooling} must lie between 0 and 1")
        if self.snapshot_every is not None:
            at_least(1, snapshot_every=self.snapshot_every)

    def rate_at(self, step: int) -> float:
        """The share of the learning rate that is left after ``step`` updates."""
        return min(1.0, (self.updates - step) / max(1.0, self.cooling * self.updates))

    def has_snapshot(self, step: int) -> bool:
        """Whether one is due after ``step`` updates."""
        every = self.snapshot_every
        return every is not None and step > 0 and (step % every == 0 or step == self.updates)


UNTRAINED = Schedule(updates=0, batch_size=1)


@dataclass(frozen=True)
class AtData:
    """Particles start at copies of training points, a share of them where fresh ones do."""

    afresh: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.afresh <= 1:
            raise ValueError(f"afresh={self.afresh} must be a share, between 0 and 1")

    def state(
        self, phase: NegativePhase[Any], points: Tensor, seed: int, device: str = "cpu"
    ) -> tuple[Any, ...]:
        """Of the phase, to start from; the same point twice only where there are too few."""
        if not isinstance(phase, PersistentUSP | CrowdedUSP):
            raise ValueError(f"start={self}: {type(phase).__name__} has no particles to put there")
        if self.afresh and not isinstance(phase, CrowdedUSP):
            raise ValueError(f"afresh={self.afresh}: {type(phase).__name__} has no fresh points")
        draws = generator(seed, "particles")
        rounds = -(-phase.particles // len(points))
        order = torch.cat([torch.randperm(len(points), generator=draws) for _ in range(rounds)])
        afresh = round(self.afresh * phase.particles)
        at_data = order[afresh : phase.particles]
        # Of several processes each has its own rows of these, and no others.
        first, last = current_group().span(phase.particles)
        start = points[at_data[first:last]]
        if isinstance(phase, CrowdedUSP):
            fresh = phase.draw_fresh(afresh, draws, points.dtype)
            own = slice(max(0, first - len(at_data)), max(0, last - len(at_data)))
            start = torch.cat([start, fresh[own]])
        return phase.start_own(start.to(device))


@dataclass(frozen=True)
class Recipe:
    """All that decides a training.

    Arguments:
        name: What people call it; stands in logs, cards and messages.
        energy: The network, by the shape of a point; may look at the data.
        phase: What stands in for the model's law; a rule where that depends on energy or data. Left
            out: nothing is trained, the energy is what it is when it has seen the data.
        schedule: How long, how fast.
        objective: How the data's energies enter.
        start: Where points start. Left out: where the phase puts them.
        noise: Standard deviation of Gaussian noise on the data, projected on the phase's domain.
        score: What points are scored by, made of the trained energy. Left out: the energy itself.

    >>> from uspebm import Gaussian, Importance, train
    >>> from uspebm.energies.rules import MLPRule
    >>> phase = Importance(Box(-1.0, 1.0, (1,)), nodes=200)
    >>> schedule = Schedule(updates=60, batch_size=200, learning_rate=0.01, average_decay=0.9)
    >>> recipe = Recipe("small", MLPRule(width=16), phase, schedule)
    >>> run = train(recipe, Gaussian((0.3,), 0.1), None, seed=0, show=False)
    >>> run.done, bool(run.energy(torch.tensor([[0.3], [-0.5]])).diff() > 1)  # the data's is lower
    (True, True)
    """

    name: str
    energy: EnergyRule
    phase: NegativePhase[Any] | PhaseRule | None = None
    schedule: Schedule = UNTRAINED
    objective: Objective = LIKELIHOOD
    start: AtData | None = None
    noise: float = 0.0
    score: FeatureRule | None = None

    def __post_init__(self) -> None:
        if not hasattr(self.energy, "build"):
            raise ValueError(f"energy={self.energy!r} must be a rule that builds one")
        if self.noise:
            positive(noise=self.noise)
        if self.phase is None and (self.schedule.updates or self.score is not None):
            raise ValueError(f"recipe {self.name} trains nothing: it needs a phase for its updates")

    def given(self, energy: nn.Module, data: Tensor) -> tuple[nn.Module, NegativePhase[Any]]:
        """What is trained of ``energy``, and the phase that stands in for its law."""
        if self.score is not None:
            self.score.check(energy, data)
        if isinstance(self.phase, PhaseRule):
            return self.phase.given(energy, data)
        if self.phase is None:
            raise ValueError(f"recipe {self.name} trains nothing: build its energy instead")
        return energy, self.phase

    def scored_by(self, energy: nn.Module, data: Tensor, seed: int) -> nn.Module:
        """What to score points by, after ``energy`` was trained on ``data``."""
        return energy if self.score is None else self.score.over(energy, data, seed)


@dataclass(frozen=True, eq=False)
class Noisy:
    """Points with Gaussian noise of standard deviation ``std``, drawn with replacement or by a law.

    Projected on the domain, as chains are: otherwise the energy learns to tell data from samples by
    pixels blacker than black, where no chain can go.
    """

    points: Share | Proposal
    std: float
    domain: Domain | Box | None

    def sample(
        self, n: int, generator: torch.Generator, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """``n`` of them, the same in all processes."""
        device = generator.device
        if isinstance(self.points, Share):
            numbers = torch.randint(self.points.count, (n,), generator=generator, device=device)
            chosen = self.points.all_of(numbers).to(device)
        else:
            chosen = self.points.sample(n, generator, dtype)
        noise = torch.randn(chosen.shape, generator=generator, dtype=dtype, device=device)
        noisy = chosen + self.std * noise
        return noisy if self.domain is None else self.domain.project(noisy)


def begin(
    schedule: Schedule, module: nn.Module, phase: NegativePhase[Any], seed: int
) -> TrainState:
    """The state before the first update, with the schedule's optimiser.

    The weights are in training mode, their average, which is what counts, is not.
    """
    trained = [p for p in module.parameters() if p.requires_grad]
    make: type[Optimizer] = Adam if schedule.optimizer == "adam" else SGD
    optimizer = make(trained, lr=schedule.learning_rate)  # type: ignore[call-arg]
    state = TrainState.start(
        module.train(),
        phase,
        optimizer,
        scheduler=LambdaLR(optimizer, schedule.rate_at),
        average_decay=schedule.average_decay,
        seed=seed,
    )
    state.average.eval()
    return state


def allowed_place(device: str, recipe: Recipe) -> tuple[str, Precision]:
    """Device and precision, if the recipe can be trained there and torch has it here."""
    name, precision = placed(device)
    if recipe.schedule.held_out is not None:
        if name != "cpu":
            raise ValueError(f"device={name!r}: recipe {recipe.name} needs the cpu; leave it out")
        if precision != "full":
            raise ValueError(
                f"precision={precision!r}: recipe {recipe.name} needs all digits; leave it out"
            )
    return at_hand(name), precision
