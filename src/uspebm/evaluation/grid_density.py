r"""Normalised densities on a grid, in one and two dimensions.

.. math:: q(x) = e^{-E(x)} / Z, \qquad Z \approx h \sum_i e^{-E(x_i)}

over the midpoints :math:`x_i` of cells of volume h. As a law, the density is constant on each cell.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..domains import Box
from ..energies.gradient import energy_at
from ..energies.shapes import expect_shape
from ..types import Energy


class GridDensity(NamedTuple):
    """A density by its values at the midpoints of a regular grid: a :class:`~uspebm.types.Law`.

    >>> from uspebm.energies import Gaussian
    >>> q = grid_density(Gaussian((0.0, 0.0), 0.2), Box(-1.0, 1.0, (2,)), 100)
    >>> half = q.mass[q.x[:, 0] > 0].sum()  # of the law, to the right
    >>> round(q.mass.sum().item(), 6), round(half.item(), 6)
    (1.0, 0.5)
    >>> q.log_prob(torch.tensor([[3.0, 0.0]]))  # outside the box
    tensor([-inf])
    """

    x: Tensor
    """Midpoints, ``(cells ** dim, *event)``."""
    log_q: Tensor
    """Normalised log-density at the midpoints."""
    log_z: float
    """Over the domain."""
    cell: float
    """Volume of a cell."""
    domain: Box
    """What the grid divides."""

    @property
    def mass(self) -> Tensor:
        """Probability of each cell; sums to one."""
        return self.log_q.exp() * self.cell

    @property
    def cells(self) -> int:
        """Along each axis."""
        return round(math.pow(len(self.x), 1 / self.domain.dim))

    def log_prob(self, x: Tensor) -> Tensor:
        """Log-density of the cells that points lie in, ``(N,)``; minus infinity outside the box."""
        expect_shape(x, self.domain.shape, "GridDensity")
        density = self.log_q[self.domain.cell_of(x, self.cells)].to(x.dtype)
        return density.masked_fill(~self.domain.contains(x), -math.inf)

    def sample(
        self, n: int, generator: torch.Generator, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """``n`` independent points: a cell by its mass, and anywhere in it."""
        share = torch.rand(n, generator=generator, dtype=torch.float64, device=self.x.device)
        total = self.mass.cumsum(0)
        cell = torch.searchsorted(total, share * total[-1], right=True).clamp_max(len(total) - 1)
        anywhere = self.domain.sample(n, generator, dtype)  # in the box, then shrunk to a cell
        middle = self.domain.grid(1, dtype, self.x.device)
        return self.domain.project(self.x[cell].to(dtype) + (anywhere - middle) / self.cells)


def grid_density(
    energy: Energy, domain: Box, cells: int, dtype: torch.dtype | None = None
) -> GridDensity:
    """Normalise ``energy`` over ``domain``; exact up to the grid.

    Arguments:
        energy: From points ``(N, *event)`` to ``(N,)``.
        domain: Ω, of one or two dimensions.
        cells: Along each axis.
        dtype: Of the points. Left out: that of the energy's parameters if it has some, else
            float32.

    >>> from uspebm.energies import Gaussian
    >>> q = grid_density(Gaussian((0.0,), 0.1), Box(-1.0, 1.0, (1,)), 200, torch.float64)
    >>> abs(q.log_z - Gaussian((0.0,), 0.1).log_z) < 1e-12
    True
    """
    weight = next(energy.parameters(), None) if isinstance(energy, nn.Module) else None
    like = torch.empty(0) if weight is None else weight
    x = domain.grid(cells, dtype or like.dtype, like.device)
    minus_e = -torch.cat([energy_at(energy, part) for part in x.split(65_536)]).double()
    cell = domain.volume / len(x)
    log_z = torch.logsumexp(minus_e, 0).item() + math.log(cell)
    return GridDensity(x, minus_e - log_z, log_z, cell, domain)


def kl(p: GridDensity, q: GridDensity) -> float:
    """KL(p ‖ q) over the grid."""
    return (p.mass * (p.log_q - q.log_q)).sum().item()


def region(p: GridDensity, mass: float) -> Tensor:
    """The cells of highest density that together hold ``mass`` of p, as a mask."""
    order = p.log_q.argsort(descending=True)
    held = p.mass[order].cumsum(0)
    inside = torch.zeros_like(p.log_q, dtype=torch.bool)
    inside[order[: int((held < mass).sum()) + 1]] = True
    return inside


def ood_share(p: GridDensity, q: GridDensity, mass: float = 0.999) -> float:
    """Share of the OOD region where q exceeds its median in-distribution density.

    The OOD region is where p is below the density that encloses ``mass`` of it; the median is
    over points drawn from p. Zero for q = p; near a half or more, q says nothing.
    """
    order = q.log_q.argsort()
    median = q.log_q[order[int((p.mass[order].cumsum(0) < 0.5).sum())]]
    outside = ~region(p, mass)
    return (q.log_q[outside] > median).double().mean().item()


def mass_by_nearest(q: GridDensity, centres: Tensor) -> list[float]:
    """Mass of q over the cells that are nearest to each of ``centres``, ``(k, d)``."""
    nearest = torch.cdist(q.x.flatten(1).double(), centres.double()).argmin(1)
    return torch.zeros(len(centres), dtype=torch.float64).index_add(0, nearest, q.mass).tolist()
