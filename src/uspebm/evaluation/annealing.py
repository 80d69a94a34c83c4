r"""The log-partition function in many dimensions, between two bounds.

Annealed importance sampling (Neal, 2001) walks samples of a base law b, whose density is known, to
the model along :math:`f_\beta = b^{1 - \beta} e^{-\beta E}` and weighs them by

.. math:: \log w = \sum_k (\beta_k - \beta_{k-1}) \bigl(-E(x_k) - \log b(x_k)\bigr).

:math:`\mathbb{E}[w] = Z`, so the logarithm of an average of weights is, in expectation, a **lower**
bound on :math:`\log Z` (Jensen). Walked backwards from exact samples of the model, the same weights
give an **upper** bound (Grosse, Ghahramani & Adams, 2015): the truth is between the two, and where
they meet it is known. Without exact samples there is only the lower one; it is a bad estimate where
the base misses a mode, and says nothing about that itself.

The moves between temperatures are Hamiltonian with a Metropolis test, so each leaves its
:math:`f_\beta` unchanged. Step sizes come from a pilot run and are then fixed.
"""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from ..energies.gradient import energy_and_gradient, energy_at
from ..support.checks import at_least
from ..types import Energy, Law


class LogZ(NamedTuple):
    """An estimate of log Z, and what kind of one it is."""

    value: float
    error: float
    """Standard error of the value, by the spread of the weights."""
    kind: Literal["estimate", "lower bound", "upper bound"]
    ess: float
    """Effective number of the weights: few mean that the value cannot be relied on."""


@dataclass(frozen=True)
class Annealing:
    """How to walk from the base to the model.

    Arguments:
        base: Where the walk starts, wider than the model: a Gaussian, or a box, in which the model
            then lives.
        chains: Walks, all independent.
        temperatures: Steps of the walk; more make the bounds tighter.
        leapfrogs: Leapfrog steps per move.

    >>> from uspebm import Gaussian
    >>> law, draws = Gaussian((1.0, 1.0), 0.5), torch.Generator().manual_seed(0)
    >>> walk = Annealing(Gaussian((0.0, 0.0), 1.0), chains=50, temperatures=50)
    >>> low = walk.lower(law, draws)
    >>> high = walk.upper(law, law.sample(50, draws, torch.float64), draws)
    >>> low.value - 3 * low.error < law.log_z < high.value + 3 * high.error
    True
    """

    base: Law
    chains: int = 200
    temperatures: int = 500
    leapfrogs: int = 5

    def __post_init__(self) -> None:
        at_least(2, chains=self.chains, temperatures=self.temperatures)
        at_least(1, leapfrogs=self.leapfrogs)

    def lower(
        self, energy: Energy, generator: torch.Generator, dtype: torch.dtype = torch.float64
    ) -> LogZ:
        """A lower bound on log Z, in expectation."""
        sizes = self._pilot(energy, generator, dtype)
        x = self.base.sample(self.chains, generator, dtype)
        log_weight = self._walk(energy, x, self._schedule(), sizes, generator)
        return _log_mean(log_weight, "lower bound")

    def upper(self, energy: Energy, samples: Tensor, generator: torch.Generator) -> LogZ:
        """An upper bound on log Z, in expectation, from exact ``samples`` of the model."""
        sizes = self._pilot(energy, generator, samples.dtype)
        log_weight = self._walk(energy, samples, self._schedule().flip(0), sizes.flip(0), generator)
        mean = _log_mean(log_weight, "upper bound")
        return mean._replace(value=-mean.value)

    def _schedule(self) -> Tensor:
        """Inverse temperatures from 0 to 1, dense at both ends, where the law changes fastest."""
        t = torch.linspace(-4.0, 4.0, self.temperatures + 1, dtype=torch.float64)
        s = torch.sigmoid(t)
        return (s - s[0]) / (s[-1] - s[0])

    def _walk(
        self,
        energy: Energy,
        x: Tensor,
        schedule: Tensor,
        sizes: Tensor,
        generator: torch.Generator,
    ) -> Tensor:
        """Log-weights of walks from ``x`` along ``schedule``, in either direction."""
        log_weight = torch.zeros(len(x), dtype=torch.float64)
        for k in range(1, len(schedule)):
            tilt = -energy_at(energy, x).double() - self.base.log_prob(x).double()
            log_weight += (schedule[k] - schedule[k - 1]) * tilt
            x, _ = self._move(energy, x, schedule[k].item(), sizes[k].item(), generator)
        return log_weight

    def _pilot(self, energy: Energy, generator: torch.Generator, dtype: torch.dtype) -> Tensor:
        """Step sizes for every temperature that accept about two moves in three."""
        x = self.base.sample(self.chains, generator, dtype)
        size = 0.5 * x.flatten(1).std(0).mean().item()
        sizes = []
        for beta in self._schedule().tolist():
            for _ in range(2):
                x, accepted = self._move(energy, x, beta, size, generator)
                size *= math.exp(0.3 * (accepted - 0.65))
            sizes.append(size)
        return torch.tensor(sizes, dtype=torch.float64)

    def _move(
        self, energy: Energy, x: Tensor, beta: float, size: float, generator: torch.Generator
    ) -> tuple[Tensor, float]:
        """One Hamiltonian move at ``beta``; the new points and the share that was accepted."""

        def potential(y: Tensor) -> Tensor:
            return beta * energy(y) - (1 - beta) * self.base.log_prob(y)

        momentum = torch.randn(x.shape, generator=generator, dtype=x.dtype)
        height, slope = energy_and_gradient(potential, x)
        start = height + 0.5 * momentum.flatten(1).square().sum(1)
        y, inside = x, torch.ones(len(x), dtype=torch.bool)
        p = momentum - 0.5 * size * slope
        for step in range(self.leapfrogs):
            y = y + size * p
            # Where the base has no mass the move is refused; till then the point waits inside.
            inside &= torch.isfinite(self.base.log_prob(y))
            y = torch.where(inside.reshape(-1, *[1] * (y.dim() - 1)), y, x)
            half = 0.5 if step == self.leapfrogs - 1 else 1.0
            height, slope = energy_and_gradient(potential, y)
            p = p - half * size * slope
        end = height + 0.5 * p.flatten(1).square().sum(1)
        accept = torch.rand(len(x), generator=generator, dtype=x.dtype).log() < start - end
        accept &= inside
        return torch.where(accept.reshape(-1, *[1] * (x.dim() - 1)), y, x), (
            accept.double().mean().item()
        )


