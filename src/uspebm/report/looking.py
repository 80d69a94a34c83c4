"""A look at the data with the model just fitted to them: what is least like the rest, and why.

What is found is plain, to be kept as evidence: texts, numbers and small pictures.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..data.points import points
from ..detector.energy_detector import EnergyDetector
from ..evaluation.proxies import proxies
from ..recipes.frames import read_frames
from .curves import thinned
from .diagnoses import diagnosed
from .evidence import quantiles
from .images import png
from .listing import MOST_LISTED, image_bytes, listed, scored_again
from .run_files import is_run, read_run

LOOKED_AT = 5000
"""Rows that are scored, at most, drawn at random."""
MIXED_ROWS = 500
PROXIED = 150
NEAREST_AMONG = 10_000
POINTS_SHOWN = 16
FEWEST_PIXELS = 4
"""Pixels of images that can be changed in all the ways that stand in for outliers."""


def looked_at(
    detector: EnergyDetector,
    X: NDArray[Any],
    training: Path,
    seed: int,
    names: Sequence[str] = (),
) -> dict[str, Any]:
    """What a page on the model shows beside the model itself.

    ``names``: of the files that images come from, if they do.
    """
    draws = np.random.default_rng(seed)
    chosen = np.sort(draws.permutation(len(X))[:LOOKED_AT])
    scores = scored_again(detector, X[chosen])
    order = np.argsort(scores, kind="stable")
    images = X.ndim > 2
    ends = {"least": chosen[order[:MOST_LISTED]]}
    if images:
        ends["most"] = chosen[order[::-1][:MOST_LISTED]]
    found: dict[str, Any] = {
        "rows": len(X),
        "scored": len(chosen),
        **{
            end: [one._asdict() for one in listed(detector, X[at], at, X, names)]
            for end, at in ends.items()
        },
        "stand_ins": _stand_ins(detector, X[chosen], draws),
    }
    return found | _trained(X, training)


def _stand_ins(
    detector: EnergyDetector, X: NDArray[Any], draws: np.random.Generator
) -> dict[str, list[float]]:
    """Scores of made-up outliers: rows mixed of others, or images that were changed."""
    if X.ndim == 2:
        columns = detector.columns().parts
        if len(columns) < 2:
            return {}
        mixed = np.empty((min(MIXED_ROWS, len(X)), X.shape[1]))
        for _, own in columns:
            mixed[:, own] = X[draws.integers(len(X), size=len(mixed))][:, own]
        mixed = mixed[~np.isnan(mixed).all(1)]
        return {
            "rows whose columns come from different rows": quantiles(scored_again(detector, mixed))
        }
    images = points(X[draws.permutation(len(X))[:PROXIED]]).float()
    if min(images.shape[2:]) < FEWEST_PIXELS:
        return {}
    low, high = (edge.item() for edge in images.aminmax())
    middle, half = (low + high) / 2, max((high - low) / 2, 1e-6)
    return {
        name: quantiles(scored_again(detector, (changed * half + middle).movedim(1, -1).numpy()))
        for name, changed in proxies((images - middle) / half).items()
    }


def _trained(X: NDArray[Any], training: Path) -> dict[str, Any]:
    """The log of the training, if there was one, and its points beside the nearest images."""
    if not is_run(training):
        return {}
    run = read_run(training)
    found: dict[str, Any] = {
        "log": thinned(run.rows),
        "updates": len(run.rows),
        "moments": [list(moment) for moment in diagnosed(run.rows)],
    }
    frames = read_frames(training / "frames")
    if (
        frames
        and frames[-1].points.ndim == 4
        and frames[-1].points.dtype == np.uint8
        and X.ndim > 2
    ):
        found["pairs"] = _pairs(frames[-1].points, X[:NEAREST_AMONG])
        found["pairs_after"] = frames[-1].step
    return found


def _pairs(particles: NDArray[np.uint8], X: NDArray[Any]) -> list[list[str]]:
    """Partition points, each beside the nearest of the images, as pictures."""
    step = max(1, len(particles) // POINTS_SHOWN)
    some, images = particles[::step][:POINTS_SHOWN], image_bytes(X)
    apart = torch.cdist(_flat(some), _flat(images))
    nearest = apart.argmin(1).tolist()
    return [[png(image), png(images[k])] for image, k in zip(some, nearest, strict=True)]


def _flat(images: NDArray[np.uint8]) -> torch.Tensor:
    return torch.from_numpy(images.reshape(len(images), -1).astype(np.float32))
