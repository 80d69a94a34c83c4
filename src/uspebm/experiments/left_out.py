"""Kinds left out of training, and detected: the judge that has to be trained.

Changed images (:mod:`uspebm.evaluation.proxies`) and unseen kinds mislead each by itself: on unseen
kinds a network with random weights looks as good as a trained one, on changed images distances in
pixels look hopeless and are not. So whatever is decided is decided on both, beside those controls.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..energies.features import FeatureRule
from ..evaluation.metrics import Detection, detection
from ..evaluation.proxies import proxies
from ..recipes import Recipe, train
from .baselines import nearest_neighbour, pca_reconstruction
from .image_models import Method, energy_scores
from .image_problem import ImageProblem, ImageSplit

GROUPS: Mapping[str, tuple[str, ...]] = {
    "shoes-and-bags": ("sandal", "sneaker", "bag", "boot"),
    "tops": ("t-shirt", "pullover", "coat", "shirt"),
}
"""Of Fashion-MNIST's classes, some that are alike."""
PRINCIPAL = 60
"""Directions whose residual counts."""


class Findings(NamedTuple):
    """What one score finds: unseen kinds, and changed images, by name."""

    kinds: dict[str, Detection]
    changed: dict[str, Detection]


def kinds_in(inside: ImageProblem, name: str) -> tuple[str, ...]:
    """The classes that ``name`` means: those of a group, or one; an error where there is none."""
    kinds = GROUPS.get(name, (name,))
    for kind in kinds:
        inside.class_number(kind)
    return kinds


def judged_without(
    inside: ImageProblem, name: str, method: Method, out: Path, updates: int | None = None
) -> dict[str, Findings]:
    """A model of the other classes, by its features and its energy, and what needs no training.

    ``updates``: instead of the method's. A run that was interrupted is gone on with.
    """
    known, unknown = without(inside, kinds_in(inside, name))
    recipe = method.given(known.train)
    if updates is not None:
        recipe = replace(recipe, schedule=replace(recipe.schedule, updates=updates))
    energy = train(recipe, known.train, out / f"without-{name}-0", seed=0).energy
    scores = _scores(recipe, energy, known.train)
    changed = proxies(known.for_proxies)
    found = {}
    for scorer, make in scores.items():
        score = make()
        usual = score(known.held_out)
        against = partial(_against, score, usual)
        found[scorer] = Findings(against(unknown), against(changed))
    return found


def _against(
    score: Callable[[Tensor], Any], usual: Any, sets: Mapping[str, Tensor]
) -> dict[str, Detection]:
    return {name: detection(usual, score(images)) for name, images in sets.items()}


def _scores(
    recipe: Recipe, energy: Any, train_images: Tensor
) -> dict[str, Callable[[], Callable[[Tensor], Any]]]:
    """Each made when its turn comes: some hold much memory."""
    rule = recipe.score or FeatureRule()

    def features(network: Any) -> Callable[[Tensor], Any]:
        return partial(energy_scores, rule.over(network, train_images, 0).eval())

    return {
        "features": lambda: features(energy),
        "energy": lambda: partial(energy_scores, energy),
        "random features": lambda: features(recipe.energy.build(train_images[:1], seed=1)),
        "nearest neighbour": lambda: nearest_neighbour(train_images),
        "PCA residual": lambda: pca_reconstruction(train_images, directions=PRINCIPAL),
    }


def without(inside: ImageProblem, kinds: tuple[str, ...]) -> tuple[ImageSplit, dict[str, Tensor]]:
    """The split without some classes, and their images of the parts that none trains on."""
    numbers, labels = [inside.class_number(kind) for kind in kinds], inside.split_labels()
    if labels is None:
        raise ValueError(f"nobody knows the classes of {inside.name}")
    parts = list(zip(inside.split(), labels, strict=True))
    left_out = torch.tensor(numbers)
    known = ImageSplit(*(images[~torch.isin(part, left_out)] for images, part in parts))
    unseen = {
        kind: torch.cat([images[part == number] for images, part in parts[1:]])
        for kind, number in zip(kinds, numbers, strict=True)
    }
    return known, unseen
