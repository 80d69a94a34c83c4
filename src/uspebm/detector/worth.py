"""What a trained network is worth on images: how many changed ones it finds, beside pixels.

Nobody has the outliers of tomorrow. Images that were held back from training, turned, blurred,
shuffled and so on (:mod:`uspebm.evaluation.proxies`), stand in for them; a network whose features
find fewer of these than a look at the pixels does has collapsed, and is not kept.
"""

import math
import warnings
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..energies.features import FeatureRule
from ..evaluation.proxies import proxies
from ..recipes import Recipe

TRIED_ON = 500
"""Images held back for it, at most; one in ten where there are fewer."""
LEAST_CUT = 4
"""Pixels of a side that can be cut in tiles."""
IN_PIXELS = FeatureRule(of="pixels", centres=5000)
"""What it is compared with, and what scores in its place."""
FALSE_ALARMS = 0.05
LEAST_LOSS = 0.02
"""By this share more have to be found in pixels of 500 images; of fewer, by what chance does."""


class Worth(NamedTuple):
    """Shares of changed images that are found at a false-alarm rate of 5 per cent."""

    by_network: float
    by_pixels: float

    def kept(self, images: int) -> bool:
        """Whether the network is, after a look at so many images."""
        return self.by_network >= self.by_pixels - LEAST_LOSS * math.sqrt(TRIED_ON / images)


def held_back(recipe: Recipe, points: Tensor) -> tuple[Tensor, Tensor]:
    """Points to train on, and those that the network is tried on: none where none is scored by."""
    judged = (
        recipe.score is not None
        and recipe.score.of == "network"
        and points.dim() == 4
        and min(points.shape[2:]) >= LEAST_CUT
    )
    count = min(TRIED_ON, len(points) // 10) if judged else 0
    return points[: len(points) - count], points[len(points) - count :]


def scored(
    recipe: Recipe, energy: nn.Module, points: Tensor, held: Tensor, seed: int
) -> tuple[nn.Module, Worth | None]:
    """What to score by, after ``energy`` was trained on ``points``; and its worth if that is known.

    A network that is worth less than the pixels is not used, with a warning.
    """
    if recipe.score is None or not len(held):
        return recipe.scored_by(energy, points, seed), None
    worth, rule = worth_of(recipe.score, energy, points, held, seed), recipe.score
    if not worth.kept(len(held)):
        rule = IN_PIXELS
        warnings.warn(
            f"the network is discarded, and pixels score instead: of images that were changed it "
            f"finds {worth.by_network:.0%} at a false-alarm rate of {FALSE_ALARMS:.0%}, pixels "
            f"{worth.by_pixels:.0%}; the model holds images as they are; train longer, or on more",
            stacklevel=3,
        )
    return rule.over(energy, torch.cat([points, held]), seed), worth


def worth_of(
    rule: FeatureRule, network: nn.Module, points: Tensor, held: Tensor, seed: int
) -> Worth:
    """Of a network that was trained on ``points``, images in [−1, 1], and not on ``held``."""
    # Images of floats may fill a part of [−1, 1] only: changed ones stay in that part.
    low, high = (edge.item() for edge in points.aminmax())
    middle, half = (low + high) / 2, max((high - low) / 2, 1e-6)
    spread = proxies((held - middle) / half, seed)
    changed = {name: images * half + middle for name, images in spread.items()}
    alone = replace(rule, beside=None)  # what is beside it sees even where training saw nothing
    return Worth(
        _found(alone.over(network, points, seed), held, changed),
        _found(IN_PIXELS.over(network, points, seed), held, changed),
    )


@torch.no_grad()
def _found(energy: nn.Module, held: Tensor, changed: dict[str, Tensor]) -> float:
    usual = _energies(energy, held).quantile(1 - FALSE_ALARMS)
    found = [(_energies(energy, images) > usual).double().mean() for images in changed.values()]
    return torch.stack(found).mean().item()


def _energies(energy: nn.Module, images: Tensor) -> Tensor:
    return torch.cat([energy(part) for part in images.split(250)])
