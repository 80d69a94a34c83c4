"""A class left out of training, and detected: the proxy that has to be trained.

Other proxies are changed images (:mod:`uspebm.evaluation.proxies`), and any model can be judged on
them. An image of an unseen class is unchanged and clean, as those of a foreign set are; but only a
model that never saw the class can be judged by it.
"""

from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from ..evaluation.metrics import Detection, detection
from ..recipes import train
from .baselines import nearest_neighbour
from .image_models import Method, energy_scores
from .image_problem import ImageProblem, ImageSplit


def detected(
    inside: ImageProblem, kind: str, method: Method, out: Path, updates: int | None = None
) -> dict[str, Detection]:
    """How well a model of the other classes detects ``kind``, and how well distance does.

    ``updates``: instead of the method's. A run that was interrupted is gone on with.
    """
    known, unknown = without(inside, kind)
    recipe = method.given(known.train)
    if updates is not None:
        recipe = replace(recipe, schedule=replace(recipe.schedule, updates=updates))
    energy = train(recipe, known.train, out / f"without-{kind}-0", seed=0).energy
    nearest = nearest_neighbour(known.train)
    return {
        "energy": detection(energy_scores(energy, known.held_out), energy_scores(energy, unknown)),
        "nearest neighbour": detection(nearest(known.held_out), nearest(unknown)),
    }


def without(inside: ImageProblem, kind: str) -> tuple[ImageSplit, Tensor]:
    """The split without a class, and that class's images of the parts that none trains on."""
    wanted, labels = inside.class_number(kind), inside.split_labels()
    if labels is None:
        raise ValueError(f"nobody knows the classes of {inside.name}")
    parts = [(images, part == wanted) for images, part in zip(inside.split(), labels, strict=True)]
    known = ImageSplit(*(images[~left_out] for images, left_out in parts))
    return known, torch.cat([images[left_out] for images, left_out in parts[1:]])
