r"""The two moves of Uniform Support Partitioning, and the settings that shape them.

USP seeks points that fill the support of q evenly,

.. math:: \max_{u_i \in \Omega} \sum_i \log q(u_i)
          \quad\text{subject to}\quad \|u_i - u_j\| \ge \epsilon,

by alternating an *ascent* on the log-density with a *repulsion* of points that are too close.
No projection onto the constraint is known in closed form, so nothing guarantees that it holds
in the end: both methods report how far it does.
"""

from abc import ABC
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from ..domains import Box, check_proposal, draw
from ..energies.gradient import energy_gradient
from ..neighbours.crowd import Crowd
from ..neighbours.search import Neighbours
from ..support.checks import at_least, one_of, positive
from ..support.group import current_group
from ..types import Energy, NonFiniteError, Proposal

CLEARANCE = 0.01
"""Share of ε that a repelled point goes beyond what it needs, so that repulsion has an end."""


class Particles(NamedTuple):
    """The partition points, kept from update to update.

    >>> from uspebm import USP
    >>> phase = USP(domain=Box(-1.0, 1.0, (2,)), particles=3, spacing=0.5)
    >>> phase.start_at(torch.zeros(3, 2)).points.shape  # at given points, or phase.init
    torch.Size([3, 2])
    """

    points: Tensor
    """``(particles, *event)``."""


