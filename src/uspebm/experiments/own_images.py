"""Own images: what a person with a folder gets, on four sets with kinds left out.

``EnergyDetector()`` with no setting but a budget of minutes, beside the nearest training image and
the PCA residual in pixels, fitted to the same images: Fashion-MNIST without shoes and bags, MNIST
without 4 and 9, drawn colour shapes of 64 × 64 without rings, and scikit-learn's 8 × 8 digits
without one class. None of the five OOD sets of Table 1 is opened.

Presets (two cores):
    PAPER  as FAST: the paper has no such experiment.
    FAST   ten minutes for each set that trains a network.
    SMOKE  seconds.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.datasets import load_digits
from torch import Tensor

from ..data import image_sets
from ..detector.energy_detector import EnergyDetector
from ..evaluation.metrics import Detection, detection
from ..support.progress import console
from ..support.randomness import generator
from .baselines import nearest_neighbour, pca_reconstruction
from .claims import Claim, claim, save_results

SHOES_AND_BAGS = (5, 7, 8, 9)
SHAPES = ("disk", "square", "triangle", "cross", "ring")
LEFT_OUT_SHAPE = "ring"
DIRECTIONS_KEPT = 60


class KindsLeftOut(NamedTuple):
    """Images in [−1, 1]: to learn from, new ones of the same kinds, and of kinds left out."""

    train: Tensor
    inside: Tensor
    outside: Tensor


@dataclass(frozen=True)
class OwnImagesSettings:
    """How long each set may train, and of how many images."""

    minutes: float | None
    images: int | None = None
    """Of each part, at most; None: all."""
    max_updates: int | None = None


FAST = OwnImagesSettings(minutes=10.0)
PAPER = FAST
SMOKE = OwnImagesSettings(minutes=None, images=120, max_updates=3)


def run(out: Path, config: OwnImagesSettings, seeds: int) -> list[Claim]:
    """Fit ours and the two baselines to each set, and compare."""
    claims: list[Claim] = []
    figures: dict[str, dict[str, list[dict[str, float]]]] = {}
    for name, make in SETS.items():
        found: dict[str, list[Detection]] = {}
        for seed in range(seeds):
            sets = KindsLeftOut(*(part[: config.images] for part in make(seed)))
            folder = out / "runs" / f"{name.replace(' ', '-')}-{seed}"
            for who, scores in _scored(sets, config, folder, seed).items():
                found.setdefault(who, []).append(detection(*scores))
        figures[name] = {who: [d._asdict() for d in ds] for who, ds in found.items()}
        claims.append(_claim(name, found))
        console.print(f"{name}: {claims[-1].measured:.4f} against {claims[-1].paper}")
    save_results(out / "results.json", claims, figures=figures, config=asdict(config))
    return claims


def _scored(
    sets: KindsLeftOut, config: OwnImagesSettings, folder: Path, seed: int
) -> dict[str, tuple[ArrayLike, ArrayLike]]:
    detector = EnergyDetector(random_state=seed, max_updates=config.max_updates, verbose=True)
    detector.fit(sets.train.movedim(1, -1), folder=folder, minutes=config.minutes)
    console.print(detector.verdict(), soft_wrap=True)

    def ours(x: Tensor) -> ArrayLike:
        return detector.score_samples(x.movedim(1, -1))

    directions = min(DIRECTIONS_KEPT, len(sets.train) - 1, sets.train[0].numel() - 1)
    nearest = nearest_neighbour(sets.train)
    residual = pca_reconstruction(sets.train, seed, directions=directions)
    return {
        "ours": (ours(sets.inside), ours(sets.outside)),
        "nearest": (nearest(sets.inside), nearest(sets.outside)),
        "PCA": (residual(sets.inside), residual(sets.outside)),
    }


def _claim(name: str, found: dict[str, list[Detection]]) -> Claim:
    """AUROC, at least that of the better baseline."""
    means = {who: float(np.mean([d.auroc for d in ds])) for who, ds in found.items()}
    best = max(means["nearest"], means["PCA"])
    said = f"nearest {means['nearest']:.4f}, PCA {means['PCA']:.4f}"
    return claim(f"{name}: AUROC", said, [d.auroc for d in found["ours"]], lambda v: v >= best)


def _without(key: str, left_out: tuple[int, ...], seed: int) -> KindsLeftOut:
    """Of an image set's training images; a twelfth is held back to test on."""
    images = image_sets.scaled(image_sets.image_set(f"{key}/train"))
    labels = image_sets.image_set(f"{key}/train-labels")
    unknown = torch.isin(labels, torch.tensor(left_out))
    order = torch.randperm(len(images), generator=generator(seed, "kinds"))
    known = images[order[~unknown[order]]]
    new = len(known) // 12
    return KindsLeftOut(known[new:], known[:new], images[order[unknown[order]]][:new])


