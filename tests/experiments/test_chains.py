from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from uspebm.appendix import FASHION_SRLMC, IMAGES
from uspebm.experiments.chains import unmixed
from uspebm.randomness import generator
from uspebm.types import Energy

N = 40


def flat(x: Tensor) -> Tensor:
    return 0.0 * x.flatten(1).sum(1)


def bowl(x: Tensor) -> Tensor:
    return 0.5 * x.flatten(1).square().sum(1)


def images(name: str) -> Tensor:
    return IMAGES.sample(N, generator(0, name))


LABELS = torch.arange(N) % 10


@pytest.mark.parametrize(("energy", "stays"), [(flat, True), (bowl, False)])
def test_chains_mix_at_once_in_a_valley_and_after_long_on_a_plain(
    energy: Energy, stays: bool, tmp_path: Path
) -> None:
    sampler, stem = FASHION_SRLMC.sampler, tmp_path / "c"
    found = unmixed(
        energy, sampler, images("samples"), images("train"), LABELS, images("digits"), 0, stem
    )
    assert (tmp_path / "c.png").stat().st_size > 5_000
    assert found.digits_stay == 1.0 if stays else found.digits_stay < 0.2
    assert found.samples_stay < 0.5


def test_samples_that_hardly_move_keep_their_class() -> None:
    sampler = replace(FASHION_SRLMC.sampler, noise_scale=1e-9)
    found = unmixed(flat, sampler, images("s"), images("t"), LABELS, images("d"), 0)
    assert found.samples_stay == 1.0


def test_samples_that_come_near_the_digits_have_visited_them() -> None:
    train, digits = 0.1 * images("train"), 0.1 * images("digits") + 0.5
    sampler, samples = FASHION_SRLMC.sampler, 0.1 * images("samples")
    never = unmixed(flat, sampler, samples, train, LABELS, digits, 0)
    often = unmixed(flat, sampler, samples + 0.5, train, LABELS, digits, 0)
    assert never.visited == pytest.approx(1.0, abs=0.05)
    # Differences of two uniform draws, and the same plus 0.5.
    ratio = ((0.02 / 3) / (0.25 + 0.02 / 3)) ** 0.5
    assert often.visited == pytest.approx(ratio, rel=0.05)
