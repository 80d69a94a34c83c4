"""What a user would try first."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor

from uspebm.evaluation.metrics import detection
from uspebm.experiments import baselines
from uspebm.experiments.image_problem import OpenedSets
from uspebm.support.randomness import generator

MAKERS = {
    "nearest": baselines.nearest_neighbour,
    "pca": partial(baselines.pca_reconstruction, directions=60),
    "mixture": partial(baselines.gaussian_mixture, directions=60),
    "forest": baselines.isolation_forest,
    "autoencoder": partial(baselines.autoencoder, steps=150),
}
Maker = Callable[[Tensor, int], baselines.Score]


def smooth(n: int, seed: int, shape: tuple[int, ...]) -> Tensor:
    channels, *sides = shape
    coarse = torch.randn(n, channels, 3, 3, generator=generator(seed))
    return torch.nn.functional.interpolate(coarse, sides, mode="bilinear").tanh()


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_every_baseline_tells_noise_from_smooth_images(make: Maker) -> None:
    shape = (1, 28, 28)
    score = make(smooth(300, 0, shape), 0)
    noise = 2 * torch.rand(300, *shape, generator=generator(2)) - 1
    found = detection(score(smooth(300, 1, shape)), score(noise))
    assert found.auroc > 0.8


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_every_baseline_takes_few_images_of_any_shape(make: Maker) -> None:
    shape = (3, 8, 13)
    score = make(smooth(36, 0, shape), 0)
    assert torch.isfinite(torch.as_tensor(score(smooth(5, 1, shape)))).all()


def test_the_table_has_them_all() -> None:
    makers = {getattr(maker, "func", maker) for maker in MAKERS.values()}
    assert {one.make for one in baselines.BASELINES.values()} == makers


@pytest.mark.parametrize("k", [1, 3])
def test_the_kth_neighbour_is_that_of_sorted_distances(k: int) -> None:
    images = torch.rand(20, 1, 28, 28, generator=generator(0))
    x = torch.rand(5, 1, 28, 28, generator=generator(1))
    distance = (x[:, None] - images).flatten(2).norm(dim=2).sort(1).values[:, k - 1]
    torch.testing.assert_close(
        torch.as_tensor(baselines.nearest_neighbour(images, k=k)(x)),
        -distance,
        rtol=1e-4,
        atol=1e-4,
    )


def test_they_are_computed_again_when_settings_or_images_change(tmp_path: Path) -> None:
    images = 2 * torch.rand(40, 1, 28, 28, generator=generator(0)) - 1
    sets = OpenedSets(images, {"MNIST": images + 2})
    computed = []

    def make(train: Tensor, seed: int, scale: int) -> baselines.Score:
        computed.append(scale)
        return lambda x: scale * x.mean((1, 2, 3)).numpy()

    path = tmp_path / "mean-0.json"
    for scale in (1, 1, -1, -1):
        one = baselines.Baseline(make, {"scale": scale})
        found = baselines.kept_detections(path, one, 0, images, sets)
        assert found["MNIST"].fpr95 == (1.0 if scale == 1 else 0.0)
    assert computed == [1, -1]
    # Another inside, of as many images.
    baselines.kept_detections(path, one, 0, images.flip(0), sets)
    assert computed == [1, -1, -1]
