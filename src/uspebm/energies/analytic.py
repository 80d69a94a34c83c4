r"""Energies whose :math:`\log Z`, density and samples are known exactly: what is right.

A density is :math:`q(x) = e^{-E(x)} / Z`.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from .shapes import expect_shape


@dataclass(frozen=True)
class Gaussian:
    r""":math:`E(x) = \tfrac12 \sum_k ((x_k - \mu_k) / \sigma_k)^2`, independent coordinates.

    Arguments:
        mean: μ, d numbers; points are ``(N, d)``.
        std: σ, for all coordinates or one for each.

    >>> from uspebm.support.randomness import generator
    >>> q = Gaussian(mean=(0.0, 1.0), std=0.5)
    >>> q(torch.tensor([[0.5, 1.0]]))  # a deviation from the mean
    tensor([0.5000])
    >>> q.sample(3, generator(0)).shape
    torch.Size([3, 2])
    """

    mean: tuple[float, ...]
    std: float | tuple[float, ...] = 1.0

    def __post_init__(self) -> None:
        stds = self.std if isinstance(self.std, tuple) else (self.std,)
        if min(stds) <= 0:
            raise ValueError(f"std={self.std} must be positive")
        if isinstance(self.std, tuple) and len(self.std) != len(self.mean):
            raise ValueError(f"std has {len(self.std)} values, mean has {len(self.mean)}")

    @cached_property
    def log_z(self) -> float:
        """Exact log-partition function."""
        stds = self.std if isinstance(self.std, tuple) else (self.std,) * len(self.mean)
        return math.fsum(0.5 * math.log(2 * math.pi) + math.log(s) for s in stds)

    def __call__(self, x: Tensor) -> Tensor:
        expect_shape(x, (len(self.mean),), "Gaussian")
        return 0.5 * ((x - x.new_tensor(self.mean)) / x.new_tensor(self.std)).square().sum(1)

    def log_prob(self, x: Tensor) -> Tensor:
        """Normalised log-density, ``(N,)``."""
        return -self(x) - self.log_z

    def sample(
        self, n: int, generator: torch.Generator, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """``n`` independent points."""
        z = torch.randn(
            n, len(self.mean), generator=generator, dtype=dtype, device=generator.device
        )
        return z.new_tensor(self.mean) + z.new_tensor(self.std) * z


@dataclass(frozen=True)
class GaussianMixture:
    r"""Isotropic Gaussians of one width.

    .. math:: E(x) = -\log \sum_k w_k e^{-\|x - \mu_k\|^2 / 2\sigma^2}

    Arguments:
        means: μ, one for each component, of d numbers; points are ``(N, d)``.
        std: σ, of all components.
        weights: w, which sum to one; equal if not given.

    >>> p = GaussianMixture(means=((-0.5,), (0.5,)), std=0.05)
    >>> round(p.log_prob(torch.tensor([[0.5]])).exp().item(), 3)  # half a Gaussian's peak
    3.989
    """

    means: tuple[tuple[float, ...], ...]
    std: float
    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.std <= 0:
            raise ValueError(f"std={self.std} must be positive")
        if len({len(mean) for mean in self.means}) != 1:
            raise ValueError(f"means={self.means} must be points of one dimension, at least one")
        if self.weights is not None:
            if len(self.weights) != len(self.means) or min(self.weights) <= 0:
                raise ValueError(
                    f"weights={self.weights} must be {len(self.means)} positive numbers"
                )
            if not math.isclose(math.fsum(self.weights), 1.0, rel_tol=1e-9):
                raise ValueError(f"weights={self.weights} must sum to 1")

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return len(self.means[0])

    @property
    def mode_weights(self) -> tuple[float, ...]:
        """The weight of each component."""
        return self.weights or (1.0 / len(self.means),) * len(self.means)

    @property
    def log_z(self) -> float:
        """Exact log-partition function."""
        return 0.5 * self.dim * math.log(2 * math.pi * self.std**2)

    def __call__(self, x: Tensor) -> Tensor:
        expect_shape(x, (self.dim,), "GaussianMixture")
        offset = x.unsqueeze(1) - x.new_tensor(self.means)
        exponent = -0.5 * offset.square().sum(-1) / self.std**2
        return -torch.logsumexp(exponent + x.new_tensor(self.mode_weights).log(), dim=1)

    def log_prob(self, x: Tensor) -> Tensor:
        """Normalised log-density, ``(N,)``."""
        return -self(x) - self.log_z

    def sample(
        self, n: int, generator: torch.Generator, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """``n`` independent points."""
        device = generator.device
        weights = torch.tensor(self.mode_weights, dtype=torch.float64, device=device)
        mode = torch.multinomial(weights, n, replacement=True, generator=generator)
        means = torch.tensor(self.means, dtype=dtype, device=device)
        noise = torch.randn(n, self.dim, generator=generator, dtype=dtype, device=device)
        return means[mode] + self.std * noise
