r"""Persistent Stochastic USP: a few points move a little before every update of the model.

Kim & Ye (2022), section 5.1. For every update of the parameters,

1. choose active points :math:`\Lambda \subset [n]` at random;
2. ``rounds`` times: ascend log q, then repel :math:`\Lambda` from itself and from others
   :math:`\Gamma \subset [n] \setminus \Lambda`;
3. hand out ``nodes`` of the n points with weights :math:`w_i \propto e^{-E(u_i)}`.

With one ascent and one repulsion per round the two merge, as in the paper's experiments: a point
that violates the spacing is repelled, any other ascends.

Processes that train together hold n / k points each, and all know Λ, of which each moves its share.
In a round they tell each other where that went: one number for each coordinate of Λ. Where they
have no copy of all points (:mod:`.whole`), each first tells the others what their share feels of
its points, as many numbers again. Neither grows with n nor, per process, with k.

Not guaranteed: that the spacing holds, or that the points cover the support. The share of
violating points in ``Info`` tells whether repulsion still has work to do; where it has none, the
points have become copies of the modes and teach the model nothing about what lies around them.
"""

from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from ..energies.gradient import energy_at
from ..neighbours.search import Neighbours
from ..neighbours.sketch import Sketch, sketch_of
from ..support.checks import at_least, one_of
from ..support.group import current_group
from ..types import Energy, Nodes, Workspace
from .partition import Particles, Partition, expect_particles, finite
from .whole import place, whole_of


class PersistentUSPInfo(NamedTuple):
    """The state of the active points in the last round, before its move."""

    violating: float
    """Share of them that was closer than ε to another point."""
    nearest: float
    """Smallest distance of one of them to any point considered, at most ε."""


