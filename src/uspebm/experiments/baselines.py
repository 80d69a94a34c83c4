"""Detectors that a user would try before an energy-based model, on flattened images.

Each is fitted to the training images alone and returns a score, higher for points like them. All
take a seed, also those that leave nothing to chance. What they find is kept in files: some of them
take minutes.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.ensemble import IsolationForest
from sklearn.mixture import GaussianMixture
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from ..evaluation.metrics import Detection
from ..recipes.plain import fingerprint
from ..support.files import whole_file
from ..support.progress import console
from ..support.randomness import generator, global_seed
from .image_problem import OpenedSets
from .ood_table import judged

Array = NDArray[np.floating]
Score = Callable[[Tensor], Array]


def nearest_neighbour(images: Tensor, seed: int = 0, *, k: int = 1) -> Score:
    """Minus the distance to the k-th nearest training image, in pixels."""
    known = images.flatten(1)

    def score(x: Tensor) -> Array:
        parts = [
            torch.cdist(part, known).kthvalue(k, dim=1).values for part in x.flatten(1).split(250)
        ]
        return -_array(torch.cat(parts))

    return score


def pca_reconstruction(images: Tensor, seed: int = 0, *, directions: int) -> Score:
    """Minus the distance to the span of the principal directions."""
    pca = _principal(images, seed, directions)

    def score(x: Tensor) -> Array:
        flat = _array(x)
        gap = flat - pca.inverse_transform(pca.transform(flat))
        return np.asarray(-np.linalg.norm(gap, axis=1))

    return score


def gaussian_mixture(
    images: Tensor, seed: int = 0, *, directions: int, components: int = 10
) -> Score:
    """Log-density of a few Gaussians on the principal directions."""
    pca = _principal(images, seed, directions)
    mixture = GaussianMixture(components, random_state=seed, reg_covar=1e-3)
    mixture.fit(pca.transform(_array(images)))
    return lambda x: np.asarray(mixture.score_samples(pca.transform(_array(x))))


def _principal(images: Tensor, seed: int, directions: int) -> PCA:
    """As many directions, or all that there are."""
    flat = _array(images)
    return PCA(min(directions, *flat.shape), random_state=seed).fit(flat)


def isolation_forest(images: Tensor, seed: int = 0) -> Score:
    """scikit-learn's isolation forest, as it comes."""
    forest = IsolationForest(random_state=seed).fit(_array(images))
    return lambda x: np.asarray(forest.score_samples(_array(x)))


class Autoencoder(nn.Module):
    """A small convolutional autoencoder with 32 numbers in the middle."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        channels, height, width = shape
        small = (32, math.ceil(height / 4), math.ceil(width / 4))
        self.net = nn.Sequential(
            nn.Conv2d(channels, 16, 4, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(16, 32, 4, stride=2, padding=1), nn.ReLU(),
            nn.Flatten(), nn.Linear(32 * (height // 4) * (width // 4), 32),
            nn.Linear(32, math.prod(small)), nn.ReLU(), nn.Unflatten(1, small),
            nn.ConvTranspose2d(32, 16, 4, stride=2, padding=1), nn.ReLU(),
            nn.ConvTranspose2d(16, channels, 4, stride=2, padding=1), nn.Tanh(),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.net(x)
        return output[..., : x.shape[-2], : x.shape[-1]]


def autoencoder(images: Tensor, seed: int = 0, *, steps: int) -> Score:
    """Minus the reconstruction error of a small autoencoder, Adam 1e-3, batches of 128."""
    with global_seed(seed):
        net = Autoencoder(tuple(images.shape[1:]))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for step in range(steps):
        batch = images[torch.randint(len(images), (128,), generator=generator(seed, "ae", step))]
        optimizer.zero_grad()
        mse_loss(net(batch), batch).backward()
        optimizer.step()

    def score(x: Tensor) -> Array:
        with torch.no_grad():
            parts = [(net(p) - p).flatten(1).norm(dim=1) for p in x.split(1000)]
        return -_array(torch.cat(parts))

    return score


def _array(x: Tensor) -> Array:
    flat: Array = (x.flatten(1) if x.dim() > 1 else x).numpy()
    return flat


@dataclass(frozen=True)
class Baseline:
    """A detector that a user would try first."""

    make: Callable[..., Score]
    """Of training images, a seed, and the settings."""
    settings: Mapping[str, int] = field(default_factory=dict)
    by_chance: bool = True
    """Whether seeds matter."""

    def seeds(self, wanted: int) -> range:
        """Those to fit."""
        return range(wanted if self.by_chance else 1)


PCA_DIRECTIONS = 60
"""They hold nine tenths of Fashion-MNIST's variance."""
NEAREST = "nearest neighbour"
BASELINES = {
    NEAREST: Baseline(nearest_neighbour, {"k": 1}, by_chance=False),
    "10 nearest neighbours": Baseline(nearest_neighbour, {"k": 10}, by_chance=False),
    "PCA reconstruction": Baseline(
        pca_reconstruction, {"directions": PCA_DIRECTIONS}, by_chance=False
    ),
    "Gaussian mixture on PCA": Baseline(
        gaussian_mixture, {"directions": PCA_DIRECTIONS, "components": 10}
    ),
    "isolation forest": Baseline(isolation_forest),
    "autoencoder": Baseline(autoencoder, {"steps": 4000}),
}


def kept_detections(
    path: Path, baseline: Baseline, seed: int, train: Tensor, sets: OpenedSets
) -> dict[str, Detection]:
    """What a baseline finds; from ``path`` where that has it, until settings or images change."""
    settings = {
        **baseline.settings,
        "train": fingerprint(train),
        "images": fingerprint(sets.inside),
    }
    kept = json.loads(path.read_text()) if path.exists() else {}
    if kept.get("settings") != settings:
        console.print(f"{path.stem} ...")
        found = judged(baseline.make(train, seed, **baseline.settings), sets)
        kept = {"settings": settings, "found": {k: d._asdict() for k, d in found.items()}}
        with whole_file(path) as file:
            file.write(json.dumps(kept).encode())
    return {k: Detection(**d) for k, d in kept["found"].items()}
