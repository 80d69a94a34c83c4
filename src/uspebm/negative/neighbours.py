r"""Which points are closer to each other than the spacing, and where that pushes them.

The repulsion objective of Kim & Ye, for moving points :math:`\Lambda` among fixed ones
:math:`\Gamma`, is

.. math:: R = \sum_{i \in \Lambda} \sum_{j \in \Lambda \cup \Gamma, j \ne i}
              \min\{\|u_i - u_j\|, \epsilon\}.

A pair inside :math:`\Lambda` stands in it twice, a pair between the two sets once, so

.. math:: \nabla_{u_i} R = 2 \sum_{j \in \Lambda} \hat d_{ij} + \sum_{j \in \Gamma} \hat d_{ij},
          \qquad \hat d_{ij} = \frac{u_i - u_j}{\|u_i - u_j\|},

over the pairs closer than :math:`\epsilon`.

Distances of all pairs are one matrix product, which loses digits where points are close. It
therefore only proposes pairs, by a bound on its rounding error; those are decided by their
differences. The result is that of comparing every pair.
"""

from typing import NamedTuple

import torch
from torch import Tensor

CHUNK = 4_000_000
"""Numbers held at a time in one temporary array; bounds the memory of a search."""


class Crowd(NamedTuple):
    """What each of the moving points feels."""

    gradient: Tensor
    """Gradient of the repulsion objective, ``(m, d)``; zero for points that violate nothing."""
    nearest: Tensor
    """Distance to the nearest other point, or the spacing if none is closer, ``(m,)``."""
    coincident: Tensor
    """Whether another point lies in the very same place, ``(m,)``: then it has no direction."""


class Neighbours:
    """Finds every violation of ``spacing`` between moving points and the ones that stay.

    Arguments:
        fixed: Points that stay where they are, ``(n, d)``.
        spacing: ε.
        skip: Indices of rows of ``fixed`` to leave out: the old places of the moving points.
    """

    def __init__(self, fixed: Tensor, spacing: float, skip: Tensor | None = None) -> None:
        self._fixed = fixed
        self._spacing = spacing
        self._absent = torch.zeros(len(fixed), dtype=torch.bool, device=fixed.device)
        if skip is not None:
            self._absent[skip] = True

    def crowd(self, moving: Tensor) -> Crowd:
        """The crowd around ``moving``, ``(m, d)``."""
        felt = Crowd(
            torch.zeros_like(moving),
            moving.new_full((len(moving),), self._spacing),
            torch.zeros(len(moving), dtype=torch.bool, device=moving.device),
        )
        rows = max(1, CHUNK // max(1, len(moving)))
        for start in range(0, len(self._fixed), rows):
            part = slice(start, start + rows)
            close = within(moving, self._fixed[part], self._spacing)
            close &= ~self._absent[part]
            self._feel(felt, moving, self._fixed[part], close, weight=1.0)
        for start in range(0, len(moving), rows):
            part = slice(start, start + rows)
            close = within(moving, moving[part], self._spacing)
            close.diagonal(-start).fill_(False)  # no point repels itself
            self._feel(felt, moving, moving[part], close, weight=2.0)
        return felt

    def _feel(
        self, felt: Crowd, moving: Tensor, other: Tensor, close: Tensor, weight: float
    ) -> None:
        """Add the pairs marked in ``close`` (a superset of the violating ones) to ``felt``."""
        pairs = close.nonzero()
        for i, j in (p.unbind(1) for p in pairs.split(max(1, CHUNK // moving.shape[1]))):
            offset = moving[i] - other[j]
            distance = offset.norm(dim=1)
            violates = distance < self._spacing
            i, offset, distance = i[violates], offset[violates], distance[violates]
            apart = distance > 0
            pull = weight / distance.where(apart, torch.ones_like(distance))
            felt.gradient.index_add_(0, i, offset * pull.unsqueeze(1))
            felt.nearest.scatter_reduce_(0, i, distance, "amin")
            felt.coincident[i[~apart]] = True


def within(a: Tensor, b: Tensor, radius: float) -> Tensor:
    """Pairs that may be closer than ``radius``: every such pair, and few others. ``(m, k)``."""
    # A common shift changes no distance, and small numbers lose fewer digits.
    centre = a.mean(0)
    a, b = a - centre, b - centre
    a2, b2 = a.square().sum(1), b.square().sum(1)
    squared = torch.addmm(a2.unsqueeze(1) + b2, a, b.T, alpha=-2.0)
    # Rounding of a d-term product: at most about d unit roundoffs of (|a| + |b|)².
    error = (a.shape[1] + 8) * torch.finfo(a.dtype).eps
    size = (a2.max().sqrt() + b2.max().sqrt()).square() if len(b) else a2.new_zeros(())
    return squared < radius**2 + error * size


def smallest_distance(points: Tensor) -> float:
    """The smallest distance between any two of ``points``, ``(n, d)``; infinite for one point."""
    smallest = float("inf")
    rows = max(1, CHUNK // len(points))
    for start in range(0, len(points), rows):
        distance = torch.cdist(
            points[start : start + rows], points, compute_mode="donot_use_mm_for_euclid_dist"
        )
        distance.diagonal(start).fill_(float("inf"))
        smallest = min(smallest, distance.min().item())
    return smallest
