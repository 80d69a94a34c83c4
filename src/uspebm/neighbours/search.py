"""The exact search for points that are closer to each other than the spacing.

Its result is that of comparing every pair, at a fraction of the cost: moving points are compared
with each other directly, and with fixed ones through lists (:mod:`.lists`) where these are short.

Processes that hold fixed points in shares compare all moving points with their own. All are told
the distances of the m moving points; and each, of its share of those that violate the spacing, what
all processes make them feel. So each receives m numbers and one for each coordinate of v violating
points, however many fixed points and processes there are. Where that is little it is one message
instead of two. No fixed point is ever sent.
"""

import torch
from torch import Tensor

from ..support.group import ALONE, Group
from .crowd import CHUNK, Crowd, Pairs, PointSet, feel, rounding_error, squared_distances
from .lists import REACH, Lists, Manner
from .sketch import Sketch, fixed_sample

LONGEST = 10_000_000
"""Pairs beyond which nothing is listed, and every pair is compared in every round."""
SHORT_MESSAGE = 16_384
"""Numbers that processes rather send each other whole than wait for a second message."""
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
        once: Whether the crowd is asked for once only, and lists need not last.
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

    def crowd(self, moving: Tensor, group: Group = ALONE) -> Crowd:
        """The crowd around ``moving``, ``(m, d)``: the same points as before, moved.

        In a ``group`` all processes have the same moving points, and fixed ones of their own. The
        gradient is then whole for this process's share of the points that violate the spacing.
        """
        felt = Crowd(
            torch.zeros_like(moving),
            moving.new_full((len(moving),), self._spacing),
            torch.zeros(len(moving), dtype=torch.bool, device=moving.device),
        )
        here = PointSet(moving)
        if len(self._fixed.x):
            if not self._begun:
                self._begin(moving.clone(), group.size)
            if self._lists is None:
                self._compare_all(felt, here, self._fixed, 1.0, (0, len(self._fixed.x)))
            else:
                self._lists.look(moving.clone(), felt)
        self._compare_all(felt, here, here, 2.0, group.span(len(moving)))
        return felt if group.size == 1 else self._felt_by_all(felt, group)

    def _felt_by_all(self, felt: Crowd, group: Group) -> Crowd:
        """What the points of all processes make each moving one feel."""
        count, width = felt.gradient.shape
        if group.size * felt.gradient.numel() <= SHORT_MESSAGE:
            own = torch.cat([felt.gradient, felt.nearest.unsqueeze(1)], 1)
            each = group.gathered(own, [count] * group.size).view(group.size, count, width + 1)
            nearest = each[:, :, width].amin(0)
            return Crowd(each[:, :, :width].sum(0), nearest, nearest == 0)
        nearest = group.least(felt.nearest)
        (rows,) = (nearest < self._spacing).nonzero(as_tuple=True)
        if len(rows):  # all others feel nothing in any process
            felt.gradient[group.rows(rows)] = group.added_rows(felt.gradient[rows])
        return Crowd(felt.gradient, nearest, nearest == 0)

    def _compare_all(
        self, felt: Crowd, here: PointSet, other: PointSet, weight: float, span: tuple[int, int]
    ) -> None:
        """Add what every pair with the ``other`` points of a span contributes to ``felt``."""
        error = rounding_error(here, other, here.x.shape[1])
        rows = max(1, CHUNK // len(here.x))
        for start in range(span[0], span[1], rows):
            part = slice(start, min(start + rows, span[1]))
            squared = squared_distances(here, PointSet(other.x[part], other.square[part]))
            close = squared < (self._spacing**2 + error)
            if other is here:
                close.diagonal(-start).fill_(False)  # no point repels itself
            else:
                close &= ~self._absent[part]
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
            fixed, manner = self._fixed, Manner(self._compiled, self._once, processes)
            self._lists = Lists(moving, fixed, self._sketch, self._spacing, self._absent, manner)


def _share_within(radius: float, a: Tensor, b: Tensor) -> float:
    """Of the pairs, the share closer than ``radius``, by a sample."""
    some = b[fixed_sample(len(b), 500)]
    return (torch.cdist(a, some) < radius).double().mean().item()


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