def importance_log_z(
    energy: Energy,
    proposal: Law,
    n: int,
    generator: torch.Generator,
    dtype: torch.dtype = torch.float64,
) -> LogZ:
    r"""log Z by plain importance sampling: for few dimensions, and a proposal that covers q.

    .. math:: Z \approx \frac{1}{n} \sum_i e^{-E(x_i)} / r(x_i), \qquad x_i \sim r

    Arguments:
        energy: From points ``(N, *event)`` to ``(N,)``.
        proposal: r, with its log-density; a :class:`~uspebm.Box` is the uniform law on itself.
        n: Points.
        generator: Of the draws.
        dtype: Of the points.

    >>> from uspebm import Box, Gaussian
    >>> law, box = Gaussian((0.0,), 0.3), Box(-2.0, 2.0, (1,))
    >>> found = importance_log_z(law, box, 10_000, torch.Generator().manual_seed(0))
    >>> abs(found.value - law.log_z) < 4 * found.error
    True
    """
    x = proposal.sample(n, generator, dtype)
    return _log_mean((-energy_at(energy, x) - proposal.log_prob(x)).double(), "estimate")


def _log_mean(log_weight: Tensor, kind: Literal["estimate", "lower bound", "upper bound"]) -> LogZ:
    n = len(log_weight)
    value = torch.logsumexp(log_weight, 0).item() - math.log(n)
    relative = torch.exp(log_weight - value)
    ess = n / relative.square().mean().item()
    return LogZ(value, relative.std().item() / math.sqrt(n), kind, ess)