@dataclass(frozen=True, kw_only=True)
class Partition(ABC):
    """Settings and moves that USP and PS-USP have in common.

    Arguments:
        domain: Ω; points are projected on it after every move.
        particles: Number of points, n.
        spacing: ε, the distance that points are to keep.
        proposal: Where points start. Left out: uniform on the domain.
        ascent_steps: Ascents per round, n_m.
        repulsion_steps: Repulsions per round, n_r.
        ascent_size: Factor of ∇E in an ascent. The paper gives none; 0.01 suits energies that
            change by about one over a distance of 0.1. An ascent is never longer than ε.
        repulsion: How long a repulsion is. ``"needed"``: along the gradient of the objective, no
            further than the point needs to clear its nearest neighbour, plus a hundredth of ε, so
            that repulsion has an end. ``"plain"``: projected gradient ascent as the paper has it,
            ``repulsion_size`` times the gradient, which does not shrink near the constraint; so
            points never come to rest.
        repulsion_size: Longest repulsion, or the plain one's factor. Left out, ε / 5: crowded
            points then part within a few rounds without jumping over their neighbours.

    >>> from uspebm import USP  # this class has the moves, and USP and PS-USP their order
    >>> phase = USP(domain=Box(-1.0, 1.0, (1,)), particles=1, spacing=0.5, ascent_size=0.1)
    >>> phase.ascend(lambda x: x.square().sum(1), torch.tensor([[0.5]]))  # 0.5 − 0.1 · 2 · 0.5
    tensor([[0.4000]])
    """

    domain: Box
    particles: int
    spacing: float
    proposal: Proposal | None = None
    ascent_steps: int = 1
    repulsion_steps: int = 1
    ascent_size: float = 0.01
    repulsion: Literal["needed", "plain"] = "needed"
    repulsion_size: float | None = None

    def __post_init__(self) -> None:
        at_least(
            1,
            particles=self.particles,
            ascent_steps=self.ascent_steps,
            repulsion_steps=self.repulsion_steps,
        )
        positive(spacing=self.spacing, ascent_size=self.ascent_size)
        if self.repulsion_size is not None:
            positive(repulsion_size=self.repulsion_size)
        one_of(("needed", "plain"), repulsion=self.repulsion)

    def init(self, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Particles:
        """Points drawn from the proposal; ``start_at`` takes given ones instead."""
        proposal, group = self.proposal or self.domain, current_group()
        check_proposal(proposal, generator, dtype, self.domain)
        count, draws = group.share(self.particles), group.own(generator)
        return Particles(draw(proposal, count, draws, dtype, self.domain))

    def start_at(self, points: Tensor) -> Particles:
        """A state that starts at copies of ``points``, such as training images."""
        if points.shape != (self.particles, *self.domain.shape):
            raise ValueError(
                f"points of shape {tuple(points.shape)} do not fit particles={self.particles} "
                f"in a domain of shape {self.domain.shape}"
            )
        own = current_group().rows(points)
        return self.start_own(own.clone(memory_format=torch.contiguous_format))

    def start_own(self, points: Tensor) -> Particles:
        """A state of these very points, which are this process's share of all."""
        # In all processes alike: one that went on alone would wait for the others for ever.
        outside = int(current_group().add((~self.domain.contains(points)).sum()))
        if outside:
            raise ValueError(
                f"{outside} of {self.particles} points lie outside domain={self.domain}"
            )
        return Particles(points.contiguous())

    @property
    def longest_repulsion(self) -> float:
        """The length that no repulsion exceeds; of plain ones, the factor of the gradient."""
        return self.spacing / 5 if self.repulsion_size is None else self.repulsion_size

    def ascend_all(self, energy: Energy, u: Tensor, shrink: float = 1.0) -> Tensor:
        """All ascents of a round, each process making those of its share of the points."""

        def ascended(x: Tensor) -> tuple[Tensor, Tensor]:
            for _ in range(self.ascent_steps):
                x = self.ascend(energy, x, shrink)
            return x, x.new_zeros(len(x))

        return current_group().spread(ascended, u)[0]

    def ascend(self, energy: Energy, u: Tensor, shrink: float = 1.0) -> Tensor:
        """One step of projected gradient ascent on log q, ``shrink`` times the usual size."""
        step = shrink * self.ascent_size * energy_gradient(energy, u)
        length = step.flatten(1).norm(dim=1).clamp_min(self.spacing)
        return self.domain.project(u - step * _column(self.spacing / length, u))

    def move(
        self,
        u: Tensor,
        neighbours: Neighbours,
        generator: torch.Generator,
        ascend: Callable[[Tensor], Tensor] | None = None,
        shared: bool = False,
    ) -> tuple[Tensor, Tensor]:
        """Repel the points that violate the spacing; any other ascends, if it is to.

        All processes know all of ``u``, and each moves its share; the points that stay are the same
        in all, or ``shared`` out. Returns where they are now, and how far the nearest was from each
        before.
        """
        group = current_group()
        crowd = neighbours.crowd(u.flatten(1), group, shared)
        ties = bool(crowd.coincident.any())
        if ties:
            crowd = _parted(crowd, group.rows(_directions(u, generator)))

        def moved(own: Tensor) -> tuple[Tensor, Tensor]:
            violates = crowd.nearest < self.spacing
            x = self.repel(own, crowd)
            if ascend is not None and not violates.all():
                x[~violates] = ascend(own[~violates])
            return x, crowd.nearest

        u, nearest = group.spread(moved, u)
        if group.size > 1 and not ties and (nearest == 0).any():
            _directions(u, generator)  # as another process did: draws stay the same in all
        return u, nearest

    def repel(self, u: Tensor, crowd: Crowd) -> Tensor:
        """One step of projected gradient ascent on the repulsion objective."""
        direction = crowd.gradient
        if self.repulsion == "plain":
            return self.domain.project(u + self.longest_repulsion * direction.view_as(u))
        norm = direction.norm(dim=1)
        needed = self.spacing * (1 + CLEARANCE) - crowd.nearest
        length = needed.clamp_max(self.longest_repulsion) / norm.where(
            norm > 0, torch.ones_like(norm)
        )
        return self.domain.project(u + (direction * _column(length, direction)).view_as(u))


def _directions(u: Tensor, generator: torch.Generator) -> Tensor:
    """One for each point, at random."""
    return torch.randn(u.flatten(1).shape, generator=generator, dtype=u.dtype, device=u.device)


def _parted(crowd: Crowd, directions: Tensor) -> Crowd:
    """Coincident points have no direction: each is pushed along one of its own, so that they part.

    Drawn from the generator, and so alike for the same seed.
    """
    coincident = _column(crowd.coincident, directions)
    return crowd._replace(gradient=crowd.gradient + directions * coincident)


def _column(values: Tensor, like: Tensor) -> Tensor:
    """One value per point, ready to multiply points like ``like``."""
    return values.reshape(-1, *[1] * (like.dim() - 1))


def expect_particles(state: Particles, particles: int) -> Tensor:
    """The points of ``state``, if they are this process's share of so many."""
    if len(state.points) != current_group().share(particles):
        raise ValueError(f"the state has {len(state.points)} points, but particles={particles}")
    return state.points


def finite(u: Tensor) -> Tensor:
    """``u`` itself, if every coordinate is a finite number."""
    if not torch.isfinite(u).all():
        raise NonFiniteError("partition points stopped being finite numbers")
    return u
