r"""Which points are closer to each other than the spacing, and where that pushes them.

The repulsion objective of Kim & Ye, for moving points :math:`\Lambda` among fixed ones
:math:`\Gamma`, is

.. math:: R = \sum_{i \in \Lambda} \sum_{j \in \Lambda \cup \Gamma, j \ne i}
              \min\{\|u_i - u_j\|, \epsilon\}.

A pair inside :math:`\Lambda` stands in it twice, a pair between the two sets once, so

.. math:: \nabla_{u_i} R = 2 \sum_{j \in \Lambda} \hat d_{ij} + \sum_{j \in \Gamma} \hat d_{ij},
          \qquad \hat d_{ij} = \frac{u_i - u_j}{\|u_i - u_j\|},

over the pairs closer than :math:`\epsilon`.

The result is that of comparing every pair, at a fraction of the cost:

- Distances of all pairs are one matrix product, made once. It lists, for each moving point, the
  fixed ones in a wide neighbourhood, with a lower bound on their distance.
- A point that has since moved by s can have come closer to a fixed one by s at most. So each round
  looks only at listed pairs whose bound is below :math:`\epsilon + s` (the neighbour lists of
  molecular dynamics), and lists are made anew before that stops being cheap or true.
- Products lose digits where points are close. A pair is decided by products only where their
  rounding error, which is bounded, cannot matter; otherwise by its differences.
"""

import math
import warnings
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

CHUNK = 4_000_000
"""Numbers held at a time in one temporary array; bounds the memory of a search."""
LISTED = 0.05
"""Share of the fixed points that lists aim to hold: small to look through, wide enough to last."""
LOOK_UP = 8
"""What looking at one listed pair costs, in units of one pair of a full matrix product."""
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


