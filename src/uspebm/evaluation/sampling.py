r"""Draws from a trained energy: long coupled Langevin chains with a Metropolis test.

.. math:: y = x - \tfrac{\alpha}{2} \nabla E(x) + \sqrt{\alpha}\, z, \qquad z \sim N(0, I)

is accepted with probability :math:`\min\{1, e^{E(x) - E(y) + (\|z\|^2 - \|z'\|^2) / 2}\}`, where
:math:`z' = z - \tfrac{\sqrt\alpha}{2} (\nabla E(x) + \nabla E(y))`. Gradient and noise are coupled
(β = α), and the test takes away what the step size would add: the limit is q itself, for any α. On
a box, moves bounce off its walls, which keeps volume and can be reversed, so the limit is q on the
box. While chains burn in, α follows the share of moves that are accepted; then it is fixed.

Not guaranteed: that chains reach q. From one mode to another that is far away they hardly ever go:
:math:`\hat R` tells where chains have begun in both, and nothing does where all begin in one. Start
them wider than the model is. One α serves all coordinates, so energies of very unequal scales take
long; and on images, models of this library order and are no densities, so what chains find there
need not look like data.

References:
    Roberts & Tweedie (1996), MALA; Roberts & Rosenthal (1998), the share of 0.574;
    Afshar & Domke (2015), reflection.
"""

import math
import warnings
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..domains import Box, check_proposal, draw
from ..energies.gradient import energy_and_gradient
from ..support.checks import at_least, positive
from ..support.randomness import generator
from ..types import Energy, NonFiniteError, Proposal
from .mixing import chains_ess, split_r_hat

BEST_SHARE = 0.574
"""Of accepted moves, at which chains in many dimensions are fastest."""
MIXED = 1.05
"""Above this R-hat, chains have not mixed."""


class Samples(NamedTuple):
    """Points of the chains, and whether these can be relied on.

    >>> from uspebm.energies import Gaussian
    >>> few = Chains(chains=4, draws=100, burn_in=100)
    >>> found = sample(Gaussian((0.0,), 1.0), Gaussian((0.0,), 2.0), few)
    >>> found.r_hat < MIXED, 200 < found.ess < 400, round(found.accepted, 1)
    (True, True, 0.6)
    """

    x: Tensor
    """``(chains * draws, *event)``, one chain after the other."""
    r_hat: float
    """Of the worst coordinate; near 1 where the chains agree."""
    ess: float
    """How many independent points these are worth, for the mean of the worst coordinate."""
    accepted: float
    """Share of the moves after burn-in."""


@dataclass(frozen=True)
class Chains:
    """How many chains, and how long.

    Arguments:
        chains: All independent, but for the step size that they find together.
        draws: Points kept of each.
        every: Steps from one point that is kept to the next.
        burn_in: Steps before the first. With none, the step size stays as it is.
        step_size: α, to begin with.

    >>> from uspebm.energies import Gaussian
    >>> law, wider = Gaussian((0.0,), 1.0), Gaussian((0.0,), 2.0)
    >>> few, apart = (Chains(chains=4, draws=100, burn_in=100, every=n) for n in (1, 3))
    >>> sample(law, wider, few).ess < sample(law, wider, apart).ess  # less alike, worth more
    True
    """

    chains: int = 16
    draws: int = 500
    every: int = 2
    burn_in: int = 500
    step_size: float = 0.01

    def __post_init__(self) -> None:
        at_least(2, chains=self.chains)
        at_least(4, draws=self.draws)
        at_least(1, every=self.every)
        at_least(0, burn_in=self.burn_in)
        positive(step_size=self.step_size)


LONG_CHAINS = Chains()
"""A thousand steps each, after five hundred."""


