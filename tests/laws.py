"""Distances between laws, with tolerances that are derived and not tuned."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

FALSE_ALARM = 1e-6
"""Probability that a right implementation fails one statistical check."""


def ks_distance(samples: Tensor, cdf: Callable[[Tensor], Tensor]) -> float:
    """Largest gap between the samples' distribution function and ``cdf``."""
    x = samples.double().flatten().sort().values
    n = len(x)
    exact = cdf(x)
    above = torch.arange(1, n + 1, dtype=torch.float64) / n - exact
    below = exact - torch.arange(n, dtype=torch.float64) / n
    return max(above.max().item(), below.max().item())


def dkw_bound(n: int) -> float:
    """The gap that n independent samples exceed with probability below FALSE_ALARM (DKW)."""
    return math.sqrt(math.log(2 / FALSE_ALARM) / (2 * n))


def normal_cdf(std: float, mean: float = 0.0) -> Callable[[Tensor], Tensor]:
    return lambda x: torch.special.ndtr((x - mean) / std)


def assert_law(samples: Tensor, cdf: Callable[[Tensor], Tensor], slack: float = 0.0) -> None:
    gap = ks_distance(samples, cdf)
    assert gap <= dkw_bound(samples.numel()) + slack, f"KS distance {gap:.5f}"
