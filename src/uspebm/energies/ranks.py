"""Ranks of values, and tails of distances: curves that are learned from data."""

import math

import torch
from torch import Tensor

from .monotone import KNOTS, PiecewiseLinear
from .scaling import spreads

BODY = 0.9
"""Share of the data whose ranks count; beyond it the tail is drawn on as an exponential's."""
STEP = 1e-3
"""Of the mean excess, from the body's end to where the tail begins."""
LEAST_EXCESS = 1e-3
"""Of logarithms of distances over the body's end, in the mean: where all distances are alike."""


def ranks_of(x: Tensor) -> PiecewiseLinear:
    """Columns as a normal law has them: the value at a rank is that law's at the same rank.

    Beyond the data a column goes on in units of its spread.
    """
    count = len(x)
    knots, shares = _knots(x.sort(0).values.T.contiguous())
    values = torch.special.ndtri((shares * count + 0.5) / (count + 1))
    return PiecewiseLinear(knots, values, (1 / spreads(x)).unsqueeze(1).expand(-1, 2))


def tail_curves(readings: Tensor) -> PiecewiseLinear:
    """Minus the logarithm of the share of ``readings`` ``(n, c)`` that are as large or larger.

    From :data:`BODY` on it rises as that of an exponential law with the same mean excess. It begins
    there with the share that is larger, a step above those that are as large: where rows repeat,
    most distances are zero, and all others are to differ from them.
    """
    ordered = readings.double().sort(0).values.T.contiguous()
    count = ordered.shape[1]
    body = ordered[:, : max(1, math.ceil(BODY * count))].contiguous()
    knots, shares = _knots(body, side="left", most=KNOTS - 1)
    last = body[:, -1:]
    larger = (ordered > last).sum(1, keepdim=True)
    excess = (ordered - last).clamp_min(0.0).sum(1, keepdim=True) / larger.clamp_min(1)
    excess = excess.clamp_min(LEAST_EXCESS)
    as_large = count - shares * body.shape[1]
    values = -torch.log((torch.cat([as_large, larger], 1) + 1) / (count + 1))
    knots = torch.cat([knots, last + STEP * excess], 1)
    return PiecewiseLinear(knots, values, torch.cat([torch.zeros_like(excess), 1 / excess], 1))


def _knots(ordered: Tensor, side: str = "middle", most: int = KNOTS) -> tuple[Tensor, Tensor]:
    """Of rising rows ``(c, n)``, at most so many different values each, and their shares.

    The share of a row's values below the knot, with all of its equals (``"left"``: none) or, in the
    middle, half of them. Rows with fewer different values repeat their last.
    """
    count = ordered.shape[1]
    at = torch.linspace(0, count - 1, min(most, count)).round().long()
    knots = ordered[:, at].contiguous()
    low = torch.searchsorted(ordered, knots, side="left")
    high = torch.searchsorted(ordered, knots, side="right")
    rank = low if side == "left" else (low + high) / 2
    # Equal ones first, then the last again and again: rising as far as they go.
    fresh = torch.cat([torch.ones(len(knots), 1, dtype=torch.bool), knots.diff(dim=1) > 0], 1)
    order = (~fresh).to(torch.int8).sort(dim=1, stable=True).indices
    sizes = fresh.sum(1, keepdim=True)
    chosen = order.gather(1, torch.arange(len(at)).expand_as(order).minimum(sizes - 1))
    return knots.gather(1, chosen), rank.gather(1, chosen).double() / count
