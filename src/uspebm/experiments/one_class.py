"""One class inside at a time: the protocol of one-class papers, on Fashion-MNIST and on MNIST.

``EnergyDetector()`` learns the training images of one class, and tells the test images of that
class from those of the nine others; beside it the nearest training image in pixels, and the same
score over a network with random weights. What counts is the mean AUROC over ten classes. Every
class that is done is kept in a file: the command goes on.

Presets (one thread):
    PAPER  the recipe's own 2,400 updates, or what fits in ten minutes per class; twenty classes
           take close to three hours. The paper has no such experiment.
    FAST   a quarter of the updates: two to three minutes per class.
    SMOKE  seconds.
"""

import json
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from operator import le
from pathlib import Path

from numpy.typing import ArrayLike
from torch import Tensor

from ..detector.energy_detector import EnergyDetector
from ..evaluation.metrics import detection
from ..recipes.images import image_recipe
from ..recipes.plain import as_plain
from ..support.files import whole_file
from ..support.progress import console
from .baselines import nearest_neighbour
from .claims import Claim, claim, save_results
from .image_models import energy_scores
from .image_problem import FASHION_MNIST, MNIST, ImageProblem

AIMS = {FASHION_MNIST.name: 0.945, MNIST.name: 0.975}
"""Mean AUROC; the nearest training image has 0.921 and 0.954."""
CALIBRATION = 0.05
"""Of a class's images: nothing here depends on the threshold."""
WHO = ("ours", "nearest", "random features")


@dataclass(frozen=True)
class OneClassSettings:
    """How long each class may train, on how many images, and which classes."""

    minutes: float | None
    images: int | None = None
    """Of each part, at most; None: all."""
    max_updates: int | None = None
    classes: int = 10
    """From the first on."""


PAPER = OneClassSettings(minutes=10.0)
FAST = OneClassSettings(minutes=None, max_updates=600)
SMOKE = OneClassSettings(minutes=None, images=600, max_updates=2, classes=2)


def run(out: Path, config: OneClassSettings, seeds: int) -> list[Claim]:
    """Fit ours and the controls to each class, and compare."""
    claims: list[Claim] = []
    found: dict[str, dict[str, dict[str, list[float]]]] = {}
    for inside in (FASHION_MNIST, MNIST):
        by_class = {
            kind: [_kept(out, config, inside, kind, seed) for seed in range(seeds)]
            for kind in inside.classes[: config.classes]
        }
        found[inside.name] = {
            kind: {who: [one[who] for one in ones] for who in WHO}
            for kind, ones in by_class.items()
        }
        means = {
            who: [
                statistics.fmean(ones[s][who] for ones in by_class.values()) for s in range(seeds)
            ]
            for who in WHO
        }
        theirs = ", ".join(f"{who} {statistics.fmean(means[who]):.4f}" for who in WHO[1:])
        what = f"{inside.name}: mean AUROC over classes (our aim: {AIMS[inside.name]})"
        claims.append(claim(what, theirs, means["ours"], partial(le, AIMS[inside.name])))
    save_results(out / "results.json", claims, auroc=found, config=asdict(config))
    return claims


def _kept(
    out: Path, config: OneClassSettings, inside: ImageProblem, kind: str, seed: int
) -> dict[str, float]:
    """AUROC of each score on one class, from its file where that is there."""
    name = f"{inside.name.lower()}-{kind}-{seed}"
    path = out / "classes" / f"{name}.json"
    known, same, other = _parts(inside, kind, config.images)
    made_by = {"config": asdict(config), "score": as_plain(image_recipe(known).score)}
    if path.exists():
        kept = json.loads(path.read_text())
        if all(kept.get(part) == value for part, value in made_by.items()):
            return dict(kept["auroc"])
    auroc = {
        who: detection(score(same), score(other)).auroc
        for who, score in _scores(known, config, out / "runs" / name, seed).items()
    }
    console.print(f"{name}: " + ", ".join(f"{who} {value:.4f}" for who, value in auroc.items()))
    with whole_file(path) as file:
        file.write(json.dumps({**made_by, "auroc": auroc}).encode())
    return auroc


def _parts(inside: ImageProblem, kind: str, images: int | None) -> tuple[Tensor, Tensor, Tensor]:
    """Training images of a class, its test images, and those of all others."""
    if inside.labels is None or inside.test_labels is None:
        raise ValueError(f"nobody knows the classes of {inside.name}")
    number, test = inside.class_number(kind), inside.test()
    is_one, is_known = inside.test_labels() == number, inside.labels() == number
    return inside.train()[is_known][:images], test[is_one][:images], test[~is_one][:images]


def _scores(
    known: Tensor, config: OneClassSettings, folder: Path, seed: int
) -> dict[str, Callable[[Tensor], ArrayLike]]:
    detector = EnergyDetector(
        random_state=seed, max_updates=config.max_updates, calibration=CALIBRATION, verbose=True
    )
    detector.fit(known.movedim(1, -1), folder=folder, minutes=config.minutes)
    console.print(detector.verdict(), soft_wrap=True)
    recipe = image_recipe(known)
    untrained = recipe.energy.build(known[:1], seed=seed)
    return {
        "ours": lambda x: detector.score_samples(x.movedim(1, -1)),
        "nearest": nearest_neighbour(known),
        "random features": partial(energy_scores, recipe.scored_by(untrained, known, seed)),
    }
