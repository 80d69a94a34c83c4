r"""Integration over the whole domain: exact in the limit, and hopeless in many dimensions.

.. math:: \mathbb{E}_q[f] \approx \sum_i w_i f(u_i), \qquad w_i \propto e^{-E(u_i)}

with :math:`u_i` uniform on :math:`\Omega` (self-normalised importance sampling) or on a regular
grid (Riemann sum). Where the domain has many dimensions hardly any point falls where q lives
(Kim & Ye, Prop. 1 and section 4.1): watch the effective sample size. Points drawn from another law
than the uniform one have the same weights if the energy is relative to that law.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ..checks import at_least
from ..domains import Box
from ..gradient import energy_at
from ..types import Energy, Nodes, Proposal
from .prototype import Prototype, prototype


class QuadratureInfo(NamedTuple):
    """Nothing to report: the effective sample size is the trainer's to compute."""


@dataclass(frozen=True)
class Importance:
    """Self-normalised importance sampling from a law r, for a model q ∝ r exp(−E).

    With r uniform on a box, that is the usual model on the box. With a law near the data, E is only
    what has to be added to it, and the weights stay even in any dimension.

    Arguments:
        proposal: r; a :class:`~uspebm.Box` is the uniform law on itself.
        nodes: Points drawn for every update.
    """

    proposal: Proposal
    nodes: int

    def __post_init__(self) -> None:
        at_least(1, nodes=self.nodes)

    @property
    def domain(self) -> Box | None:
        """Ω, where r is the uniform law on it."""
        return self.proposal if isinstance(self.proposal, Box) else None

    @property
    def gradients(self) -> int:
        return 0

    def init(self, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Prototype:
        return prototype(self.proposal.sample(1, generator, dtype))

    def step(
        self, energy: Energy, state: Prototype, generator: torch.Generator
    ) -> tuple[Nodes, Prototype, QuadratureInfo]:
        u = self.proposal.sample(self.nodes, generator, state.like.dtype)
        return Nodes(u, -energy_at(energy, u)), state, QuadratureInfo()


class GridState(NamedTuple):
    """The grid: made once, the same for every update."""

    grid: Tensor
    """``(cells ** dim, *event)``."""


@dataclass(frozen=True)
class RiemannGrid:
    """Riemann sum over the midpoints of a regular grid. For one to three dimensions.

    Arguments:
        domain: Ω.
        cells: Cells per axis.
    """

    domain: Box
    cells: int

    def __post_init__(self) -> None:
        at_least(1, cells=self.cells)

    @property
    def gradients(self) -> int:
        return 0

    def init(self, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> GridState:
        return GridState(self.domain.grid(self.cells, dtype, generator.device))

    def step(
        self, energy: Energy, state: GridState, generator: torch.Generator
    ) -> tuple[Nodes, GridState, QuadratureInfo]:
        return Nodes(state.grid, -energy_at(energy, state.grid)), state, QuadratureInfo()
