"""Which fixed points a moving one may run into, kept while it moves.

- One matrix product of sketches (:mod:`.sketch`), which are short and whose distances are lower
  bounds, lists for each moving point the fixed ones in a wide neighbourhood. A point that leaves
  the neighbourhood gets a new list.
- For every listed pair a lower bound on its distance is kept. A pair is looked at only when its
  bound falls below ε; then the bound is the distance itself. When a point moves by s, its bounds
  fall by s. So points at rest cost nothing, and a moving one only what it may run into (as in the
  neighbour lists of molecular dynamics).
"""

from typing import NamedTuple

import torch
from torch import Tensor

from ..native import Candidates, NativePairs
from .crowd import (
    CHUNK,
    FEW_DIMENSIONS,
    Crowd,
    Pairs,
    PointSet,
    feel,
    products,
    rounding_error,
    squared_distances,
)
from .sketch import Sketch, fixed_sample

LISTED = 125_000
"""Pairs that lists aim to hold: few to look through, yet wide enough to last some rounds."""
LISTED_NATIVE = 500_000
"""Likewise for compiled code, which passes over a pair faster; chosen by trial (LOG.md)."""
REACH = 1.15
"""Least radius of a list, in spacings."""
ROUNDING = 1e-3
"""Generous relative allowance for rounding in distances that points have moved."""


class Manner(NamedTuple):
    """How lists are looked through."""

    compiled: bool
    """Whether compiled code does it."""
    processes: int
    """How many share the fixed points out, and with them the pairs that lists aim to hold."""


