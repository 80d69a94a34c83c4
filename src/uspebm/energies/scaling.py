r"""Units in which a model sees points.

Images keep one unit for all pixels: :math:`z = s\,(x - m)`. Columns of a table have units of their
own, and are often nearly functions of each other, so :math:`z = (x - m)\,W` with W such that the
difference between *neighbours* is as long in every direction. W is found from the pooled covariance
of such differences, shrunk towards single columns as far as makes held-back points likeliest. Of
very many columns W would be larger than the data and take hours: they are only standardised.
"""

import math

import torch
from torch import Tensor, nn

from .kernel import distances_to_others, likeliest_bandwidth

SHRINKAGES = (1.0, 0.5, 0.2, 0.05, 0.01)
"""One: every column in units of its own standard deviation, and no more."""
NEIGHBOURS = 5
WHITENED_BY = 2000
"""Points that decide."""
SHRUNK_BY, SHRUNK_FOR = 500, 100
"""Of those, how many decide about the shrinkage, and how many of half of them are tried."""
WIDEST = 1000
"""Columns that are whitened at most: W takes four seconds for these, and minutes for 6,000."""
CONSTANT = 1e-13
"""A column whose spread is this small beside its values is constant but for rounding."""


class Scaling(nn.Module):
    """An affine map of points ``(N, *event)``, in float64.

    Arguments:
        shift: ``event``-shaped, subtracted.
        factor: A number for all coordinates, one for each of a table's columns ``(d,)``, or a
            matrix ``(d, d)`` from the right.
    """

    shift: Tensor
    factor: Tensor

    def __init__(self, shift: Tensor, factor: Tensor) -> None:
        super().__init__()
        self.register_buffer("shift", shift.double())
        self.register_buffer("factor", factor.double())

    def forward(self, x: Tensor) -> Tensor:
        centred = x.double() - self.shift
        return centred @ self.factor if self.factor.dim() == 2 else centred * self.factor

    def inverse(self, z: Tensor) -> Tensor:
        """The points that are mapped to ``z``."""
        z = z.double()
        if self.factor.dim() != 2:
            return z / self.factor + self.shift
        centred: Tensor = torch.linalg.solve(self.factor, z, left=False)
        return centred + self.shift

    @property
    def log_det(self) -> float:
        """By what the log-density of a point is larger than that of its image."""
        if self.factor.dim() == 2:
            return float(torch.linalg.slogdet(self.factor)[1])
        if self.factor.dim() == 1:
            return float(self.factor.log().sum())
        return self.shift.numel() * math.log(self.factor.item())


def as_is(event_shape: tuple[int, ...]) -> Scaling:
    """Points as they are."""
    return Scaling(torch.zeros(event_shape), torch.ones(()))


def of_pixels(x: Tensor) -> Scaling:
    """Into [−1, 1], where the domain of image models is; images that are there stay as they are."""
    low, high = x.min().double(), x.max().double()
    if low >= -1 and high <= 1:
        return as_is(tuple(x.shape[1:]))
    middle = ((low + high) / 2).expand(x.shape[1:])
    return Scaling(middle, 2 / _unit(high - low, x.abs().max()))


def of_images(x: Tensor) -> Scaling:
    """One unit for all pixels: their standard deviation about the mean image."""
    x = x.double()
    mean = x.mean(0)
    return Scaling(mean, 1 / _unit((x - mean).square().mean().sqrt(), x.abs().max()))


def spreads(x: Tensor) -> Tensor:
    """Standard deviations ``(d,)`` of columns; one where they are constant."""
    return _unit((x - x.mean(0)).square().mean(0).sqrt(), x.abs().amax(0))


def standardised(x: Tensor) -> Scaling:
    """Every column centred, in units of its own standard deviation."""
    x = x.double()
    return Scaling(x.mean(0), 1 / spreads(x))


def of_table(x: Tensor) -> Scaling:
    """Columns centred; directions as long as neighbours are apart in them, if columns are few."""
    x = x.double()
    mean, single = x.mean(0), 1 / spreads(x)
    z = (x[:WHITENED_BY] - mean) * single
    if z.shape[1] > WIDEST:
        return Scaling(mean, single / _unit(z.square().mean().sqrt()))
    best = torch.eye(z.shape[1], dtype=torch.float64)
    if z.shape[1] > 1:
        best = _whitener(_between_neighbours(z), _likeliest_shrinkage(z))
    spread = (z @ best).square().mean().sqrt()
    return Scaling(mean, torch.diag(single) @ best / _unit(spread))


def _likeliest_shrinkage(z: Tensor) -> float:
    """The one under which half of the points is likeliest, whitened by the other half."""
    known, held_back = z[:SHRUNK_BY].tensor_split(2)
    covariance = _between_neighbours(known)

    def likelihood(shrinkage: float) -> float:
        whitener = _whitener(covariance, shrinkage)
        found = likeliest_bandwidth(held_back @ whitener, SHRUNK_FOR)[1]
        return found + float(torch.linalg.slogdet(whitener)[1])

    return max(SHRINKAGES, key=likelihood)


def _whitener(covariance: Tensor, shrinkage: float) -> Tensor:
    unit = torch.eye(len(covariance), dtype=torch.float64)
    shrunk = (1 - shrinkage) * covariance + shrinkage * unit
    root = torch.linalg.cholesky(shrunk)
    whitener: Tensor = torch.linalg.solve_triangular(root, unit, upper=False).T
    return whitener


def _between_neighbours(z: Tensor) -> Tensor:
    """Covariance of the differences between points and their nearest, of mean variance one.

    Of different points: where values are rounded or counted, the nearest of all are often equal,
    and the nearest of the others differ in one column, always the same.
    """
    d = z.shape[1]
    z = z.unique(dim=0)
    if len(z) <= NEIGHBOURS:
        return torch.eye(d, dtype=torch.float64)
    nearest = distances_to_others(z, z).topk(NEIGHBOURS, largest=False)
    differences = (z[:, None] - z[nearest.indices])[nearest.values < math.inf]
    covariance = differences.T @ differences
    return covariance * d / _unit(covariance.trace())


def _unit(spread: Tensor, size: Tensor | float = 0.0) -> Tensor:
    """The spread of values of a ``size``; one where they are constant, which keeps their unit."""
    return torch.where(spread > CONSTANT * size, spread, torch.ones_like(spread))
