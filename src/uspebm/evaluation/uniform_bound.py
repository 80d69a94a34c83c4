r"""How much of a density a model on a box can be, at most: a bound that uniform draws give.

By Jensen :math:`\log Z \ge \log|\Omega| - \mathbb{E}_\mathrm{unif}[E]`, so the mean of
:math:`-\log q = E + \log Z` over the data is at least
:math:`\mathbb{E}_p[E] - \mathbb{E}_\mathrm{unif}[E] + \log|\Omega|`. In bits per dimension, with a
side of the box standing for 256 values as of bytes, the uniform law has exactly eight. A model that
is hardly below orders images, and measures nothing.
"""

import math

import torch
from torch import Tensor

from ..domains import Box
from ..energies.gradient import energy_at
from ..support.randomness import generator
from ..types import Energy

AT_ONCE = 1000


def least_bits_per_dimension(
    energy: Energy, points: Tensor, domain: Box, draws: int = 5000, seed: int = 0
) -> float:
    """Bits per dimension that ``energy`` has on ``points``, at least; 8 for the uniform law.

    >>> from uspebm.domains import Box
    >>> box = Box(-1.0, 1.0, (1, 2, 2))
    >>> least_bits_per_dimension(lambda x: 0.0 * x.sum((1, 2, 3)), torch.zeros(3, 1, 2, 2), box)
    8.0
    """
    uniform = domain.sample(draws, generator(seed, "uniform"), points.dtype)
    inside, outside = (
        torch.cat([energy_at(energy, part) for part in x.split(AT_ONCE)]).double().mean().item()
        for x in (points, uniform)
    )
    return 8.0 + (inside - outside) / (domain.dim * math.log(2))