@dataclass(frozen=True, kw_only=True)
class PersistentUSP(Partition):
    """Partition points that persist while the model learns.

    Takes what :class:`Partition` takes, and:

    Arguments:
        active: Points that move for an update, ``|Λ|``.
        nodes: Points that enter the quadrature, n_s.
        rounds: Rounds for every update, N.
        others: Points that repel the active ones, ``|Γ|``, drawn anew for every repulsion. Left
            out: all of them, since with few, points settle on top of ones that were not drawn.
        redraw: When Λ is drawn: once per ``"update"``, as the paper's list of steps has it, or in
            every ``"round"``, as its text says ("at each iteration of USP").
        choice: Which points are the nodes: the ``"active"`` ones first, filled up at random, or
            all drawn ``"uniform"`` from the n. With one Λ per update the first are the points that
            were moved for this very energy.

    >>> from uspebm import Box, Gaussian
    >>> start, draws = Gaussian((0.8, 0.0), 0.05), torch.Generator()  # far from the model's mode
    >>> settings = {"particles": 100, "spacing": 0.05, "active": 50, "nodes": 100}
    >>> phase = PersistentUSP(domain=Box(-1.0, 1.0, (2,)), proposal=start, **settings)
    >>> state = phase.init(draws)
    >>> for _ in range(8):  # updates, of a model that stays as it is
    ...     nodes, state, info = phase.step(Gaussian((-0.5, 0.0), 0.1), state, draws)
    >>> heaviest = nodes.x[nodes.log_weight.argmax()]
    >>> round(heaviest[0].item(), 1), info.violating > 0.5  # at the mode; a crowd around it
    (-0.5, True)
    """

    active: int
    nodes: int
    rounds: int = 20
    others: int | None = None
    redraw: Literal["update", "round"] = "update"
    choice: Literal["active", "uniform"] = "active"

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(1, active=self.active, nodes=self.nodes, rounds=self.rounds)
        one_of(("update", "round"), redraw=self.redraw)
        one_of(("active", "uniform"), choice=self.choice)
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

    @property
    def searches(self) -> bool:
        return self.others is None

    def step(
        self,
        energy: Energy,
        state: Particles,
        generator: torch.Generator,
        workspace: Workspace | None = None,
    ) -> tuple[Nodes, Particles, PersistentUSPInfo]:
        points = expect_particles(state, self.particles)
        workspace = workspace or Workspace()
        if self.redraw == "round":
            return self._step_by_rounds(energy, state, generator, workspace)
        order, u, nearest = self._move(energy, points, self.rounds, generator, workspace)
        nodes = self._nodes(energy, points, order, finite(u), generator)
        place(points, self.particles, order[: self.active], u, workspace, self.searches)
        return nodes, state, self._info(nearest)

    def _step_by_rounds(
        self, energy: Energy, state: Particles, generator: torch.Generator, workspace: Workspace
    ) -> tuple[Nodes, Particles, PersistentUSPInfo]:
        """As ``step``, with another Λ in every round, which finds the last one where it went."""
        points, before = state.points, state.points.clone()
        try:
            for _ in range(self.rounds):
                order, u, nearest = self._move(energy, points, 1, generator, workspace)
                rows = order[: self.active]
                place(points, self.particles, rows, finite(u), workspace, self.searches)
            nodes = self._nodes(energy, points, order, u, generator)
        except BaseException:
            points.copy_(before)
            raise
        return nodes, state, self._info(nearest)

    def _nodes(
        self,
        energy: Energy,
        points: Tensor,
        order: Tensor,
        u: Tensor,
        generator: torch.Generator,
    ) -> Nodes:
        """Of the points in ``order``, whose first are now at ``u``."""
        chosen = torch.arange(self.nodes, device=points.device)
        if self.choice == "uniform":
            drawn = torch.randperm(self.particles, generator=generator, device=points.device)
            chosen = drawn[: self.nodes]
        # Where moved points are all processes know: each takes as many. Of the rest, its own.
        group = current_group()
        own = group.mine(order[chosen], self.particles)[0]
        (moved,) = (chosen < self.active).nonzero(as_tuple=True)
        own[moved] = False
        own[group.rows(moved)] = True
        chosen = chosen[own]
        moved = chosen < self.active
        x = points.new_empty(len(chosen), *points.shape[1:])
        x[moved] = u[chosen[moved]]
        x[~moved] = points[group.mine(order[chosen[~moved]], self.particles)[1]]
        return Nodes(x, -energy_at(energy, x))

    def _info(self, nearest: Tensor) -> PersistentUSPInfo:
        violating = (nearest < self.spacing).double().mean().item()
        return PersistentUSPInfo(violating, nearest.min().item())

    def _move(
        self,
        energy: Energy,
        points: Tensor,
        rounds: int,
        generator: torch.Generator,
        workspace: Workspace,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Draw Λ and move it.

        Returns an order of all points that begins with Λ, where Λ is, and how far the nearest was
        from each of it before the last move.
        """
        order = torch.randperm(self.particles, generator=generator, device=points.device)
        active, rest = order[: self.active], order[self.active :]
        whole = whole_of(points, self.particles, workspace)
        shared = whole is None
        own, rows = current_group().mine(active, self.particles)
        if whole is None:
            u = points.new_zeros(len(active), *points.shape[1:])
            u[own] = points[rows]
            u = current_group().add(u)
        else:
            points, rows, u = whole, active, whole[active]
        if self.searches:
            sketch = sketch_of(points, workspace)
            once = rounds * self.repulsion_steps == 1
            neighbours = Neighbours(
                points.flatten(1), self.spacing, rows, sketch, workspace.compiled, once
            )
        merged = self.ascent_steps == self.repulsion_steps == 1
        ascend = partial(self.ascend, energy) if merged else None
        for _ in range(rounds):
            if not merged:
                u = self.ascend_all(energy, u)
            for _ in range(self.repulsion_steps):
                if not self.searches:
                    neighbours = self._sample_others(points, rest, generator, shared)
                u, nearest = self.move(u, neighbours, generator, ascend, shared)
        return order, u, nearest

    def _sample_others(
        self, points: Tensor, rest: Tensor, generator: torch.Generator, shared: bool
    ) -> Neighbours:
        drawn = torch.randperm(len(rest), generator=generator, device=points.device)
        rows = rest[drawn[: self.others]]
        if shared:
            _, rows = current_group().mine(rows, self.particles)
        flat = points[rows].flatten(1)
        return Neighbours(flat, self.spacing, sketch=Sketch(flat, 0), once=True)
