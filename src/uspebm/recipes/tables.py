r"""Tables: neighbours in several units, or a density.

What people get are neighbours (:mod:`uspebm.energies.neighbour`): the best order of rows that was
found on tables nobody had chosen by, in a second or two, and no density.

Whoever wants a density gets a kernel density near the data and what a network adds to it. The
energy is :math:`E(x) = f_\theta(x) - \log r(x)` with r a Gaussian around every one of some training
points. Far from the data it grows whatever the network says, log Z is a mean over exact
draws, and held-out likelihood says when to stop; on many tables it says at once, and r alone is
the model. What stands for the model in the gradient are weighted draws from r (the steadiest where
there is an r), PS-USP's partition points, or short-run Langevin with a replay buffer.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor, nn

from ..domains import Box
from ..energies import MLP
from ..energies.kernel import (
    KernelReference,
    TiltedEnergy,
    affordable,
    distances_to_others,
    likeliest_bandwidth,
)
from ..energies.neighbour import NeighbourRule
from ..negative import CrowdedUSP, Langevin, PersistentUSP, Replay, TiltImportance
from ..support.checks import at_least
from ..support.randomness import global_seed
from ..types import NegativePhase
from .held_out import HeldOut
from .recipe import Recipe, Schedule

DRAWN = 1_000_000
"""Numbers in the points that are drawn anew for every update, which is most of its time."""
NEAREST_OF = 1024
"""Points whose nearest others decide about the spacing."""


@dataclass(frozen=True)
class TiltedKernel:
    """A kernel density over the first ``centres`` points, and an MLP that adds nothing at first.

    Of very many columns, fewer centres and a narrower network, and below fewer points of every
    kind: as many as memory has room for.
    """

    centres: int = 2000
    width: int = 128
    layers: int = 3

    def __post_init__(self) -> None:
        at_least(1, centres=self.centres, width=self.width, layers=self.layers)

    def build(self, points: Tensor, seed: int) -> TiltedEnergy:
        with global_seed(seed):
            width = affordable(self.width, points)
            network = MLP(tuple(points.shape[1:]), width, self.layers)
        last = [m for m in network.modules() if isinstance(m, nn.Linear)][-1]
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        chosen = points[: affordable(self.centres, points)]
        return TiltedEnergy(network, KernelReference(chosen, likeliest_bandwidth(chosen)[0]))


@dataclass(frozen=True)
class TiltDraws:
    """Weighted draws from the reference: only the tilt is trained, relative to it."""

    nodes: int = 1000

    def given(self, energy: nn.Module, data: Tensor) -> tuple[nn.Module, NegativePhase[Any]]:
        tilted = _tilted(energy)
        nodes = affordable(self.nodes, data, DRAWN)
        return tilted.network, TiltImportance(tilted.reference, nodes)


@dataclass(frozen=True)
class TiltChains:
    """Short-run Langevin chains from the reference, in units of its bandwidth."""

    chains: int = 250
    steps: int = 40
    capacity: int = 10_000

    def given(self, energy: nn.Module, data: Tensor) -> tuple[nn.Module, NegativePhase[Any]]:
        reference = _tilted(energy).reference
        domain = _box_around(data, reference)
        size = 0.2 * reference.bandwidth.item() ** 2
        count, capacity = (affordable(n, data) for n in (self.chains, self.capacity))
        chains = Langevin(reference, count, self.steps, step_size=size, domain=domain)
        return energy, Replay(chains, capacity=capacity)


@dataclass(frozen=True)
class TiltPartition:
    """PS-USP's points, which start at draws from the reference, at the data's own spacing."""

    particles: int = 5000
    active: int = 200
    nodes: int = 1000
    rounds: int = 10

    def given(self, energy: nn.Module, data: Tensor) -> tuple[nn.Module, NegativePhase[Any]]:
        reference = _tilted(energy).reference
        width = reference.bandwidth.item()
        n = affordable(min(max(2 * len(data), 200), self.particles), data)
        nearest = distances_to_others(data[:NEAREST_OF], data).min(1).values
        known = nearest[nearest < math.inf]
        spacing = known.mean().sqrt().item() if len(known) else width
        phase = PersistentUSP(
            domain=_box_around(data, reference),
            particles=n,
            spacing=spacing,
            proposal=reference,
            active=min(self.active, n),
            nodes=min(self.nodes, n),
            rounds=self.rounds,
            ascent_size=0.1 * width**2,
            repulsion_size=0.1 * spacing,
        )
        return energy, CrowdedUSP(phase=phase)


def _tilted(energy: nn.Module) -> TiltedEnergy:
    if not isinstance(energy, TiltedEnergy):
        raise ValueError(f"this phase needs a tilted energy, not {type(energy).__name__}")
    return energy


def _box_around(data: Tensor, reference: KernelReference) -> Box:
    """A box that holds the data and what the reference draws, but for a tail."""
    low, high = data.min().item(), data.max().item()
    margin = 0.25 * (high - low) + 6 * reference.bandwidth.item()
    return Box(low - margin, high + margin, tuple(data.shape[1:]))


SCHEDULE = Schedule(updates=2000, batch_size=250, average_decay=0.98, held_out=HeldOut())
PHASES: dict[str, TiltDraws | TiltPartition | TiltChains] = {
    "importance": TiltDraws(),
    "ps-usp": TiltPartition(),
    "srlmc": TiltChains(),
}


def table_recipe() -> Recipe:
    """Neighbours in several units, for rows as they are."""
    return Recipe("tables", NeighbourRule())


def density_recipe(method: Literal["importance", "ps-usp", "srlmc"] = "importance") -> Recipe:
    """A kernel density with a tilt, for points in scaled units."""
    if method not in PHASES:
        raise ValueError(f"method={method!r} must be one of {', '.join(PHASES)}")
    name = "tables-density" if method == "importance" else f"tables-{method}"
    return Recipe(name, TiltedKernel(), PHASES[method], SCHEDULE)
