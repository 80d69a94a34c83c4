"""A class of Fashion-MNIST left out of training, and detected: the proxy that has to be trained.

Other proxies are changed images (:mod:`uspebm.proxies`), and any model can be judged on them. An
image of an unseen class is unchanged and clean, as those of a foreign set are; but only a model
that never saw the class can be judged by it.
"""

from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from ..metrics import Detection, detection
from .baselines import nearest_neighbour
from .fashion import Method, Split, energy_of, labels, scores, snapshots, split, train

CLASSES = (
    "t-shirt",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "boot",
)
"""Of Fashion-MNIST, by number."""


def number(kind: str) -> int:
    """Of a class, by name."""
    if kind not in CLASSES:
        raise ValueError(f"there is no class {kind!r}, but {', '.join(CLASSES)}")
    return CLASSES.index(kind)


def detected(
    kind: str, method: Method, updates: int, out: Path, seed: int = 0
) -> dict[str, Detection]:
    """How well a model of the nine other classes detects ``kind``, and how well distance does.

    A run that was interrupted is gone on with.
    """
    known, unknown = without(kind)
    method = replace(method, recipe=replace(method.recipe, steps=updates))
    train(f"without-{kind}", method, known.train, out, seed)
    energy = energy_of(snapshots(out, f"without-{kind}", method, seed)[-1])
    nearest = nearest_neighbour(known.train)
    return {
        "energy": detection(scores(energy, known.held_out), scores(energy, unknown)),
        "nearest neighbour": detection(nearest(known.held_out), nearest(unknown)),
    }


def without(kind: str) -> tuple[Split, Tensor]:
    """The split without a class, and that class's images of the parts that none trains on."""
    wanted = number(kind)
    parts = [(images, part == wanted) for images, part in zip(split(), labels(), strict=True)]
    known = Split(*(images[~left_out] for images, left_out in parts))
    return known, torch.cat([images[left_out] for images, left_out in parts[1:]])
