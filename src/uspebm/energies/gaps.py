"""Gaps in tables: cells without a value, NaN, filled in from the rows that are most alike.

A gap gets the mean of its column over the five nearest rows, by the columns that both have, and
where none of these has a value the column's mean. Columns that are 0 or 1 and nothing else, as the
numbers of a category are, get what the nearest row has there: between the two there is no row, and
all numbers of a category come from the same one. A row that agrees with just one other in all that
is known of it is taken for that one, and gets its values: so a row that was learned from is known
again. On tables with 30 per cent of their cells taken away at random that keeps more of what a
detector finds than medians, values drawn from the column, or a linear regression do (LOG.md). What
it cannot do is make a strange value strange that nobody wrote down.
"""

import torch
from torch import Tensor

ALIKE = 5
"""Rows whose mean fills a gap."""
SAME = 1e-6
"""Units by which numbers differ that are the same but for rounding."""
FILLED_AT_ONCE = 5_000_000
"""Distances held at a time."""


def filled(
    x: Tensor, centres: Tensor, own: Tensor | None = None, two_valued: Tensor | None = None
) -> Tensor:
    """``x`` ``(N, d)`` with its gaps filled from ``centres`` ``(n, d)``, which may have gaps too.

    All in units that make columns comparable, with zero for the mean. ``own``: for each row the
    centre that it is, which tells nothing of it, nor is it taken for another one. ``two_valued``
    ``(d,)``: which columns know two values only; none where it is left out.

    >>> nan = float("nan")
    >>> known = torch.tensor([[0.0, 1.0], [0.1, 1.0], [5.0, 9.0]])
    >>> filled(torch.tensor([[0.0, nan]]), known[:2]).tolist()
    [[0.0, 1.0]]
    """
    there, seen = ~centres.isnan(), ~x.isnan()
    c, z = centres.nan_to_num(0.0), x.nan_to_num(0.0)
    weight, mask = there.to(x.dtype), seen.to(x.dtype)
    shared = mask @ weight.T
    squared = (z.square() @ weight.T + mask @ c.square().T - 2 * z @ c.T) / shared.clamp_min(1.0)
    squared = torch.where(shared > 0, squared, torch.inf)
    if own is not None:
        squared[torch.arange(len(x)), own] = torch.inf
    k = min(ALIKE, len(centres))
    which = squared.topk(k, dim=1, largest=False).indices
    alike, has = c[which], weight[which]
    mean = (alike * has).sum(1) / has.sum(1).clamp_min(1.0)
    if two_valued is not None:
        first = has.argmax(1, keepdim=True)  # the nearest that has a value, column by column
        mean = torch.where(two_valued, alike.gather(1, first).squeeze(1), mean)
    if own is None:
        apart = ((z[:, None] - alike) * mask[:, None] * has).abs().amax(2)
        same = (apart <= SAME) & (shared.gather(1, which) == mask.sum(1, keepdim=True))
        twin = (alike * same[:, :, None]).sum(1)
        mean = torch.where(same.sum(1, keepdim=True) == 1, twin, mean)
    return torch.where(seen, x, mean)


def filled_table(x: Tensor, most: int) -> Tensor:
    """A table ``(N, d)`` without gaps, filled from its own first ``most`` rows, in any units."""
    gaps = x.isnan()
    if not gaps.any():
        return x
    two_valued = (gaps | (x == 0) | (x == 1)).all(0)
    known = (~gaps).sum(0).clamp_min(1)
    mean = x.nansum(0) / known
    spread = ((x - mean).square().nansum(0) / known).sqrt()
    spread = torch.where(spread > 0, spread, 1.0)
    z = (x - mean) / spread
    centres, size = z[:most], max(1, FILLED_AT_ONCE // min(most, len(x)))
    parts = []
    for rows in torch.arange(len(x)).split(size):
        parts += [
            filled(z[part], centres, part if part[-1] < len(centres) else None, two_valued)
            for part in (rows[rows < len(centres)], rows[rows >= len(centres)])
            if len(part)
        ]
    full = torch.cat(parts) * spread + mean
    # Where none of those alike has one: what the first row has that has one, whole categories too.
    whole, first = full.round(), x.gather(0, (~gaps).byte().argmax(0, keepdim=True))
    whole = torch.where((full - whole).abs() <= SAME, whole, first)
    return torch.where(gaps, torch.where(two_valued, whole, full), x)
