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

- Pairs are first compared by their sketches (:mod:`.sketch`), which are short and whose distances
  are lower bounds. One matrix product of sketches lists, for each moving point, the fixed ones in
  a wide neighbourhood; a point that leaves the neighbourhood gets a new list.
- For every listed pair a lower bound on its distance is kept. A pair is looked at only when its
  bound falls below ε; then the bound is the distance itself. When a point moves by s, its bounds
  fall by s. So points at rest cost nothing, and a moving one only what it may run into (as in the
  neighbour lists of molecular dynamics).
- Products lose digits where points are close. A pair is decided by products only where their
  rounding error, which is bounded, cannot matter; otherwise by its differences.
"""

import warnings
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from .sketch import Sketch, some_rows

CHUNK = 1_000_000
"""Pairs, or numbers, held at a time in temporary arrays; bounds the memory of a search."""
LISTED = 125_000
"""Pairs that lists aim to hold: few to look through, yet wide enough to last some rounds."""
LONGEST = 10_000_000
"""Pairs beyond which nothing is listed, and every pair is compared in every round."""
REACH = 1.15
"""Least radius of a list, in spacings."""
FEW_DIMENSIONS = 16
"""Up to here differences are as cheap as products, and need no second look."""
LOOSE = 0.1
"""Share of pairs that sketches may let pass; above it they tell too little, and whole points do."""
ROUNDING = 1e-3
"""Generous relative allowance for rounding in distances that points have moved."""


class Crowd(NamedTuple):
    """What each of the moving points feels."""

    gradient: Tensor
    """Gradient of the repulsion objective, ``(m, d)``; zero for points that violate nothing."""
    nearest: Tensor
    """Distance to the nearest other point, or the spacing if none is closer, ``(m,)``."""
    coincident: Tensor
    """Whether another point lies in the very same place, ``(m,)``: then it has no direction."""


class _Set(NamedTuple):
    """Points with their squared norms."""

    x: Tensor
    square: Tensor


class Neighbours:
    """Finds every violation of ``spacing`` between moving points and the ones that stay.

    Arguments:
        fixed: Points that stay where they are, ``(n, d)``, for as long as this object is used.
        spacing: ε.
        skip: Indices of rows of ``fixed`` to leave out: the old places of the moving points.
        sketch: The sketch of ``fixed``, where the caller has one.
    """

    def __init__(
        self,
        fixed: Tensor,
        spacing: float,
        skip: Tensor | None = None,
        sketch: Sketch | None = None,
    ) -> None:
        self._spacing = spacing
        self._absent = torch.zeros(len(fixed), dtype=torch.bool, device=fixed.device)
        if skip is not None:
            self._absent[skip] = True
        self._sketch = sketch or Sketch(fixed)
        self._fixed = _Set(fixed, self._sketch.square)
        self._largest = self._fixed.square.max().item() if len(fixed) else 0.0
        self._lists: _Lists | None = None
        self._last: Tensor | None = None

    def crowd(self, moving: Tensor) -> Crowd:
        """The crowd around ``moving``, ``(m, d)``: the same points as before, moved."""
        felt = Crowd(
            torch.zeros_like(moving),
            moving.new_full((len(moving),), self._spacing),
            torch.zeros(len(moving), dtype=torch.bool, device=moving.device),
        )
        here = _Set(moving, moving.square().sum(1))
        error = _error(max(here.square.max().item(), self._largest), moving)
        if len(self._fixed.x):
            lists = self._follow(moving)
            if lists is None:
                self._compare_all(felt, here, self._fixed, 1.0, error)
            else:
                pairs, i, j = lists.near()
                lists.learn(pairs, _feel(felt, here, self._fixed, i, j, self._spacing, 1.0, error))
        self._compare_all(felt, here, here, 2.0, error)
        return felt

    def _compare_all(
        self, felt: Crowd, here: _Set, other: _Set, weight: float, error: float
    ) -> None:
        """Add what every pair contributes to ``felt``."""
        rows = max(1, CHUNK // len(here.x))
        for start in range(0, len(other.x), rows):
            part = slice(start, start + rows)
            squared = _squared(here, _Set(other.x[part], other.square[part]))
            close = squared < (self._spacing**2 + error)
            if other is here:
                close.diagonal(-start).fill_(False)  # no point repels itself
            else:
                close &= ~self._absent[part]
            i, j = close.nonzero().unbind(1)
            _feel(felt, here, other, i, j + start, self._spacing, weight, error)

    def _follow(self, moving: Tensor) -> "_Lists | None":
        """The lists, brought up to where the points have moved; none where they would be long."""
        if self._last is None:
            places, fixed_places = self._sketch.of(moving), self._sketch.coordinates
            if _share_within(self._spacing, places, fixed_places) > LOOSE:
                self._sketch, places, fixed_places = Sketch(self._fixed.x, 0), moving, self._fixed.x
            # By the points and not by their sketches, which a resumed run makes anew.
            near = _share_within(REACH * self._spacing, moving, self._fixed.x)
            if near * len(places) * len(fixed_places) <= LONGEST:
                self._lists = _Lists(places, fixed_places, self._spacing, self._absent)
        elif self._lists is not None:
            step = (moving - self._last).norm(dim=1) * (1 + ROUNDING)
            self._lists.move(self._sketch.of(moving), step)
        self._last = moving.clone()
        return self._lists


class _Lists:
    """For each moving point the fixed ones around it, with lower bounds on their distances.

    Its places are sketches; the bounds hold for the points themselves.
    """

    def __init__(self, places: Tensor, fixed: Tensor, spacing: float, absent: Tensor) -> None:
        self._spacing = spacing
        self._fixed = _Set(fixed, fixed.square().sum(1))
        self._largest = self._fixed.square.max().item()
        self._absent = absent
        self._radius = self._choose_radius(places)
        self._places = places
        self._origin = places.clone()
        self._i, self._j, self._bound = self._list(torch.arange(len(places), device=fixed.device))

    def _choose_radius(self, places: Tensor) -> float:
        """A radius that holds about LISTED pairs, by a sample of distances."""
        some = self._fixed.x[some_rows(len(self._fixed.x), 250)]
        share = min(1.0, LISTED / (len(places) * len(self._fixed.x)))
        distances = torch.cdist(places[some_rows(len(places), 25)], some).flatten()
        return max(distances.quantile(share).item(), REACH * self._spacing)

    def _list(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Pairs (i, j) within the radius of these rows, and bounds on their distances."""
        here = _Set(self._places[rows], self._places[rows].square().sum(1))
        error = _error(max(here.square.max().item(), self._largest), here.x)
        size = max(1, CHUNK // max(len(rows), here.x.shape[1]))
        found = []
        for start in range(0, len(self._fixed.x), size):
            part = slice(start, start + size)
            squared = _squared(here, _Set(self._fixed.x[part], self._fixed.square[part]))
            close = (squared < self._radius**2 + error) & ~self._absent[part]
            i, j = close.nonzero().unbind(1)
            found.append((rows[i], j + start, (squared[i, j] - error).clamp_min(0).sqrt()))
        i, j, bound = (torch.cat(parts) for parts in zip(*found, strict=True))
        return i, j, bound

    def move(self, places: Tensor, step: Tensor) -> None:
        """The points have gone a distance ``step`` each, and their sketches to ``places``."""
        self._places = places
        self._bound -= step[self._i]
        strayed = (places - self._origin).norm(dim=1) * (1 + ROUNDING) >= (
            self._radius - self._spacing
        )
        if strayed.any():
            rows = strayed.nonzero().flatten()
            kept = ~strayed[self._i]
            old = (self._i[kept], self._j[kept], self._bound[kept])
            new = self._list(rows)
            self._i, self._j, self._bound = (torch.cat(p) for p in zip(old, new, strict=True))
            self._origin[rows] = places[rows]

    def near(self) -> tuple[Tensor, Tensor, Tensor]:
        """The pairs that may be closer than the spacing, as listed and as (i, j), ordered by i."""
        pairs = (self._bound < self._spacing).nonzero().flatten()
        if self._places.shape[1] > FEW_DIMENSIONS and len(pairs):
            pairs = pairs[self._i[pairs].argsort(stable=True)]
            # Their sketches where they are now may rule some out again.
            i, j = self._i[pairs], self._j[pairs]
            square = self._places.square().sum(1)
            error = _error(max(square.max().item(), self._largest), self._places)
            squared = square[i] + self._fixed.square[j]
            squared -= 2 * _products(self._places, self._fixed.x, i, j)
            bound = (squared - error).clamp_min(0).sqrt()
            self._bound[pairs] = torch.maximum(self._bound[pairs], bound)
            pairs = pairs[bound < self._spacing * (1 + ROUNDING)]
        return pairs, self._i[pairs], self._j[pairs]

    def learn(self, pairs: Tensor, distance: Tensor) -> None:
        """The distances of these pairs are known now."""
        self._bound[pairs] = distance * (1 - ROUNDING)


def _feel(
    felt: Crowd,
    moving: _Set,
    other: _Set,
    i: Tensor,
    j: Tensor,
    spacing: float,
    weight: float,
    error: float,
) -> Tensor:
    """Add those of the pairs (i, j), ordered by i, that violate the spacing to ``felt``.

    Returns lower bounds on the distances of all of them, tight up to rounding.
    """
    if moving.x.shape[1] <= FEW_DIMENSIONS or not len(i):
        return _feel_differences(felt, moving.x, other.x, i, j, spacing, weight)
    squared = moving.square[i] + other.square[j] - 2 * _products(moving.x, other.x, i, j)
    too_close = max(16 * error, 0.01 * spacing**2)
    coarse = (squared < too_close) | ((squared - spacing**2).abs() <= error)
    distance = squared.clamp_min(0).sqrt()
    near = ~coarse & (distance < spacing)
    distance[coarse] = _feel_differences(
        felt, moving.x, other.x, i[coarse], j[coarse], spacing, weight
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
    felt: Crowd, moving: Tensor, other: Tensor, i: Tensor, j: Tensor, spacing: float, weight: float
) -> Tensor:
    """As ``_feel``, to the last digit."""
    distances = []
    size = max(1, CHUNK // moving.shape[1])
    for k, part in zip(i.split(size), j.split(size), strict=True):
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


def _products(a: Tensor, b: Tensor, i: Tensor, j: Tensor) -> Tensor:
    """Inner products of the rows a[i] and b[j], for pairs ordered by i, without copying rows."""
    starts = torch.searchsorted(i, torch.arange(len(a) + 1, device=i.device))
    zeros = torch.zeros_like(i, dtype=a.dtype)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
        pattern = torch.sparse_csr_tensor(
            starts, j, zeros, (len(a), len(b)), check_invariants=False
        )
        products: Tensor = torch.sparse.sampled_addmm(pattern, a, b.T, beta=0.0).values()
    return products


def _squared(a: _Set, b: _Set) -> Tensor:
    """Squared distances of all pairs, ``(m, k)``, up to rounding."""
    return torch.addmm(a.square.unsqueeze(1) + b.square, a.x, b.x.T, alpha=-2.0)


def _share_within(radius: float, a: Tensor, b: Tensor) -> float:
    """Of the pairs, the share closer than ``radius``, by a sample."""
    some = b[some_rows(len(b), 500)]
    return (torch.cdist(a, some) < radius).double().mean().item()


def _error(largest_square: float, like: Tensor) -> float:
    """A bound on the rounding error of squared distances by products, for norms up to this."""
    return 4 * largest_square * (like.shape[1] + 8) * torch.finfo(like.dtype).eps


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
