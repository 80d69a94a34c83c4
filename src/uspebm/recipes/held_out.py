"""When to stop, by points that were held back.

The log-likelihood of a tilted kernel density can be measured, since log Z = log E_r[exp(−f)] is a
mean over draws from the reference r. It says when to stop and which weights to keep; the reference
alone, where training begins, is among them.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..energies.kernel import KernelReference, affordable, log_mean_exp
from ..objective import effective_sample_size
from ..support.checks import at_least
from ..support.randomness import generator

LOG_Z_DRAWS = 4096
"""From the reference."""
AT_A_TIME = 1024
"""Points in a network: bounds the memory."""
TRUSTED = 0.05
"""Share of the draws that must be effective for log Z to be believed."""


class Look(NamedTuple):
    """One look at the held-out points."""

    update: int
    log_likelihood: float


Curve = list[Look]


@dataclass(frozen=True)
class HeldOut:
    """Stop when held-out likelihood no longer rises, and keep the weights where it was highest.

    Arguments:
        share: Of the points, held back for this and nothing else.
        every: Updates between looks.
        patience: Looks without a better one, after which training ends.
        least_gain: Nats per point that a look has to gain to be a better one.
        fewest: Training points below which a network would learn nothing but them: none is trained.
    """

    share: float = 0.1
    every: int = 50
    patience: int = 6
    least_gain: float = 0.01
    fewest: int = 50

    def __post_init__(self) -> None:
        at_least(1, every=self.every, patience=self.patience)
        if not 0 <= self.share < 1:
            raise ValueError(f"share={self.share} must lie between 0 and 1")

    def split(self, points: Tensor, seed: int) -> tuple[Tensor, Tensor]:
        """Points to train on, and those held back."""
        order = torch.randperm(len(points), generator=generator(seed, "held out"))
        kept = round(self.share * len(points))
        train, held = order.split([len(points) - kept, kept])
        return points[train], points[held]

    def best(self, curve: Curve) -> Look:
        """The look whose weights are kept: the last that gained enough on the best before it."""
        best = curve[0]
        for look in curve:
            if look.log_likelihood > best.log_likelihood + self.least_gain:
                best = look
        return best


class Judge:
    """Looks at the held-out points, and remembers them all: ``curve``."""

    def __init__(self, rule: HeldOut, reference: KernelReference, held: Tensor, seed: int) -> None:
        self._rule = rule
        self._look = _held_out_likelihood(reference, held, seed)
        self.curve: Curve = [Look(0, self._look(None))]

    def summary(self) -> str:
        """The last look and the best, in a few words."""
        last, best = self.curve[-1].log_likelihood, self.best.log_likelihood
        return f"held-out log-likelihood {last:.3f}, best {best:.3f}"

    def resume(self, curve: Curve, step: int) -> None:
        """Go on after the looks up to ``step``."""
        self.curve += [look for look in curve if 0 < look.update <= step]

    def look(self, update: int, network: nn.Module) -> bool:
        """Whether ``network`` is better than all before it."""
        self.curve.append(Look(update, self._look(network)))
        return self.best is self.curve[-1]

    @property
    def best(self) -> Look:
        """The look whose weights are to be kept."""
        return self._rule.best(self.curve)

    @property
    def done(self) -> bool:
        """Whether nothing that matters has improved for long enough."""
        return self.curve[-1].update - self.best.update >= self._rule.patience * self._rule.every


def _held_out_likelihood(
    reference: KernelReference, points: Tensor, seed: int
) -> Callable[[nn.Module | None], float]:
    """The mean log-density of ``points`` under the reference, tilted by a network if there is one.

    Minus infinity where hardly a draw counts: nobody knows log Z there. NaN without points.
    """
    count = affordable(LOG_Z_DRAWS, reference.centres)
    draws = reference.sample(count, generator(seed, "stopping")).split(AT_A_TIME)
    parts = points.split(AT_A_TIME)
    plain = torch.cat([reference.log_prob(part) for part in parts]).mean().item()

    @torch.no_grad()
    def look(network: nn.Module | None) -> float:
        if network is None:
            return plain
        log_weight = -torch.cat([network(part) for part in draws]).double()
        tilt = torch.cat([network(part) for part in parts]).double()
        if not effective_sample_size(log_weight) >= TRUSTED * count:
            return -math.inf
        return plain - tilt.mean().item() - log_mean_exp(log_weight)

    return look
