r"""Chains on a line that see the energy's slope at some points, and straight lines between.

A thousand chains of forty steps ask a network for its gradient 40,000 times an update, at points
that all lie in one short interval. So the gradient is taken once, at points a distance h apart, and
chains read it off the straight line between the two beside them:

.. math:: E'(x) \approx (1 - t)\, E'(a) + t\, E'(a + h), \qquad t = (x - a) / h

Where E has three derivatives the error is at most :math:`h^2 \max |E'''| / 8`; where a piecewise
linear network has kinks between the two, of the order of their jumps in E', and of h times those in
E''. Beyond the points the last line goes on, which is right for no energy in particular: the
interval has to be as wide as nearly all chains go. It is for chains alone, whose nodes count alike:
no weight depends on it.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..domains import Box
from ..energies.gradient import energy_and_gradient
from ..support.checks import at_least
from ..types import Energy, Nodes, Workspace
from .langevin import Langevin, LangevinInfo
from .replay import Replay


class LineSlopes:
    """An energy on a line and its slope, as straight lines between points equally far apart.

    >>> lines = LineSlopes(lambda x: x.square().sum(1), torch.linspace(-1.0, 1.0, 5).unsqueeze(1))
    >>> values, slopes = lines.value_and_gradient(torch.tensor([[0.25], [2.0]]))
    >>> slopes.flatten()  # that of a square is linear, also beyond the last point
    tensor([0.5000, 4.0000])
    """

    def __init__(self, energy: Energy, points: Tensor) -> None:
        values, slopes = energy_and_gradient(energy, points)
        self._low, self._gap = points[0], (points[-1] - points[0]) / (len(points) - 1)
        self._known = torch.cat([values.unsqueeze(1), slopes], 1)

    def __call__(self, x: Tensor) -> Tensor:
        return self.value_and_gradient(x)[0]

    def value_and_gradient(self, x: Tensor) -> tuple[Tensor, Tensor]:
        at = (x - self._low) / self._gap
        # Of no number, too, there is a row: the weight below makes it none again.
        before = at.floor().nan_to_num(0.0).clamp(0, len(self._known) - 2)
        row = before.long().squeeze(1)
        read = torch.lerp(self._known[row], self._known[row + 1], at - before)
        return read[:, 0], read[:, 1:]


@dataclass(frozen=True)
class Interpolated:
    """A sampler whose chains see an interpolated gradient, made anew for every update.

    Arguments:
        sampler: Chains on a line.
        interval: Where the gradient is taken, ``Box(low, high, (1,))``.
        cells: Of the interval, in whose middles the gradient is taken.

    >>> chains = Langevin(Box(-1.0, 1.0, (1,)), chains=1000, steps=40, step_size=0.01)
    >>> Interpolated(chains, Box(-1.5, 1.5, (1,)), cells=256).gradients, chains.gradients
    (256, 40000)
    """

    sampler: Langevin | Replay
    interval: Box
    cells: int

    def __post_init__(self) -> None:
        at_least(2, cells=self.cells)
        if self.interval.shape != (1,):
            raise ValueError(f"interval of shape {self.interval.shape} must be one of a line, (1,)")

    @property
    def domain(self) -> Box | None:
        return self.sampler.domain

    @property
    def gradients(self) -> int:
        return self.cells

    def init(self, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Any:
        """The sampler's state."""
        return self.sampler.init(generator, dtype)

    def step(
        self,
        energy: Energy,
        state: Any,
        generator: torch.Generator,
        workspace: Workspace | None = None,
    ) -> tuple[Nodes, Any, LangevinInfo]:
        points = self.interval.grid(self.cells, state[0].dtype, state[0].device)
        return self.sampler.step(LineSlopes(energy, points), state, generator, workspace)
