r"""PS-USP that stays crowded: a spacing that follows the points, and points that start afresh.

Beyond the paper. Partition points teach the model what surrounds the data only while there is not
room for all of them on data-like points at spacing ε: then repulsion pushes some of them around the
support. On images a fixed ε is soon satisfied and the points come to equal the data. Here ε follows
the share v of active points that violate it,

.. math:: \epsilon \leftarrow \epsilon \exp(r (v^* - v)),

so that the share tends to :math:`v^*`. Independently of that, a few points are moved to draws from
a proposal after every update: from there they find low energies far from the data, which points
that started at the data would not reach.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from ..domains import Box, draw
from ..types import Energy, Nodes, Proposal, Workspace
from .partition import Particles
from .persistent_usp import PersistentUSP
from .whole import place


class CrowdedState(NamedTuple):
    """The points, and the spacing they are held to."""

    points: Tensor
    """``(particles, *event)``."""
    spacing: Tensor
    """ε, ``()``."""


class CrowdedUSPInfo(NamedTuple):
    """As of PS-USP, and the spacing at which it was measured."""

    violating: float
    nearest: float
    spacing: float


@dataclass(frozen=True, kw_only=True)
class CrowdedUSP:
    """PS-USP with a spacing that adapts.

    Arguments:
        phase: PS-USP; its spacing is the one to begin with.
        violating: Share of the active points that is to violate the spacing.
        rate: How fast the spacing follows, r; at 0 it stays as it is.
        restarts: Points moved to the ``fresh`` ones after every update; a fraction is a chance.
        fresh: Where they are moved. Left out: uniform on the domain.

    >>> box = Box(-1.0, 1.0, (2,))
    >>> usp = PersistentUSP(domain=box, particles=50, spacing=0.01, active=10, nodes=50, rounds=1)
    >>> phase, draws = CrowdedUSP(phase=usp), torch.Generator().manual_seed(0)
    >>> _, state, info = phase.step(lambda x: x.square().sum(1), phase.init(draws), draws)
    >>> bool(state.spacing > info.spacing)  # none was crowded: it grows
    True
    """

    phase: PersistentUSP
    violating: float = 0.5
    rate: float = 0.03
    restarts: float = 0.0
    fresh: Proposal | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.rate < math.inf:
            raise ValueError(f"rate={self.rate} must be a number, not below 0")
        if not 0 < self.violating < 1:
            raise ValueError(f"violating={self.violating} must lie between 0 and 1")
        if not 0 <= self.restarts <= self.phase.particles:
            raise ValueError(
                f"restarts={self.restarts} must lie between 0 and particles={self.phase.particles}"
            )

    @property
    def domain(self) -> Box:
        return self.phase.domain

    @property
    def particles(self) -> int:
        """Of the inner phase."""
        return self.phase.particles

    @property
    def gradients(self) -> int:
        return self.phase.gradients

    @property
    def searches(self) -> bool:
        return self.phase.searches

    def init(self, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> CrowdedState:
        return self._begin(self.phase.init(generator, dtype))

    def start_at(self, points: Tensor) -> CrowdedState:
        """A state that starts at copies of ``points``, such as training images."""
        return self._begin(self.phase.start_at(points))

    def start_own(self, points: Tensor) -> CrowdedState:
        """A state of these very points, which are this process's share of all."""
        return self._begin(self.phase.start_own(points))

    def _begin(self, particles: Particles) -> CrowdedState:
        return CrowdedState(particles.points, particles.points.new_tensor(self.phase.spacing))

    def step(
        self,
        energy: Energy,
        state: CrowdedState,
        generator: torch.Generator,
        workspace: Workspace | None = None,
    ) -> tuple[Nodes, CrowdedState, CrowdedUSPInfo]:
        workspace = workspace or Workspace()
        spacing = state.spacing.item()
        phase = replace(self.phase, spacing=spacing)
        nodes, _, info = phase.step(energy, Particles(state.points), generator, workspace)
        state.spacing.mul_(math.exp(self.rate * (self.violating - info.violating)))
        self._restart(state.points, generator, workspace)
        return nodes, state, CrowdedUSPInfo(info.violating, info.nearest, spacing)

    def _restart(self, points: Tensor, generator: torch.Generator, workspace: Workspace) -> None:
        chance = torch.rand((), generator=generator, device=points.device).item()
        count = int(self.restarts) + (chance < self.restarts % 1)
        if count:
            order = torch.randperm(self.particles, generator=generator, device=points.device)
            fresh = self.draw_fresh(count, generator, points.dtype)
            place(points, self.particles, order[:count], fresh, workspace, self.searches)

    def draw_fresh(self, count: int, generator: torch.Generator, dtype: torch.dtype) -> Tensor:
        """Points to start afresh at, within the domain."""
        return draw(self.fresh or self.domain, count, generator, dtype, self.domain)
