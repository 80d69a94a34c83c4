r"""Which part of an image makes it unlikely: what the score gains when that part is painted over.

A window is painted over by what surrounds it, linearly from edge to edge. With :math:`g_w` what the
score of the image gains by that, or zero where it loses, a pixel's heat is

.. math:: \sum_{\text{sizes}} \operatorname{mean}_{w \ni \text{pixel}} g_w

over windows of three sizes. It is a statement about the model, in units of its score, and no cause:
heat says where painting over helps. What is strange all over, as noise is, has no hottest place.

References:
    Zeiler, Fergus (2014), *Visualizing and understanding convolutional networks* (occlusion).
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from .scorer import Scorer

WINDOW_SIDES = (0.18, 0.29, 0.43)
"""Of the image's shorter side."""
LEAST_SCORE = -1e300
"""Stands for minus infinity: what is gained from there is more than all else, and can be added up;
and from there to there nothing is gained."""


def heat_maps(scorer: Scorer, x: Tensor) -> Tensor:
    """Of images ``(N, C, H, W)`` in the user's units, ``(N, H, W)``."""
    now = scorer.in_parts(x).clamp_min(LEAST_SCORE)
    height, width = x.shape[-2:]
    heat = torch.zeros(len(x), height, width, dtype=torch.float64)
    for share in WINDOW_SIDES:
        side = max(1, min(height, width, round(share * min(height, width))))
        found, times = torch.zeros_like(heat), torch.zeros(height, width)
        for rows, columns in _windows(height, width, side):
            then = scorer.in_parts(painted_over(x, rows, columns))
            gain = (then.clamp_min(LEAST_SCORE) - now).clamp_min(0.0)
            found[:, rows, columns] += gain[:, None, None]
            times[rows, columns] += 1
        heat += found / times
    return heat


def painted_over(x: Tensor, rows: slice, columns: slice) -> Tensor:
    """Images whose window is the mean of what leads from top to bottom and from left to right.

    >>> image = torch.arange(4.0).expand(1, 1, 4, 4)  # rises from left to right
    >>> painted_over(image, slice(1, 3), slice(1, 3)).equal(image)
    True
    """
    upright = _between(x[..., columns], rows, -2)
    level = _between(x[..., rows, :], columns, -1)
    sides = [side for side in (upright, level) if side is not None]
    if not sides:
        return x
    out = x.clone()
    out[..., rows, columns] = torch.stack(sides).mean(0)
    return out


def _between(x: Tensor, part: slice, dim: int) -> Tensor | None:
    """From what is before ``part`` to what is after it; None where it is all there is."""
    before = x.narrow(dim, part.start - 1, 1) if part.start > 0 else None
    after = x.narrow(dim, part.stop, 1) if part.stop < x.shape[dim] else None
    if before is None or after is None:
        edge = after if before is None else before
        if edge is None:
            return None
        before = after = edge
    size = part.stop - part.start
    share = torch.linspace(0, 1, size + 2, dtype=x.dtype)[1:-1]
    share = share.view([size if k == x.dim() + dim else 1 for k in range(x.dim())])
    return before + share * (after - before)


def _windows(height: int, width: int, side: int) -> Iterator[tuple[slice, slice]]:
    """Half of a side apart, up to the last edge."""
    step = max(1, side // 2)
    for top in sorted({*range(0, height - side + 1, step), height - side}):
        for left in sorted({*range(0, width - side + 1, step), width - side}):
            yield slice(top, top + side), slice(left, left + side)
