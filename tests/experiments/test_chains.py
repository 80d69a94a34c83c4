from dataclasses import replace

import pytest
import torch
from torch import Tensor

from uspebm.experiments.chains import kept_class
from uspebm.recipes.paper import FASHION_SRLMC, IMAGES
from uspebm.support.randomness import generator
from uspebm.types import Energy

N = 40


def flat(x: Tensor) -> Tensor:
    return 0.0 * x.flatten(1).sum(1)


def bowl(x: Tensor) -> Tensor:
    return 0.5 * x.flatten(1).square().sum(1)


def images(name: str) -> Tensor:
    return IMAGES.sample(N, generator(0, name))


LABELS = torch.arange(N) % 10


@pytest.mark.parametrize("energy", [flat, bowl])
def test_samples_change_class_where_chains_mix(energy: Energy) -> None:
    share, later = kept_class(
        energy, FASHION_SRLMC.sampler, images("s"), images("train"), LABELS, 0
    )
    assert share < 0.5
    assert later.shape == (N, 1, 28, 28)


def test_samples_that_hardly_move_keep_their_class() -> None:
    sampler = replace(FASHION_SRLMC.sampler, noise_scale=1e-9)
    assert kept_class(flat, sampler, images("s"), images("t"), LABELS, 0)[0] == 1.0
