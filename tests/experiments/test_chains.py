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


@pytest.mark.parametrize(("energy", "stays"), [(flat, True), (bowl, False)])
def test_chains_stay_on_a_plain_and_leave_for_a_valley(
    energy: Energy, stays: bool, tmp_path: Path
) -> None:
    known = images("known")
    found = unmixed(
        energy, FASHION_SRLMC.sampler, images("samples"), known, images("digits"), 0, tmp_path / "c"
    )
    assert (tmp_path / "c.png").stat().st_size > 5_000
    if stays:
        assert found.stay == 1.0
    else:
        # All ends are the centre and the last step's noise: which digit is nearest is chance.
        assert found.stay < 10 / N
        noise = (2 * 784 * FASHION_SRLMC.sampler.beta) ** 0.5
        apart = torch.cdist(known.flatten(1), known.flatten(1)).fill_diagonal_(torch.inf)
        assert found.collapse == pytest.approx(noise / apart.min(1).values.median().item(), rel=0.1)


def test_digits_far_from_all_samples_are_not_visited() -> None:
    samples, digits = 0.1 * images("samples"), 0.1 * images("digits")
    known = 0.1 * images("known")
    near = unmixed(flat, FASHION_SRLMC.sampler, samples, known, digits, 0)
    far = unmixed(flat, FASHION_SRLMC.sampler, samples, known, digits + 0.5, 0)
    assert near.visited == pytest.approx(1.0, abs=0.05)
    # 0.5 in each of 784 coordinates, against differences of two uniform draws.
    ratio = ((0.25 + 0.02 / 3) / (0.02 / 3)) ** 0.5
    assert far.visited == pytest.approx(ratio, rel=0.05)
