r"""Uniform Support Partitioning: every point moves until none does.

Kim & Ye (2022), section 5. The points are quadrature nodes of equal volume, hence the weights
:math:`w_i \propto e^{-E(u_i)}`. For many points or a deep energy use
:class:`~uspebm.PersistentUSP`.

Crowded points are pushed by ascents as much as by repulsions, and with steps of constant size
they never come to rest. So the ascents of round k shrink as :math:`1 / (1 + k / 10)`: slowly
enough to go any distance, and in the end repulsion has its way and the constraint holds.

Processes that train together keep a share of the points each, and all of them while they move.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch

from ..energies.gradient import energy_at
from ..neighbours.search import Neighbours, smallest_distance
from ..support.checks import at_least, positive
from ..support.group import current_group
from ..types import Energy, Nodes, Workspace
from .partition import CLEARANCE, Particles, Partition, expect_particles, finite

ANNEALING = 10
"""Rounds after which ascents are half as long as at first."""


class USPInfo(NamedTuple):
    """Whether the points settled, and whether they keep their distance."""

    rounds: int
    """Rounds that were run."""
    moved: float
    """Largest distance that a point moved in the last of them."""
    smallest: float
    """Smallest distance between two points: the constraint holds where it is at least ε."""
    unsettled: float
    """Share of points that are closer than ε to another in the end; zero where they settled."""


@dataclass(frozen=True, kw_only=True)
class USP(Partition):
    """Alternates ascents and repulsions of all points, from where the last update left them.

    Takes what :class:`Partition` takes, and:

    Arguments:
        rounds: At most so many rounds for every update.
        tolerance: Stops earlier once no point moves further than this share of ε in a round. By
            default, so little that no point can be in violation.

    >>> from uspebm import Box, Gaussian
    >>> law, draws = Gaussian((0.3, 0.0), 0.1), torch.Generator()
    >>> box, steps = Box(-1.0, 1.0, (2,)), {"ascent_size": 0.001, "rounds": 500}
    >>> phase = USP(domain=box, particles=30, spacing=0.05, **steps)
    >>> nodes, state, info = phase.step(law, phase.init(draws), draws)
    >>> mean = nodes.log_weight.softmax(0) @ nodes.x
    >>> round(info.smallest, 2), round(mean[0].item(), 1)  # the spacing; the model's mean
    (0.05, 0.3)
    """

    rounds: int = 1000
    tolerance: float = CLEARANCE

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(1, rounds=self.rounds)
        positive(tolerance=self.tolerance)

    @property
    def gradients(self) -> int:
        return self.particles * self.rounds * self.ascent_steps

    def step(
        self,
        energy: Energy,
        state: Particles,
        generator: torch.Generator,
        workspace: Workspace | None = None,
    ) -> tuple[Nodes, Particles, USPInfo]:
        group = current_group()
        u = group.gathered(expect_particles(state, self.particles))
        alone = Neighbours(u.new_empty(0, self.domain.dim), self.spacing)
        rounds, moved = 0, float("inf")
        # Below half the longest repulsion, lest a short one be taken for rest.
        rest = min(self.tolerance * self.spacing, self.longest_repulsion / 2)
        while rounds < self.rounds and moved >= rest:
            before = u
            shrink = 1 / (1 + rounds / ANNEALING)
            u = self.ascend_all(energy, u, shrink)
            for _ in range(self.repulsion_steps):
                u, _ = self.move(u, alone, generator)
            moved = (u - before).flatten(1).norm(dim=1).max().item()
            rounds += 1
        nearest = group.gathered(alone.crowd(finite(u).flatten(1), group).nearest)
        info = USPInfo(
            rounds=rounds,
            moved=moved,
            smallest=smallest_distance(u.flatten(1)),
            unsettled=(nearest < self.spacing).double().mean().item(),
        )
        u = group.rows(u)
        return Nodes(u, -energy_at(energy, u)), Particles(u), info
