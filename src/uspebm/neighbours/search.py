"""The exact search for points that are closer to each other than the spacing.

Its result is that of comparing every pair, at a fraction of the cost: moving points are compared
with each other directly, and with fixed ones through lists (:mod:`.lists`) where these are short.
For one look lists do not pay: then sketches (:mod:`.sketch`) tell which pairs to compare.

Of several processes, all of which know the moving points, each finds the crowd of its share of
them. Where it has all fixed points too, it needs nothing from the others. Where these are shared
out, each compares all moving points with its own, and tells every other what that one's moving
points feel of them: a number for each coordinate of a moving point, however many fixed points and
processes there are. No fixed point is ever sent.
"""

import torch
from torch import Tensor

from ..native import Bounded, compare_all, compare_bounded
from ..support.group import ALONE, Group
from .crowd import (
    CHUNK,
    FEW_DIMENSIONS,
    Crowd,
    Pairs,
    PointSet,
    feel,
    rounding_error,
    squared_distances,
)
from .lists import REACH, ROUNDING, Lists, Manner
from .sketch import Sketch, fixed_sample

LONGEST = 10_000_000
"""Pairs beyond which nothing is listed, and every pair is compared in every round."""
SEEN_AT_ONCE = 250_000
"""Pairs compared at a time: their distances then stay in a core's cache."""
LOOSE = 0.1
"""Share of pairs that sketches may let pass; above it they tell too little, and whole points do."""


class Neighbours:
    """Finds every violation of ``spacing`` between moving points and the ones that stay.

    Arguments:
        fixed: Points that stay where they are, ``(n, d)``, for as long as this object is used.
        spacing: ε.
        skip: Indices of rows of ``fixed`` to leave out: the old places of the moving points.
        sketch: The sketch of ``fixed``, where the caller has one.
        compiled: Whether to use compiled code, which the machine must have.
        once: Whether the crowd is asked for once only, so that lists would not pay.
    """

    def __init__(
        self,
        fixed: Tensor,
        spacing: float,
        skip: Tensor | None = None,
        sketch: Sketch | None = None,
        compiled: bool = False,
        once: bool = False,
    ) -> None:
        self._spacing = spacing
        self._absent = torch.zeros(len(fixed), dtype=torch.bool, device=fixed.device)
        if skip is not None:
            self._absent[skip] = True
        self._sketch = sketch or Sketch(fixed)
        self._fixed = PointSet(fixed, self._sketch.square)
        self._compiled, self._once = compiled, once
        self._lists: Lists | None = None
        self._begun = False

    def crowd(self, moving: Tensor, group: Group = ALONE, shared: bool = False) -> Crowd:
        """The crowd around ``moving``, ``(m, d)``: the same points as before, moved.

        In a ``group``, all of which have the same moving points, that around this process's share.
        Fixed points are the same in all, or ``shared`` out.
        """
        moving = moving.contiguous()  # compiled code reads it
        everyone = PointSet(moving)
        first, last = group.span(len(moving))
        own = PointSet(moving[first:last], everyone.square[first:last])
        felt = self._feel_fixed(everyone if shared else own, group.size)
        if shared:
            felt = _felt_by_all(felt, group)
        if len(own.x):
            self._compare_all(felt, own, everyone, 2.0, first)
        return felt

    def _feel_fixed(self, here: PointSet, processes: int) -> Crowd:
        """What these points feel of the fixed ones that are here."""
        moving = here.x
        felt = Crowd(
            torch.zeros_like(moving),
            moving.new_full((len(moving),), self._spacing),
            torch.zeros(len(moving), dtype=torch.bool, device=moving.device),
        )
        if len(self._fixed.x) and len(moving):
            if not self._begun and not self._once:
                self._begin(moving.clone(), processes)
            if self._lists is None:
                self._compare_all(felt, here, self._fixed, 1.0)
            else:
                self._lists.look(moving.clone(), felt)
        return felt

    def _compare_all(
        self, felt: Crowd, here: PointSet, other: PointSet, weight: float, first: int | None = None
    ) -> None:
        """Add what every pair contributes to ``felt``.

        ``first``: where ``here`` are some of the ``other`` points, the number of the first.
        """
        if self._compiled and here.x.shape[1] <= FEW_DIMENSIONS:
            left_out = self._absent if first is None else first
            compare_all(here.x, other.x, self._spacing, weight, left_out, felt)
            return
        shown, seen, limit = here, other, self._spacing**2
        if self._once and first is None:
            shown, seen = PointSet(self._sketch.of(here.x)), PointSet(self._sketch.coordinates)
            # A sketch bounds a distance up to rounding, of about ROUNDING in its square.
            limit *= 1 + 4 * ROUNDING
        limit += rounding_error(shown, seen, here.x.shape[1])
        rows = max(1, SEEN_AT_ONCE // len(here.x))
        for start in range(0, len(other.x), rows):
            part = slice(start, start + rows)
            squared = squared_distances(shown, PointSet(seen.x[part], seen.square[part]))
            absent = self._absent[part] if first is None else None
            if first is not None:
                squared.diagonal(first - start).fill_(torch.inf)  # no point repels itself
            if self._compiled and self._once:
                pairs = Bounded(squared, limit, absent)
                compare_bounded(here.x, other.x[part], pairs, self._spacing, weight, felt)
                continue
            close = squared < limit
            if absent is not None:
                close &= ~absent
            i, j = close.nonzero().unbind(1)
            feel(felt, here, other, Pairs(i, j + start), self._spacing, weight)

    def _begin(self, moving: Tensor, processes: int) -> None:
        """Make lists, unless they would be long."""
        self._begun = True
        if _share_within(self._spacing, self._sketch.of(moving), self._sketch.coordinates) > LOOSE:
            self._sketch = Sketch(self._fixed.x, 0)
        # By the points and not by their sketches, which a resumed run makes anew.
        near = _share_within(REACH * self._spacing, moving, self._fixed.x)
        if near * len(moving) * len(self._fixed.x) <= LONGEST:
            fixed, manner = self._fixed, Manner(self._compiled, processes)
            self._lists = Lists(moving, fixed, self._sketch, self._spacing, self._absent, manner)


def _felt_by_all(felt: Crowd, group: Group) -> Crowd:
    """What the fixed points of all processes make this one's share of the moving ones feel."""
    each = group.dealt(torch.cat([felt.gradient, felt.nearest.unsqueeze(1)], 1))
    nearest = each[:, :, -1].amin(0)
    return Crowd(each[:, :, :-1].sum(0), nearest, nearest == 0)


def _share_within(radius: float, a: Tensor, b: Tensor) -> float:
    """Of the pairs, the share closer than ``radius``, by a sample."""
    some = b[fixed_sample(len(b), 500)]
    return (torch.cdist(a, some) < radius).double().mean().item()


def smallest_distance(points: Tensor) -> float:
    """The smallest distance between any two of ``points``, ``(n, d)``; infinite for fewer."""
    smallest = float("inf")
    rows = max(1, CHUNK // max(1, len(points)))
    for start in range(0, len(points), rows):
        distance = torch.cdist(
            points[start : start + rows], points, compute_mode="donot_use_mm_for_euclid_dist"
        )
        distance.diagonal(start).fill_(float("inf"))
        smallest = min(smallest, distance.min().item())
    return smallest
