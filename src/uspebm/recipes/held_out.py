"""When to stop, by points that were held back.

The log-likelihood of a tilted kernel density can be measured, since log Z = log E_r[exp(−f)] is a
mean over draws from the reference r. It says when to stop and which weights to keep; the reference
alone, where training begins, is among them.
"""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..energies.kernel import KernelReference, TiltedEnergy, affordable, log_mean_exp
from ..objective import effective_sample_size
from ..support.checks import at_least
from ..support.randomness import generator
from ..training import load_snapshot, save_snapshot
from ..training.run_log import whole_rows, write_rows

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
    """Looks at the held-out points, and remembers them all: ``curve``; and what was best."""

    def __init__(self, rule: HeldOut, energy: TiltedEnergy, held: Tensor, seed: int) -> None:
        self._rule = rule
        self._look = _held_out_likelihood(energy.reference, held, seed)
        self.curve: Curve = [Look(0, self._look(None))]
        # Of every look that was the best so far: whoever goes back needs an earlier one.
        self._bests = {0: copy.deepcopy(energy.network)}
        self._written = 0

    def summary(self) -> str:
        """The last look and the best, in a few words."""
        last, best = self.curve[-1].log_likelihood, self.best.log_likelihood
        return f"held-out log-likelihood {last:.3f}, best {best:.3f}"

    def resume(self, folder: Path, states: Path | None, step: int) -> None:
        """Go on after the looks up to ``step`` that ``keep`` left in these folders."""
        looks = [Look(**row) for row in whole_rows(folder / "curve.jsonl")]
        self.curve += [look for look in looks if 0 < look.update <= step]
        so_far = (self._rule.best(self.curve[:k]).update for k in range(2, len(self.curve) + 1))
        for update in set(so_far) - {0}:
            path = None if states is None else states / _best_name(update)
            if path is None or not path.exists():
                if update != self.best.update:  # where nobody goes back to
                    continue
                path = folder / "best.safetensors"
            self._bests[update] = copy.deepcopy(self._bests[0])
            load_snapshot(self._bests[update], path)
        self._written = -1

    def rewind(self, step: int) -> None:
        """Forget the looks after ``step``: they were of a way that is given up."""
        self.curve = [look for look in self.curve if look.update <= step]
        self._written = -1

    def look(self, update: int, network: nn.Module) -> None:
        """Look once more, at ``network``."""
        self.curve.append(Look(update, self._look(network)))
        if self.best is self.curve[-1]:
            self._bests[update] = copy.deepcopy(network)

    def keep(self, folder: Path, states: Path | None) -> None:
        """Write the looks, and what is best, to ``folder``; that, by its update, to ``states``."""
        update = self.best.update
        if update != self._written:
            paths = [folder / "best.safetensors"]
            paths += [] if states is None else [states / _best_name(update)]
            for path in paths:
                if update:
                    save_snapshot(self.network, path, what=f"update {update}")
                else:
                    path.unlink(missing_ok=True)
            self._written = update
        write_rows(folder / "curve.jsonl", (look._asdict() for look in self.curve))

    @property
    def network(self) -> nn.Module:
        """What was best."""
        return self._bests[self.best.update]

    @property
    def best(self) -> Look:
        """The look whose weights are to be kept."""
        return self._rule.best(self.curve)

    @property
    def done(self) -> bool:
        """Whether nothing that matters has improved for long enough."""
        return self.curve[-1].update - self.best.update >= self._rule.patience * self._rule.every


def _best_name(update: int) -> str:
    return f"best-{update:06}.safetensors"


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
