r"""What a point feels of others that are closer than the spacing.

The repulsion objective of Kim & Ye, for moving points :math:`\Lambda` among fixed ones
:math:`\Gamma`, is

.. math:: R = \sum_{i \in \Lambda} \sum_{j \in \Lambda \cup \Gamma, j \ne i}
              \min\{\|u_i - u_j\|, \epsilon\}.

A pair inside :math:`\Lambda` stands in it twice, a pair between the two sets once, so

.. math:: \nabla_{u_i} R = 2 \sum_{j \in \Lambda} \hat d_{ij} + \sum_{j \in \Gamma} \hat d_{ij},
          \qquad \hat d_{ij} = \frac{u_i - u_j}{\|u_i - u_j\|},

over the pairs closer than :math:`\epsilon`.

Products are the fast way to many distances, but lose digits where points are close. A pair is
decided by them only where their rounding error, which is bounded, cannot matter; otherwise by its
differences.
"""

import warnings
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

CHUNK = 1_000_000
"""Pairs, or numbers, held at a time in temporary arrays; bounds the memory of a search."""
SQUARED = 1_000_000
"""Numbers whose squares are held at a time."""
FEW_DIMENSIONS = 16
"""Up to here differences are as cheap as products, and need no second look."""


class Crowd(NamedTuple):
    """What each of the moving points feels."""

    gradient: Tensor
    """Gradient of the repulsion objective, ``(m, d)``; zero for points that violate nothing."""
    nearest: Tensor
    """Distance to the nearest other point, or the spacing if none is closer, ``(m,)``."""
    coincident: Tensor
    """Whether another point lies in the very same place, ``(m,)``: then it has no direction."""


class Pairs(NamedTuple):
    """Pairs of the i-th moving and the j-th other point, ordered by i."""

    i: Tensor
    j: Tensor


class PointSet:
    """Points ``x`` and their squared norms; the ``largest`` of these bounds rounding."""

    def __init__(self, x: Tensor, square: Tensor | None = None) -> None:
        self.x = x
        self.square = _squared_norms(x) if square is None else square
        self.largest = self.square.max().item() if len(x) else 0.0


def _squared_norms(x: Tensor) -> Tensor:
    """Of many points a part at a time: squares of all would be a second copy."""
    found = x.new_empty(len(x))
    size = max(1, SQUARED // max(1, x.shape[1]))
    for part, norms in zip(x.split(size), found.split(size), strict=True):
        torch.sum(part.square(), 1, out=norms)
    return found


def feel(
    felt: Crowd, moving: PointSet, other: PointSet, pairs: Pairs, spacing: float, weight: float
) -> Tensor:
    """Add those of the ``pairs`` that violate the spacing to ``felt``.

    Returns lower bounds on the distances of all of them, tight up to rounding.
    """
    i, j = pairs
    if moving.x.shape[1] <= FEW_DIMENSIONS or not len(i):
        return _feel_differences(felt, moving.x, other.x, pairs, spacing, weight)
    error = rounding_error(moving, other, moving.x.shape[1])
    squared = moving.square[i] + other.square[j] - 2 * products(moving.x, other.x, pairs)
    too_close = max(16 * error, 0.01 * spacing**2)
    coarse = (squared < too_close) | ((squared - spacing**2).abs() <= error)
    distance = squared.clamp_min(0).sqrt()
    near = ~coarse & (distance < spacing)
    distance[coarse] = _feel_differences(
        felt, moving.x, other.x, Pairs(i[coarse], j[coarse]), spacing, weight
    )
    i, j = i[near], j[near]
    felt.nearest.scatter_reduce_(0, i, distance[near], "amin")
    pull = weight / distance[near]
    total = torch.zeros_like(felt.nearest).index_add_(0, i, pull)
    starts = torch.searchsorted(i, torch.arange(len(moving.x), device=i.device))
    # Σ_j w_ij (u_i − u_j), without ever holding the differences.
    pulled = embedding_bag(j, other.x, starts, mode="sum", per_sample_weights=pull)
    felt.gradient.add_(moving.x * total.unsqueeze(1) - pulled)
    return torch.where(coarse, distance, (squared - error).clamp_min(0).sqrt())


def _feel_differences(
    felt: Crowd, moving: Tensor, other: Tensor, pairs: Pairs, spacing: float, weight: float
) -> Tensor:
    """As ``feel``, to the last digit."""
    distances = []
    size = max(1, CHUNK // moving.shape[1])
    for k, part in zip(pairs.i.split(size), pairs.j.split(size), strict=True):
        offset = moving[k] - other[part]
        distance = offset.norm(dim=1)
        distances.append(distance)
        violates = distance < spacing
        k, offset, distance = k[violates], offset[violates], distance[violates]
        apart = distance > 0
        pull = weight / distance.where(apart, torch.ones_like(distance))
        felt.nearest.scatter_reduce_(0, k, distance, "amin")
        felt.coincident[k[~apart]] = True
        felt.gradient.index_add_(0, k, offset * pull.unsqueeze(1))
    return torch.cat(distances)


def products(a: Tensor, b: Tensor, pairs: Pairs) -> Tensor:
    """Inner products of the rows a[i] and b[j], without copying rows."""
    i, j = pairs
    starts = torch.searchsorted(i, torch.arange(len(a) + 1, device=i.device))
    zeros = torch.zeros_like(i, dtype=a.dtype)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
        pattern = torch.sparse_csr_tensor(
            starts, j, zeros, (len(a), len(b)), check_invariants=False
        )
        products: Tensor = torch.sparse.sampled_addmm(pattern, a, b.T, beta=0.0).values()
    return products


def squared_distances(a: PointSet, b: PointSet) -> Tensor:
    """Squared distances of all pairs, ``(m, k)``, up to ``rounding_error``."""
    return torch.addmm(a.square.unsqueeze(1) + b.square, a.x, b.x.T, alpha=-2.0)


def rounding_error(a: PointSet, b: PointSet, dimensions: int) -> float:
    """A bound on the rounding error of squared distances by products of so many terms."""
    return 4 * max(a.largest, b.largest) * (dimensions + 8) * torch.finfo(a.x.dtype).eps
