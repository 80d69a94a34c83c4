"""Detectors that a user would try before an energy-based model, on flattened images.

Each is fitted to the training images alone and returns a score, higher for points like them. All
take a seed, also those that leave nothing to chance.
"""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.ensemble import IsolationForest
from sklearn.mixture import GaussianMixture
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from ..randomness import generator

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
    pca = PCA(directions, random_state=seed).fit(_array(images))

    def score(x: Tensor) -> Array:
        flat = _array(x)
        gap = flat - pca.inverse_transform(pca.transform(flat))
        return np.asarray(-np.linalg.norm(gap, axis=1))

    return score


def gaussian_mixture(
    images: Tensor, seed: int = 0, *, directions: int, components: int = 10
) -> Score:
    """Log-density of a few Gaussians on the principal directions."""
    pca = PCA(directions, random_state=seed).fit(_array(images))
    mixture = GaussianMixture(components, random_state=seed, reg_covar=1e-3)
    mixture.fit(pca.transform(_array(images)))
    return lambda x: np.asarray(mixture.score_samples(pca.transform(_array(x))))


def isolation_forest(images: Tensor, seed: int = 0) -> Score:
    """scikit-learn's isolation forest, as it comes."""
    forest = IsolationForest(random_state=seed).fit(_array(images))
    return lambda x: np.asarray(forest.score_samples(_array(x)))


class Autoencoder(nn.Module):
    """A small convolutional autoencoder with 32 numbers in the middle."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 16, 4, stride=2, padding=1), nn.ReLU(),
            nn.Conv2d(16, 32, 4, stride=2, padding=1), nn.ReLU(),
            nn.Flatten(), nn.Linear(32 * 7 * 7, 32),
            nn.Linear(32, 32 * 7 * 7), nn.ReLU(), nn.Unflatten(1, (32, 7, 7)),
            nn.ConvTranspose2d(32, 16, 4, stride=2, padding=1), nn.ReLU(),
            nn.ConvTranspose2d(16, 1, 4, stride=2, padding=1), nn.Tanh(),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.net(x)
        return output


def autoencoder(images: Tensor, seed: int = 0, *, steps: int) -> Score:
    """Minus the reconstruction error of a small autoencoder, Adam 1e-3, batches of 128."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        net = Autoencoder()
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
