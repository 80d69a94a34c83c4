"""Kinds left out of training, and detected: the judge that has to be trained.

Changed images (:mod:`uspebm.evaluation.proxies`) and unseen kinds mislead each by itself: on unseen
kinds a network with random weights looks as good as a trained one, on changed images distances in
pixels look hopeless and are not. So whatever is decided is decided on both, beside those controls.

Nothing of a kind left out is trained on: all of its images are judged, and told from all images of
the other kinds that were held out, since a few hundred of each leave points of FPR95 to chance.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..energies.features import FeatureRule
from ..evaluation.metrics import Detection, detection
from ..evaluation.proxies import proxies
from ..recipes import Recipe, train
from .baselines import nearest_neighbour, pca_reconstruction
from .image_models import Method, energy_scores, last_quarter
from .image_problem import ImageProblem, ImageSplit

GROUPS: Mapping[str, tuple[str, ...]] = {
    "shoes-and-bags": ("sandal", "sneaker", "bag", "boot"),
    "tops": ("t-shirt", "pullover", "coat", "shirt"),
}
"""Of Fashion-MNIST's classes, some that are alike."""
PRINCIPAL = 60
"""Directions whose residual counts."""


ScoreMakers = Mapping[str, Callable[[], Callable[[Tensor], Any]]]
"""From images to scores, each made when its turn comes: some hold much memory."""


class Findings(NamedTuple):
    """What one score finds: unseen kinds, and changed images, by name."""

    kinds: dict[str, Detection]
    changed: dict[str, Detection]

    def mean_fpr95(self) -> tuple[float, float]:
        """Over the kinds, and over the changed images, in per cent."""
        found = (self.kinds, self.changed)
        kinds, changed = (100 * fmean(d.fpr95 for d in part.values()) for part in found)
        return kinds, changed


class LeftOut(NamedTuple):
    """What is found of kinds that were left out."""

    scores: dict[str, Findings]
    span: float
    """Between the best and the worst mean FPR95 on the kinds, by the recipe's own score, of the
    snapshots in the last quarter of the training; in points of per cent."""


def kinds_in(inside: ImageProblem, name: str) -> tuple[str, ...]:
    """The classes that ``name`` means: those of a group, or one; an error where there is none."""
    kinds = GROUPS.get(name, (name,))
    for kind in kinds:
        inside.class_number(kind)
    return kinds


def judged_without(
    inside: ImageProblem,
    name: str,
    method: Method,
    out: Path,
    updates: int | None = None,
    seed: int = 0,
) -> LeftOut:
    """A model of the other classes, by its features and its energy, and what needs no training.

    ``updates``: instead of the method's. A run that was interrupted is gone on with.
    """
    known, unknown = without(inside, kinds_in(inside, name))
    recipe = method.given(known.train)
    if updates is not None:
        recipe = replace(recipe, schedule=replace(recipe.schedule, updates=updates))
    run = train(recipe, known.train, out / f"without-{name}-{seed}", seed)
    trained = trained_scores(recipe, run.energy, known.train, seed)
    scores = {**trained, **controls(recipe, known.train, seed)}
    snapshots = (recipe.scored_by(energy, known.train, seed) for energy in last_quarter(run))
    late = [kinds_found(partial(energy_scores, one), known, unknown) for one in snapshots]
    rates = [100 * fmean(d.fpr95 for d in found.values()) for found in late]
    found = {scorer: judged_by(make(), known, unknown) for scorer, make in scores.items()}
    return LeftOut(found, max(rates) - min(rates))


def judged_by(
    score: Callable[[Tensor], Any], known: ImageSplit, unknown: Mapping[str, Tensor]
) -> Findings:
    """What a score finds of unseen kinds, and of changed images of the known ones."""
    changed = proxies(known.for_proxies)
    return Findings(kinds_found(score, known, unknown), _told_apart(score, known.held_out, changed))


def kinds_found(
    score: Callable[[Tensor], Any], known: ImageSplit, unknown: Mapping[str, Tensor]
) -> dict[str, Detection]:
    """Each of the kinds, told from all images of the known ones that were held out of training."""
    return _told_apart(score, torch.cat([known.held_out, known.for_proxies]), unknown)


def _told_apart(
    score: Callable[[Tensor], Any], inside: Tensor, sets: Mapping[str, Tensor]
) -> dict[str, Detection]:
    usual = score(inside)
    return {name: detection(usual, score(images)) for name, images in sets.items()}


def trained_scores(recipe: Recipe, energy: Any, images: Tensor, seed: int = 0) -> ScoreMakers:
    """By the features of a network that was trained on ``images``, and by its energy."""
    return {
        "features": lambda: _by_features(recipe, energy, images, seed),
        "energy": lambda: partial(energy_scores, energy),
    }


def controls(recipe: Recipe, images: Tensor, seed: int = 0) -> ScoreMakers:
    """What needs no training: whatever it finds too is not what training is worth."""
    return {
        "random features": lambda: _by_features(
            recipe, recipe.energy.build(images[:1], seed + 1), images, seed
        ),
        "nearest neighbour": lambda: nearest_neighbour(images),
        "PCA residual": lambda: pca_reconstruction(images, directions=PRINCIPAL),
    }


def _by_features(
    recipe: Recipe, network: Any, images: Tensor, seed: int
) -> Callable[[Tensor], Any]:
    rule = recipe.score or FeatureRule()
    return partial(energy_scores, rule.over(network, images, seed).eval())


def without(inside: ImageProblem, kinds: tuple[str, ...]) -> tuple[ImageSplit, dict[str, Tensor]]:
    """The split without some classes, and all of their images."""
    numbers, labels = [inside.class_number(kind) for kind in kinds], inside.split_labels()
    if labels is None:
        raise ValueError(f"nobody knows the classes of {inside.name}")
    parts = list(zip(inside.split(), labels, strict=True))
    left_out = torch.tensor(numbers)
    known = ImageSplit(*(images[~torch.isin(part, left_out)] for images, part in parts))
    unseen = {
        kind: torch.cat([images[part == number] for images, part in parts])
        for kind, number in zip(kinds, numbers, strict=True)
    }
    return known, unseen
