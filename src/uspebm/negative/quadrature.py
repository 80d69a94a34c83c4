r"""Nodes that do not move: drawn from a known law, on a grid, or given.

.. math:: \mathbb{E}_q[f] \approx \sum_i w_i f(u_i), \qquad \log w_i = -E(u_i) - \log r(u_i)

with :math:`u_i` drawn from r (self-normalised importance sampling; r is uniform on :math:`\Omega`
in the paper) or on a regular grid (Riemann sum, r constant). Where the domain has many dimensions
hardly any point of a uniform law falls where q lives (Kim & Ye, Prop. 1 and section 4.1): watch
the effective sample size.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ..domains import Box
from ..energies.gradient import energy_at
from ..support.checks import at_least
from ..support.group import current_group
from ..types import Energy, Law, Nodes, Workspace
from .prototype import Prototype, prototype


class QuadratureInfo(NamedTuple):
    """Nothing to report: the effective sample size is the trainer's to compute."""


@dataclass(frozen=True)
class Importance:
    """Self-normalised importance sampling from a law r, for a model q ∝ exp(−E).

    Arguments:
        proposal: r, with its log-density; a :class:`~uspebm.Box` is the uniform law on itself.
        nodes: Points drawn for every update.

    >>> from uspebm.objective import effective_sample_size
    >>> for d in (1, 4, 16):  # of 10,000 nodes, how many count for a Gaussian of deviation 0.1?
    ...     draws, phase = torch.Generator(), Importance(Box(-1.0, 1.0, (d,)), nodes=10_000)
    ...     nodes, *_ = phase.step(lambda x: 50 * x.square().sum(1), phase.init(draws), draws)
    ...     print(round(effective_sample_size(nodes.log_weight)))
    1795
    9
    1
    """

    proposal: Law
    nodes: int

    def __post_init__(self) -> None:
        at_least(1, nodes=self.nodes)

    @property
    def domain(self) -> Box | None:
        """Ω, where r is the uniform law on it."""
        return self.proposal if isinstance(self.proposal, Box) else None

    def init(self, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Prototype:
        return prototype(self.proposal.sample(1, generator, dtype))

    def step(
        self,
        energy: Energy,
        state: Prototype,
        generator: torch.Generator,
        workspace: Workspace | None = None,
    ) -> tuple[Nodes, Prototype, QuadratureInfo]:
        group = current_group()
        nodes, draws = group.share(self.nodes), group.own(generator)
        u = self.proposal.sample(nodes, draws, state.like.dtype)
        log_weight = -energy_at(energy, u) - self.proposal.log_prob(u).to(u.dtype)
        return Nodes(u, log_weight), state, QuadratureInfo()


@dataclass(frozen=True)
class TiltImportance:
    r"""Importance sampling for an energy f that is given *relative* to r: q ∝ r exp(−f).

    With :math:`E = f - \log r` the weights of :class:`Importance` are
    :math:`-E - \log r = -f`: r's own density, which may cost more than the network, is never
    computed, and where f is small the weights are even in any dimension.

    Arguments:
        reference: r, near the data.
        nodes: Points drawn for every update.
    """

    reference: Law
    nodes: int

    def __post_init__(self) -> None:
        at_least(1, nodes=self.nodes)

    @property
    def domain(self) -> None:
        return None

    def init(self, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Prototype:
        return prototype(self.reference.sample(1, generator, dtype))

    def step(
        self,
        energy: Energy,
        state: Prototype,
        generator: torch.Generator,
        workspace: Workspace | None = None,
    ) -> tuple[Nodes, Prototype, QuadratureInfo]:
        group = current_group()
        nodes, draws = group.share(self.nodes), group.own(generator)
        u = self.reference.sample(nodes, draws, state.like.dtype)
        return Nodes(u, -energy_at(energy, u)), state, QuadratureInfo()


class FixedState(NamedTuple):
    """The points: the same for every update."""

    points: Tensor
    """``(N, *event)``."""


@dataclass(frozen=True)
class RiemannGrid:
    """Riemann sum over the midpoints of a regular grid. For one to three dimensions.

    Arguments:
        domain: Ω.
        cells: Cells per axis.

    >>> phase, draws = RiemannGrid(Box(0.0, 1.0, (1,)), cells=2), torch.Generator()
    >>> nodes, *_ = phase.step(lambda x: 2 * x.squeeze(1), phase.init(draws), draws)
    >>> nodes.x.squeeze(1), nodes.log_weight.softmax(0)  # a step of 1/2: e times less
    (tensor([0.2500, 0.7500]), tensor([0.7311, 0.2689]))
    """

    domain: Box
    cells: int

    def __post_init__(self) -> None:
        at_least(1, cells=self.cells)

    def init(self, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> FixedState:
        grid = self.domain.grid(self.cells, dtype, generator.device)
        return FixedState(current_group().rows(grid))

    def step(
        self,
        energy: Energy,
        state: FixedState,
        generator: torch.Generator,
        workspace: Workspace | None = None,
    ) -> tuple[Nodes, FixedState, QuadratureInfo]:
        return Nodes(state.points, -energy_at(energy, state.points)), state, QuadratureInfo()


@dataclass(frozen=True, eq=False)
class FixedNodes:
    """Given points as quadrature nodes of equal volume: w ∝ exp(−E), wherever they are.

    Right as far as the points partition the support of q evenly, as those of USP do; what training
    with them teaches is then up to them alone.

    Arguments:
        points: ``(N, *event)``.
        nodes: Points drawn from them for every update. Left out: all.

    >>> phase, draws = FixedNodes(torch.tensor([[0.0], [1.0]])), torch.Generator()
    >>> nodes, *_ = phase.step(lambda x: x.squeeze(1), phase.init(draws), draws)
    >>> nodes.log_weight.softmax(0)  # an energy of 1 more: e times less
    tensor([0.7311, 0.2689])
    >>> FixedNodes(torch.zeros(3, 2), nodes=4)
    Traceback (most recent call last):
    ValueError: nodes=4 is more than the 3 points
    """

    points: Tensor
    nodes: int | None = None

    def __post_init__(self) -> None:
        if self.nodes is not None:
            at_least(1, nodes=self.nodes)
            if self.nodes > len(self.points):
                raise ValueError(f"nodes={self.nodes} is more than the {len(self.points)} points")

    def __eq__(self, other: object) -> bool:
        """By the very same points: comparing all of them is nobody's intention."""
        if not isinstance(other, FixedNodes):
            return NotImplemented
        return self.points is other.points and self.nodes == other.nodes

    def __hash__(self) -> int:
        return hash((id(self.points), self.nodes))

    @property
    def domain(self) -> None:
        return None

    def init(self, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> FixedState:
        return FixedState(current_group().rows(self.points).to(generator.device, dtype))

    def step(
        self,
        energy: Energy,
        state: FixedState,
        generator: torch.Generator,
        workspace: Workspace | None = None,
    ) -> tuple[Nodes, FixedState, QuadratureInfo]:
        x = state.points
        if self.nodes is not None:
            group = current_group()
            order = torch.randperm(len(x), generator=group.own(generator), device=x.device)
            x = x[order[: group.share(self.nodes)]]
        return Nodes(x, -energy_at(energy, x)), state, QuadratureInfo()
