"""Features turned so that directions which varied by σ vary by √σ, each network's by themselves."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from .nearest import TINY

LEAST_SPREAD = 0.01
"""Of a feature, over the mean of its network's: what hardly varies is not blown up further."""
FAINTEST = 1e-5
"""Of a feature, over the mean size of its network's: what varies by less is rounding."""
LEAST_VARIANCE = 1e-6
"""Of a direction, over the mean of its network's."""
MOST_DIRECTIONS = 224
"""That are kept of all networks, of those along which the data vary most: the others change no
distance much."""


class Turning(NamedTuple):
    """Where features are looked at from: z = (φ − shift) @ turn.

    >>> features = torch.tensor([[0.0, 0.0, 1.0], [2.0, 4.0, 3.0], [4.0, 2.0, 9.0]])
    >>> frame = half_whitening(features, sizes=(2, 1))  # of two networks
    >>> frame.widths, ((features - frame.shift) @ frame.turn).shape
    ((2, 1), torch.Size([3, 3]))
    """

    shift: Tensor
    """``(m,)``."""
    turn: Tensor
    """``(m, r)``."""
    widths: tuple[int, ...] = ()
    """How many of the r directions are of each network. Empty: all are of one."""


def half_whitening(features: Tensor, sizes: Sequence[int]) -> Turning:
    """For ``features`` ``(n, m)``, of which so many are of each network.

    Of the directions that are kept in all, each network has a share by its number of features.
    """
    shift = features.mean(0)
    parts = (features - shift).split(list(sizes), 1)
    most = [max(1, round(MOST_DIRECTIONS * size / sum(sizes))) for size in sizes]
    magnitudes = [part.abs().mean().item() for part in features.split(list(sizes), 1)]
    turns = [
        _of_one(part, count, FAINTEST * size)
        for part, count, size in zip(parts, most, magnitudes, strict=True)
    ]
    return Turning(shift, torch.block_diag(*turns), tuple(turn.shape[1] for turn in turns))


def _of_one(centred: Tensor, most: int, rounding: float) -> Tensor:
    """Its turn, ``(m, r)``, in units of each feature."""
    spread = centred.std(0, correction=0)
    spread = spread.clamp_min(max(LEAST_SPREAD * spread.mean().item(), rounding, TINY))
    z = (centred / spread).double()
    variance, directions = torch.linalg.eigh(z.T @ z / len(z))
    variance = variance.clamp_min(max(LEAST_VARIANCE * variance.mean().item(), TINY))
    turn: Tensor = (directions * variance**-0.25)[:, -most:].to(centred.dtype)
    return turn / spread.unsqueeze(1)