def sample(
    energy: Energy,
    start: Tensor | Proposal,
    chains: Chains = LONG_CHAINS,
    *,
    domain: Box | None = None,
    seed: int = 0,
) -> Samples:
    """Draw from q ∝ exp(−E); warns where the chains have not mixed.

    Points are of the dtype and on the device of the energy's parameters if it has some, else as
    given ones are, else float32.

    Arguments:
        energy: As trained; in evaluation mode, if it has one.
        start: A law to start from, wider than the model; or points ``(N, *event)``, each chain
            starts at another one of them.
        chains: How many, how long.
        domain: Ω, which the chains do not leave; left out: all of space.
        seed: Of every draw.

    >>> from uspebm.energies import Gaussian
    >>> found = sample(Gaussian((1.0, -1.0), 0.5), Gaussian((0.0, 0.0), 2.0))
    >>> found.x.shape, found.r_hat < 1.05, found.ess > 500
    (torch.Size([8000, 2]), True, True)
    """
    weight = next(energy.parameters(), None) if isinstance(energy, nn.Module) else None
    like = weight if weight is not None else start if isinstance(start, Tensor) else torch.empty(0)
    draws = generator(seed, "sample", device=like.device)
    walkers = _Walkers(energy, _first(start, chains.chains, domain, like, draws), domain, draws)
    size = chains.step_size
    try:
        for k in range(chains.burn_in):
            # Ever smaller changes, whose sum has no bound: far off, it still arrives.
            size *= math.exp((walkers.move(size) - BEST_SHARE) / math.sqrt(k + 1))
        kept = walkers.x.new_empty(chains.chains, chains.draws, *walkers.x.shape[1:])
        share = 0.0
        for k in range(chains.draws * chains.every):
            share += walkers.move(size) / (chains.draws * chains.every)
            if (k + 1) % chains.every == 0:
                kept[:, k // chains.every] = walkers.x
    except NonFiniteError as error:
        raise NonFiniteError(
            f"{error}, at a step size of {size:.2g} (step_size={chains.step_size}): begin with a "
            "smaller one, or nearer to the data"
        ) from error
    coordinates = kept.flatten(2)
    r_hat, ess = split_r_hat(coordinates).max().item(), chains_ess(coordinates).min().item()
    if r_hat > MIXED:
        warnings.warn(
            f"the chains have not mixed: R-hat is {r_hat:.3g}, above {MIXED}, and "
            f"{len(coordinates)} chains of {chains.draws} draws are worth {ess:.0f}; take more "
            "steps, or look whether there are modes that chains do not leave",
            stacklevel=2,
        )
    return Samples(kept.flatten(0, 1), r_hat, ess, share)


class _Walkers:
    """Chains, where they are now."""

    def __init__(
        self, energy: Energy, x: Tensor, domain: Box | None, draws: torch.Generator
    ) -> None:
        self.x, self._energy, self._domain, self._draws = x, energy, domain, draws
        self._value, self._gradient = energy_and_gradient(energy, x)

    def move(self, size: float) -> float:
        """One step; the mean probability that it was accepted with."""
        x, length = self.x, math.sqrt(size)
        z = torch.randn(x.shape, generator=self._draws, dtype=x.dtype, device=x.device)
        # A leapfrog step from momentum z: what the test asks for are the two momenta.
        momentum = z - 0.5 * length * self._gradient
        y = x + length * momentum
        if self._domain is not None:
            y, sign = self._domain.reflect(y)
            momentum = momentum * sign
        value, gradient = energy_and_gradient(self._energy, y)
        end = momentum - 0.5 * length * gradient
        gained = 0.5 * (z.square() - end.square()).flatten(1).sum(1)
        chance = torch.exp((self._value - value + gained).clamp_max(0.0))
        wins = torch.rand(len(x), generator=self._draws, dtype=x.dtype, device=x.device) < chance
        column = wins.reshape(-1, *[1] * (x.dim() - 1))
        self.x = torch.where(column, y, x)
        self._value = torch.where(wins, value, self._value)
        self._gradient = torch.where(column, gradient, self._gradient)
        return chance.mean().item()


def _first(
    start: Tensor | Proposal, n: int, domain: Box | None, like: Tensor, draws: torch.Generator
) -> Tensor:
    """Where ``n`` chains begin."""
    if not isinstance(start, Tensor):
        check_proposal(start, draws, like.dtype, domain)
        return draw(start, n, draws, like.dtype, domain)
    if len(start) < n:
        raise ValueError(f"start has {len(start)} points, fewer than chains={n}")
    if domain is not None and (start.shape[1:] != domain.shape or domain.share_outside(start) > 0):
        raise ValueError(f"start has points that do not lie in domain={domain}")
    chosen = torch.randperm(len(start), generator=draws, device=like.device)[:n]
    return start[chosen.to(start.device)].to(like).detach()