class Neighbours:
    """Finds every violation of ``spacing`` between moving points and the ones that stay.

    Arguments:
        fixed: Points that stay where they are, ``(n, d)``, for as long as this object is used.
        spacing: ε.
        skip: Indices of rows of ``fixed`` to leave out: the old places of the moving points.
    """

    def __init__(self, fixed: Tensor, spacing: float, skip: Tensor | None = None) -> None:
        self._fixed = fixed
        self._spacing = spacing
        self._skip = fixed.new_empty(0, dtype=torch.long) if skip is None else skip
        self._lists: _Lists | None = None

    def crowd(self, moving: Tensor) -> Crowd:
        """The crowd around ``moving``, ``(m, d)``: the same points as before, moved."""
        felt = Crowd(
            torch.zeros_like(moving),
            moving.new_full((len(moving),), self._spacing),
            torch.zeros(len(moving), dtype=torch.bool, device=moving.device),
        )
        if len(self._fixed):
            if self._lists is None or self._lists.outdated(moving):
                self._lists = _Lists(moving, self._fixed, self._spacing, self._skip)
            lists = self._lists
            i, j = lists.near(moving)
            found = _feel(felt, moving, self._fixed, lists.square, i, j, self._spacing, 1.0)
            lists.work += len(i) - found
        square = moving.square().sum(1)
        rows = max(1, CHUNK // len(moving))
        for start in range(0, len(moving), rows):
            part = slice(start, start + rows)
            close = _squared(moving, square, moving[part], square[part])
            close = close < (self._spacing**2 + _error(square, moving.shape[1]))
            close.diagonal(-start).fill_(False)  # no point repels itself
            i, j = close.nonzero().unbind(1)
            _feel(felt, moving, moving, square, i, j + start, self._spacing, 2.0)
        return felt


class _Lists:
    """For each moving point the fixed ones around it, while it does not stray too far."""

    def __init__(self, moving: Tensor, fixed: Tensor, spacing: float, skip: Tensor) -> None:
        self.work = 0
        """Pairs looked at in vain so far."""
        self._spacing = spacing
        self._origin = moving
        self._pairs = len(moving) * len(fixed)
        self.square = torch.empty_like(fixed[:, 0])
        """Squared norms of the fixed points."""
        square = moving.square().sum(1)
        rows = max(1, CHUNK // max(len(moving), fixed.shape[1]))
        absent = torch.zeros(len(fixed), dtype=torch.bool, device=fixed.device)
        absent[skip] = True
        self.radius = math.nan
        found: list[tuple[Tensor, Tensor, Tensor]] = []
        for start in range(0, len(fixed), rows):
            part = slice(start, start + rows)
            torch.sum(fixed[part].square(), 1, out=self.square[part])
            squared = _squared(moving, square, fixed[part], self.square[part])
            if math.isnan(self.radius):
                self.radius = self._choose_radius(squared)
            error = _error(torch.cat([square, self.square[part]]), fixed.shape[1])
            close = (squared < (self.radius**2 + error)) & ~absent[part]
            i, j = close.nonzero().unbind(1)
            bound = (squared[i, j] - error).clamp_min(0).sqrt()
            found.append((i, j + start, bound))
        self._i, self._j, self._bound = (torch.cat(parts) for parts in zip(*found, strict=True))
        if len(found) > 1:  # rows in order, as products of sparse matrices want them
            order = self._i.argsort(stable=True)
            self._i, self._j, self._bound = self._i[order], self._j[order], self._bound[order]

    def _choose_radius(self, squared: Tensor) -> float:
        """A radius that holds about LISTED of the points, by a sample of distances."""
        sample = squared.flatten()[:: max(1, squared.numel() // 10_000)]
        wide = sample.quantile(LISTED).clamp_min(0).sqrt().item()
        return max(wide, 1.1 * self._spacing)

    def outdated(self, moving: Tensor) -> bool:
        """Whether a list may miss a pair by now, or has cost more than a new one would."""
        moved = (moving - self._origin).norm(dim=1).max().item()
        return (
            moved * (1 + 1e-3) >= self.radius - self._spacing or self.work * LOOK_UP > self._pairs
        )

    def near(self, moving: Tensor) -> tuple[Tensor, Tensor]:
        """The pairs that may be closer than the spacing by now, ordered by moving point."""
        moved = (moving - self._origin).norm(dim=1) * (1 + 1e-3)  # rounding, generously
        near = self._bound < (self._spacing + moved)[self._i]
        return self._i[near], self._j[near]


def _feel(
    felt: Crowd,
    moving: Tensor,
    other: Tensor,
    other_square: Tensor,
    i: Tensor,
    j: Tensor,
    spacing: float,
    weight: float,
) -> int:
    """Add those of the pairs (i, j), ordered by i, that violate the spacing to ``felt``.

    Returns their number.
    """
    if moving.shape[1] <= FEW_DIMENSIONS or not len(i):
        return _feel_differences(felt, moving, other, i, j, spacing, weight)
    square = moving.square().sum(1)
    squared = square[i] + other_square[j] - 2 * _products(moving, other, i, j)
    error = _error(torch.cat([square, other_square[j]]), moving.shape[1])
    coarse = (squared < 16 * error) | ((squared - spacing**2).abs() <= error)
    near = ~coarse & (squared < spacing**2)
    decided = _feel_differences(felt, moving, other, i[coarse], j[coarse], spacing, weight)

    i, j, distance = i[near], j[near], squared[near].sqrt()
    felt.nearest.scatter_reduce_(0, i, distance, "amin")
    pull = weight / distance
    total = torch.zeros_like(felt.nearest).index_add_(0, i, pull)
    starts = torch.searchsorted(i, torch.arange(len(moving), device=i.device))
    # Σ_j w_ij (u_i − u_j), without ever holding the differences.
    pulled = embedding_bag(j, other, starts, mode="sum", per_sample_weights=pull)
    felt.gradient.add_(moving * total.unsqueeze(1) - pulled)
    return decided + len(i)


def _feel_differences(
    felt: Crowd, moving: Tensor, other: Tensor, i: Tensor, j: Tensor, spacing: float, weight: float
) -> int:
    """As ``_feel``, to the last digit."""
    found = 0
    size = max(1, CHUNK // moving.shape[1])
    for k, part in zip(i.split(size), j.split(size), strict=True):
        offset = moving[k] - other[part]
        distance = offset.norm(dim=1)
        violates = distance < spacing
        k, offset, distance = k[violates], offset[violates], distance[violates]
        apart = distance > 0
        pull = weight / distance.where(apart, torch.ones_like(distance))
        felt.nearest.scatter_reduce_(0, k, distance, "amin")
        felt.coincident[k[~apart]] = True
        felt.gradient.index_add_(0, k, offset * pull.unsqueeze(1))
        found += len(k)
    return found


def _products(a: Tensor, b: Tensor, i: Tensor, j: Tensor) -> Tensor:
    """Inner products of the rows a[i] and b[j], for pairs ordered by i, without copying rows."""
    starts = torch.searchsorted(i, torch.arange(len(a) + 1, device=i.device))
    zeros = torch.zeros_like(i, dtype=a.dtype)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
        pattern = torch.sparse_csr_tensor(
            starts, j, zeros, (len(a), len(b)), check_invariants=False
        )
        return torch.sparse.sampled_addmm(pattern, a, b.T, beta=0.0).values()


def _squared(a: Tensor, a_square: Tensor, b: Tensor, b_square: Tensor) -> Tensor:
    """Squared distances of all pairs, ``(m, k)``, up to rounding."""
    return torch.addmm(a_square.unsqueeze(1) + b_square, a, b.T, alpha=-2.0)


def _error(squares: Tensor, dim: int) -> float:
    """A bound on the rounding error of a squared distance by products of d terms."""
    return 4 * squares.max().item() * (dim + 8) * torch.finfo(squares.dtype).eps


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