class Lists:
    """For each of the ``moving`` points the fixed ones around it.

    Arguments:
        moving: Where the moving points are now, ``(m, d)``.
        fixed: The points that stay, ``(n, d)``.
        sketch: Their sketch.
        spacing: ε.
        absent: Which of the fixed points to leave out, ``(n,)``.
        manner: How they are looked through.
    """

    def __init__(
        self,
        moving: Tensor,
        fixed: PointSet,
        sketch: Sketch,
        spacing: float,
        absent: Tensor,
        manner: Manner,
    ) -> None:
        self._fixed = fixed
        self._sketch = sketch
        self._spacing = spacing
        self._absent = absent
        self._last = moving
        self._places = PointSet(sketch.of(moving))
        self._origin = self._places.x.clone()
        self._fixed_places = PointSet(sketch.coordinates)
        self._gone = moving.new_zeros(len(moving))
        self._gone_across = moving.new_zeros(len(moving))
        self._pairs = (
            NativePairs(len(moving), fixed.x, sketch.coordinates if sketch.shortened else None)
            if manner.compiled
            else TorchPairs(len(moving), fixed, self._fixed_places)
        )
        listed = (LISTED_NATIVE if manner.compiled else LISTED) // manner.processes
        self._radius = self._choose_radius(listed)
        self._list(torch.arange(len(moving), device=moving.device))

    def look(self, moving: Tensor, felt: Crowd) -> None:
        """Follow the points to where they are now, and add what they violate to ``felt``."""
        self._follow(moving)
        gone = self._gone, self._gone_across
        self._pairs.look(moving, self._places.x, self._error(), gone, self._spacing, felt)

    def _follow(self, moving: Tensor) -> None:
        step = moving - self._last
        self._gone += step.norm(dim=1) * (1 + ROUNDING)
        self._gone_across += self._sketch.length_across(step) * (1 + ROUNDING)
        self._last = moving
        self._places = PointSet(self._sketch.of(moving))
        strayed = (self._places.x - self._origin).norm(dim=1) * (1 + ROUNDING)
        (rows,) = (strayed > self._radius - self._spacing).nonzero(as_tuple=True)
        if len(rows):
            self._origin[rows] = self._places.x[rows]
            self._pairs.clear(rows)
            self._list(rows)

    def _list(self, rows: Tensor) -> None:
        """List the fixed points within the radius of these rows."""
        here = PointSet(self._places.x[rows], self._places.square[rows])
        error = self._error()
        size = max(1, CHUNK // max(len(rows), here.x.shape[1]))
        for start in range(0, len(self._fixed.x), size):
            part = slice(start, start + size)
            there = self._fixed_places.x[part], self._fixed_places.square[part]
            squared = squared_distances(here, PointSet(*there))
            limit = self._radius**2 + error
            found = Candidates(rows, squared, start, self._absent[part], limit, error)
            self._pairs.add(found, self._gone)

    def _error(self) -> float:
        """A bound on the rounding of squared distances of sketches, and of their making."""
        return rounding_error(self._places, self._fixed_places, self._fixed.x.shape[1])

    def _choose_radius(self, listed: int) -> float:
        """A radius that holds about so many pairs, by a sample of distances."""
        places, fixed = self._places.x, self._fixed_places.x
        share = min(1.0, listed / (len(places) * len(fixed)))
        some = places[fixed_sample(len(places), 25)], fixed[fixed_sample(len(fixed), 250)]
        distances = torch.cdist(*some).flatten()
        return max(distances.quantile(share).item(), REACH * self._spacing)


class TorchPairs:
    """The listed pairs (i, j), and for each a lower bound on its distance.

    A bound is stored beside the way that i had gone by then; what it has gone since is subtracted.
    """

    def __init__(self, moving: int, fixed: PointSet, fixed_places: PointSet) -> None:
        self._moving = moving
        self._fixed = fixed
        self._fixed_places = fixed_places
        self._i = self._j = torch.empty(0, dtype=torch.int64, device=fixed.x.device)
        self._bound = fixed.x.new_empty(0)

    def clear(self, rows: Tensor) -> None:
        """Forget the lists of these rows."""
        forgotten = torch.zeros(self._moving, dtype=torch.bool, device=rows.device)
        forgotten[rows] = True
        kept = ~forgotten[self._i]
        self._i, self._j, self._bound = self._i[kept], self._j[kept], self._bound[kept]

    def add(self, found: Candidates, gone: Tensor) -> None:
        """List those within the limit; ``gone`` is the way that each moving point has gone."""
        rows, squared, first, absent, limit, error = found
        row, column = ((squared < limit) & ~absent).nonzero().unbind(1)
        i = rows[row]
        bound = (squared[row, column] - error).clamp_min(0).sqrt() * (1 - ROUNDING)
        self._i = torch.cat([self._i, i])
        self._j = torch.cat([self._j, column + first])
        self._bound = torch.cat([self._bound, bound + gone[i]])

    def look(
        self,
        moving: Tensor,
        places: Tensor,
        error: float,
        gone: tuple[Tensor, Tensor],
        spacing: float,
        felt: Crowd,
    ) -> None:
        """Add every listed violation to ``felt``; ``places`` are the sketches of ``moving``."""
        way, _ = gone
        (pairs,) = (self._bound < spacing + way[self._i]).nonzero(as_tuple=True)
        if places.shape[1] > FEW_DIMENSIONS and len(pairs):
            pairs = pairs[self._i[pairs].argsort(stable=True)]
            # Their sketches where they are now may rule some out again.
            i, j = self._i[pairs], self._j[pairs]
            squared = places.square().sum(1)[i] + self._fixed_places.square[j]
            squared -= 2 * products(places, self._fixed_places.x, Pairs(i, j))
            bound = (squared - error).clamp_min(0).sqrt() * (1 - ROUNDING)
            self._bound[pairs] = torch.maximum(self._bound[pairs], bound + way[i])
            pairs = pairs[bound < spacing]
        i, j = self._i[pairs], self._j[pairs]
        distance = feel(felt, PointSet(moving), self._fixed, Pairs(i, j), spacing, 1.0)
        self._bound[pairs] = distance * (1 - ROUNDING) + way[i]