def fashion_without_shoes_and_bags(seed: int) -> KindsLeftOut:
    """Tops, trousers, dresses and coats to learn from."""
    return _without("fashion-mnist", SHOES_AND_BAGS, seed)


def mnist_without_4_and_9(seed: int) -> KindsLeftOut:
    """Two digits that look like others, and like each other."""
    return _without("mnist", (4, 9), seed)


def shapes_without_rings(seed: int, count: int = 3000, side: int = 64) -> KindsLeftOut:
    """Shapes of any colour, size and place on backgrounds of another, with a little noise."""
    draws = generator(seed, "shapes")
    kinds = [k for k in range(len(SHAPES)) if SHAPES[k] != LEFT_OUT_SHAPE]
    kind = torch.tensor(kinds)[torch.randint(len(kinds), (count + 500,), generator=draws)]
    ring = torch.full((500,), SHAPES.index(LEFT_OUT_SHAPE))
    drawn = draw_shapes(torch.cat([kind, ring]), side, draws)
    return KindsLeftOut(drawn[:count], drawn[count : count + 500], drawn[count + 500 :])


def draw_shapes(kind: Tensor, side: int, draws: torch.Generator) -> Tensor:
    """An image ``(3, side, side)`` of each kind, by its number in :data:`SHAPES`."""
    n = len(kind)
    axis = torch.linspace(-1, 1, side)
    y, x = torch.meshgrid(axis, axis, indexing="ij")
    centre = 0.8 * torch.rand(n, 2, 1, 1, generator=draws) - 0.4
    size = 0.3 + 0.3 * torch.rand(n, 1, 1, generator=draws)
    u, v = (x - centre[:, 0]) / size, (y - centre[:, 1]) / size
    radius = (u.square() + v.square()).sqrt()
    masks = {
        "disk": radius < 1,
        "square": torch.maximum(u.abs(), v.abs()) < 0.85,
        "triangle": (v < 0.7) & (v > 2 * u.abs() - 0.9),
        "cross": ((u.abs() < 0.3) | (v.abs() < 0.3)) & (torch.maximum(u.abs(), v.abs()) < 1),
        "ring": (radius < 1) & (radius > 0.6),
    }
    mask = torch.stack([masks[name] for name in SHAPES])[kind, torch.arange(n)].unsqueeze(1)
    paint, ground = (2 * torch.rand(2, n, 3, 1, 1, generator=draws) - 1).unbind()
    noise = 0.05 * torch.randn(n, 3, side, side, generator=draws)
    return (torch.where(mask, paint, ground) + noise).clamp(-1.0, 1.0)


def digits_without_one(seed: int) -> KindsLeftOut:
    """1,600 images or so of 8 × 8, and the class of the seed's number left out."""
    digits = load_digits()
    images = torch.from_numpy(digits.images).float().unsqueeze(1) / 8 - 1
    unknown = torch.from_numpy(digits.target == seed % 10)
    order = torch.randperm(len(images), generator=generator(seed, "kinds"))
    known = images[order[~unknown[order]]]
    new = len(known) // 10
    return KindsLeftOut(known[new:], known[:new], images[unknown])


SETS: dict[str, Callable[[int], KindsLeftOut]] = {
    "digits without one": digits_without_one,
    "shapes without rings": shapes_without_rings,
    "MNIST without 4 and 9": mnist_without_4_and_9,
    "Fashion-MNIST without shoes and bags": fashion_without_shoes_and_bags,
}
