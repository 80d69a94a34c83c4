"""Which units the rows of a table are compared in."""

import torch
from torch import Tensor, nn

from .nearest import TINY
from .ranks import ranks_of
from .scaling import of_images, of_table, standardised

WHITENED_BY_ROWS = 1000
"""Rows whose neighbours decide about units, at most: more make no difference."""
FEWEST_ON_A_SCALE = 20
"""Rows from which on columns that have the same ends do not have them by chance."""
LEAST_SHARING = 2.5
"""Columns that make up the variance, in effect, where they have a unit in common."""


def units_of(x: Tensor) -> list[nn.Module]:
    """Four kinds of units: shared by all columns, each column's own, neighbours', and ranks.

    Only shared ones where columns are on one scale, as pixels and marks are. None are shared where
    a column or two have nearly all of the variance. Neighbours' are each column's own, which then
    count twice, of unrelated or very many columns.
    """
    shared = of_images(x)
    if _on_one_scale(x):
        return [shared]
    found = [standardised(x), of_table(x[:WHITENED_BY_ROWS]), ranks_of(x)]
    return [shared, *found] if _share_a_unit(x) else found


def _on_one_scale(x: Tensor) -> bool:
    """Whether most columns are whole numbers, more than two of them, from one end to another.

    And the others, too, lie between these ends.
    """
    low, high = x.amin(0), x.amax(0)
    varying = high > low
    whole = (x == x.round()).all(0) & (high - low > 1)
    if len(x) < FEWEST_ON_A_SCALE or not whole.any():
        return False
    ends, counts = torch.stack([low, high], 1)[whole].unique(dim=0, return_counts=True)
    first, last = ends[counts.argmax()]
    within = bool(((low >= first) & (high <= last)).all())
    return within and bool(2 * counts.max() > varying.sum() > 2)


def _share_a_unit(x: Tensor) -> bool:
    """Whether distances in the columns' own units are made of more than a column or two."""
    share = x.var(0, correction=0)
    share = share / share.sum().clamp_min(TINY)
    effective = 1 / share.square().sum().clamp_min(TINY)
    return bool(effective >= min(LEAST_SHARING, 0.75 * x.shape[1]))
