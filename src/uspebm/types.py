r"""The words every part of the library shares.

A negative phase stands in for the model's distribution :math:`q \propto e^{-E}` by
weighted points,

.. math:: \mathbb{E}_q[f] \approx \sum_i w_i f(x_i), \qquad w = \mathrm{softmax}(\ell),

and everything else (objective, trainer, experiments) sees only those points. An energy is any
callable:

>>> energy: Energy = lambda x: x.square().sum(1)
>>> energy(torch.tensor([[0.0, 0.0], [3.0, 4.0]]))  # the likelier, the lower
tensor([ 0., 25.])
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor

Energy = Callable[[Tensor], Tensor]
"""Maps points ``(N, *event)`` to energies ``(N,)``."""


class Nodes(NamedTuple):
    """Quadrature nodes: ``E_q[f] ~ sum(softmax(log_weight) * f(x))``. They carry no graph.

    >>> nodes = Nodes(torch.tensor([[0.0], [1.0]]), torch.tensor([0.0, 3.0]).log1p())
    >>> (nodes.log_weight.softmax(0) * nodes.x.squeeze(1)).sum()  # the mean, by weights 1 and 4
    tensor(0.8000)
    """

    x: Tensor
    """Points, ``(N, *event)``."""
    log_weight: Tensor
    """Unnormalised log-weights, ``(N,)``."""


class Proposal(Protocol):
    """Where points start: the paper's q0. A :class:`~uspebm.Box` or a Gaussian is one."""

    def sample(self, n: int, generator: torch.Generator, dtype: torch.dtype) -> Tensor:
        """Draw ``n`` points ``(n, *event)`` on the generator's device."""
        ...


class Law(Proposal, Protocol):
    """A proposal whose density is known: what importance sampling and annealing start from.

    >>> from uspebm import Box
    >>> law: Law = Box(0.0, 4.0, (1,))  # the uniform law on itself
    >>> law.log_prob(torch.tensor([[1.0], [5.0]])).exp()
    tensor([0.2500, 0.0000])
    """

    def log_prob(self, x: Tensor) -> Tensor:
        """Normalised log-densities ``(N,)``."""
        ...


class Domain(Protocol):
    """Ω, which holds the support of the model. A :class:`~uspebm.Box` is one."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one point."""
        ...

    def project(self, x: Tensor) -> Tensor:
        """The nearest points of the domain."""
        ...

    def share_outside(self, x: Tensor) -> float:
        """The share of points that lie outside."""
        ...


@dataclass
class Workspace:
    """What a phase may keep between updates and could make anew: no result depends on it.

    Whoever runs a phase owns it (``fit`` does, for a run), so that two runs never share scratch.
    """

    compiled: bool = False
    """Whether compiled code looks for neighbours, which the machine must then have."""
    scratch: dict[str, Any] = field(default_factory=dict)


State = TypeVar("State", bound=tuple[Any, ...])


class NegativePhase(Protocol[State]):
    """A way to produce nodes; a frozen dataclass of plain settings.

    ``State`` is a ``NamedTuple`` of tensors, and holds only what the next step needs: it is
    what a checkpoint saves. ``Info`` is a ``NamedTuple`` of plain numbers, for people to read.

    A phase may also tell what a step costs, which decides whether compiling pays off:
    ``gradients``, the points at which it takes the gradient of the energy, at most (0 where it is
    left out), and ``searches``, whether it looks for neighbours among all points (False).

    >>> from uspebm import Box, Gaussian, RiemannGrid
    >>> phase, draws = RiemannGrid(Box(-1.0, 1.0, (1,)), cells=100), torch.Generator()
    >>> nodes, state, info = phase.step(Gaussian((0.25,), 0.1), phase.init(draws), draws)
    >>> (nodes.log_weight.softmax(0) * nodes.x.squeeze(1)).sum()  # the model's mean
    tensor(0.2500)
    """

    @property
    def domain(self) -> Domain | None:
        """Ω, which data have to lie in; None where the phase knows of none."""
        ...

    def init(self, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> State:
        """A first state, on the generator's device."""
        ...

    def step(
        self,
        energy: Energy,
        state: State,
        generator: torch.Generator,
        workspace: Workspace | None = None,
    ) -> tuple[Nodes, State, NamedTuple]:
        """Nodes for ``energy`` as it is now.

        Consumes ``state``: the tensors in it may be written into. They are written only once
        the new values are known to be finite, so that ``state`` is a good one even after an error.
        """
        ...


class NonFiniteError(ArithmeticError):
    """An energy or its gradient stopped being a number.

    >>> from uspebm import Box, Langevin
    >>> phase, draws = Langevin(Box(-1.0, 1.0, (1,)), 5, steps=99, step_size=9.0), torch.Generator()
    >>> phase.step(lambda x: x.square().sum(1), phase.init(draws), draws)
    Traceback (most recent call last):
    uspebm.types.NonFiniteError: 3 of 5 energies are not finite
    """
