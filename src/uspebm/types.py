r"""The words every part of the library shares.

A negative phase stands in for the model's distribution :math:`q \propto e^{-E}` by
weighted points,

.. math:: \mathbb{E}_q[f] \approx \sum_i w_i f(x_i), \qquad w = \mathrm{softmax}(\ell),

and everything else (loss, trainer, experiments) sees only those points.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor

Energy = Callable[[Tensor], Tensor]
"""Maps points ``(N, *event)`` to energies ``(N,)``."""


class Nodes(NamedTuple):
    """Quadrature nodes: ``E_q[f] ~ sum(softmax(log_weight) * f(x))``. They carry no graph."""

    x: Tensor
    """Points, ``(N, *event)``."""
    log_weight: Tensor
    """Unnormalised log-weights, ``(N,)``."""


class Proposal(Protocol):
    """Where points start: the paper's q0. A :class:`~uspebm.Box` or a Gaussian is one."""

    def sample(self, n: int, generator: torch.Generator, dtype: torch.dtype) -> Tensor:
        """Draw ``n`` points ``(n, *event)`` on the generator's device."""
        ...


State = TypeVar("State", bound=tuple[Any, ...])


class NegativePhase(Protocol[State]):
    """A way to produce nodes; a frozen dataclass of plain settings.

    ``State`` is a ``NamedTuple`` of tensors, and holds only what the next step needs: it is
    what a checkpoint saves. ``Info`` is a ``NamedTuple`` of plain numbers, for people to read.
    """

    @property
    def gradients(self) -> int:
        """Points at which a step takes the gradient of the energy, at most."""
        ...

    def init(self, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> State:
        """A first state, on the generator's device."""
        ...

    def step(
        self, energy: Energy, state: State, generator: torch.Generator
    ) -> tuple[Nodes, State, NamedTuple]:
        """Nodes for ``energy`` as it is now.

        Consumes ``state``: the tensors in it may be written into. They are written only once
        the new values are known to be finite, so that ``state`` is a good one even after an error.
        """
        ...


class NonFiniteError(ArithmeticError):
    """An energy or its gradient stopped being a number."""
