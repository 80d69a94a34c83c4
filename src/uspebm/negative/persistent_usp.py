r"""Persistent Stochastic USP: a few points move a little before every update of the model.

Kim & Ye (2022), section 5.1. For every update of the parameters,

1. choose active points :math:`\Lambda \subset [n]` at random;
2. ``rounds`` times: ascend log q, then repel :math:`\Lambda` from itself and from others
   :math:`\Gamma \subset [n] \setminus \Lambda`;
3. hand out ``nodes`` of the n points with weights :math:`w_i \propto e^{-E(u_i)}`.

With one ascent and one repulsion per round the two merge, as in the paper's experiments: a point
that violates the spacing is repelled, any other ascends.

Not guaranteed: that the spacing holds, or that the points cover the support. The share of
violating points in ``Info`` tells whether repulsion still has work to do; where it has none, the
points have become copies of the modes and teach the model nothing about what lies around them.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ..checks import at_least
from ..gradient import energy_at
from ..native import NativeConv, NativeSearch
from ..types import Energy, Nodes
from .neighbours import Neighbours
from .partition import Particles, Partition, checked, expect
from .sketch import sketch_of


class PersistentUSPInfo(NamedTuple):
    """The state of the active points in the last round, before its move."""

    violating: float
    """Share of them that was closer than ε to another point."""
    nearest: float
    """Smallest distance of one of them to any point considered, at most ε."""


@dataclass(frozen=True, kw_only=True)
class PersistentUSP(Partition):
    """Partition points that persist while the model learns.

    Arguments, beside those of :class:`Partition`:
        active: Points that move for an update, |Λ|.
        nodes: Points that enter the quadrature, n_s: the active ones, filled up at random.
        rounds: Rounds for every update, N.
        others: Points that repel the active ones, |Γ|, drawn anew for every repulsion. Left out:
            all of them, since with few, points settle on top of ones that were not drawn.
    """

    active: int
    nodes: int
    rounds: int = 20
    others: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(1, active=self.active, nodes=self.nodes, rounds=self.rounds)
        for name in ("active", "nodes"):
            if getattr(self, name) > self.particles:
                raise ValueError(
                    f"{name}={getattr(self, name)} is more than there are: "
                    f"particles={self.particles}"
                )
        if self.others is not None:
            at_least(0, others=self.others)
            if self.others > self.particles - self.active:
                raise ValueError(
                    f"others={self.others} is more than the {self.particles - self.active} points "
                    f"that particles={self.particles} leaves beside active={self.active}"
                )

    @property
    def gradients(self) -> int:
        return self.active * self.rounds * self.ascent_steps

    def step(
        self, energy: Energy, state: Particles, generator: torch.Generator
    ) -> tuple[Nodes, Particles, PersistentUSPInfo]:
        points = expect(state, self.particles)
        order = torch.randperm(self.particles, generator=generator, device=points.device)
        active, rest = order[: self.active], order[self.active :]
        u = points[active]
        sketch = sketch_of(points) if self.others is None else None
        if sketch is not None:
            neighbours = Neighbours(
                points.flatten(1), self.spacing, skip=active, sketch=sketch,
                compiled=isinstance(energy, NativeConv | NativeSearch),
            )  # fmt: skip
        merged = self.ascent_steps == self.repulsion_steps == 1
        for _ in range(self.rounds):
            if not merged:
                for _ in range(self.ascent_steps):
                    u = self.ascend(energy, u)
            for _ in range(self.repulsion_steps):
                if sketch is None:
                    neighbours = self._sample_others(points, rest, generator)
                crowd = neighbours.crowd(u.flatten(1))
                violates = crowd.nearest < self.spacing
                repelled = self.repel(u, crowd, generator)
                if merged and not violates.all():
                    repelled[~violates] = self.ascend(energy, u[~violates])
                u = repelled
        fill = rest[: max(0, self.nodes - self.active)]
        x = torch.cat([checked(u), points[fill]])[: self.nodes]
        nodes = Nodes(x, -energy_at(energy, x))
        points[active] = u
        if sketch is not None:
            sketch.renew(points, active)
        info = PersistentUSPInfo(violates.double().mean().item(), crowd.nearest.min().item())
        return nodes, state, info

    def _sample_others(
        self, points: Tensor, rest: Tensor, generator: torch.Generator
    ) -> Neighbours:
        drawn = torch.randperm(len(rest), generator=generator, device=points.device)
        return Neighbours(points[rest[drawn[: self.others]]].flatten(1), self.spacing)
