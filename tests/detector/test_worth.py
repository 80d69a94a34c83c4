"""What a network is worth on images, and what becomes of one that is worth nothing."""

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from uspebm import Conv, EnergyDetector, load, save_model
from uspebm.detector.worth import IN_PIXELS, TRIED_ON, Worth, held_back, scored, worth_of
from uspebm.energies.features import FeatureEnergy, FeatureRule, Pixels
from uspebm.recipes.images import image_recipe, pixel_recipe
from uspebm.recipes.tables import density_recipe
from uspebm.support.randomness import generator, global_seed


def stripes(n: int, seed: int = 0) -> Tensor:
    """Images whose rows are alike, and columns vary slowly: turned, they are another kind."""
    draws = generator(seed, "stripes")
    phase = 6.3 * torch.rand(n, 1, 1, 1, generator=draws)
    columns = torch.sin(phase + torch.linspace(0, 6.3, 16)).expand(n, 1, 16, 16)
    return (0.8 * columns + 0.05 * torch.randn(n, 1, 16, 16, generator=draws)).clamp(-1, 1)


class Blind(nn.Module):
    """Sees of an image nothing but noise."""

    def features(self, x: Tensor) -> Tensor:
        return torch.rand(len(x), 4, generator=generator(len(x), "blind"))


def conv() -> Conv:
    with global_seed(0):
        return Conv((1, 16, 16)).eval()


def test_one_in_ten_images_is_held_back_where_a_network_is_scored_by() -> None:
    images = stripes(60)
    train, held = held_back(image_recipe(images), images)
    assert torch.equal(torch.cat([train, held]), images)
    assert len(held) == 6
    assert len(held_back(image_recipe(images), stripes(6000))[1]) == TRIED_ON
    assert len(held_back(pixel_recipe(), images)[1]) == 0
    assert len(held_back(density_recipe(), torch.zeros(50, 3))[1]) == 0
    assert len(held_back(replace(image_recipe(images), score=None), images)[1]) == 0


def test_a_network_finds_what_pixels_do_not() -> None:
    found = worth_of(FeatureRule(), conv(), stripes(400), stripes(200, 1), seed=0)
    assert found.by_network > 0.6
    assert 0.0 <= found.by_pixels <= 1.0
    assert Worth(0.5, 0.515).kept(500)
    assert not Worth(0.5, 0.525).kept(500)
    assert Worth(0.5, 0.535).kept(125)
    assert not Worth(0.5, 0.545).kept(125)


def test_a_blind_network_finds_no_more_than_its_false_alarms() -> None:
    """Eight kinds of 400 changed images, at 5 per cent of 400: within six deviations."""
    found = worth_of(FeatureRule(), Blind(), stripes(400), stripes(400, 1), seed=0)
    deviation = (0.05 * 0.95 / 400 * (1 + 1 / 8)) ** 0.5
    assert abs(found.by_network - 0.05) < 6 * deviation


def test_a_blind_network_is_discarded_with_a_warning() -> None:
    recipe, images, held = image_recipe(stripes(60)), stripes(400), stripes(60, 1)
    with pytest.warns(UserWarning, match=r"the network is discarded.*pixels \d+%; .*train longer"):
        energy, worth = scored(recipe, Blind(), images, held, seed=0)
    assert worth is not None
    assert not worth.kept(len(held))
    assert isinstance(energy, FeatureEnergy)
    assert isinstance(energy.network, Pixels)
    expected = IN_PIXELS.over(Blind(), torch.cat([images, held]), seed=0)
    assert torch.equal(energy(held), expected(held))


def test_a_network_that_sees_is_kept_and_all_images_are_centres() -> None:
    recipe, images, held = image_recipe(stripes(60)), stripes(400), stripes(60, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        energy, worth = scored(recipe, conv(), images, held, seed=0)
    assert worth is not None
    assert worth.kept(len(held))
    assert isinstance(energy, FeatureEnergy)
    assert len(energy.centres) == 460


@pytest.fixture(scope="module")
def fitted() -> EnergyDetector:
    images = (127.5 * (stripes(700).numpy() + 1)).astype(np.uint8)
    return EnergyDetector(max_updates=2, random_state=0).fit(images)


def test_the_verdict_says_what_the_network_was_worth(fitted: EnergyDetector) -> None:
    assert fitted.worth_ is not None
    said = fitted.verdict()
    assert "recipe images" in said
    discarded = isinstance(fitted.scorer_.energy.network, Pixels)
    assert ("the network is discarded" if discarded else "kept after 2 updates") in said
    assert f"{fitted.worth_.by_network:.0%} are found by the network" in said
    assert f"{fitted.worth_.by_pixels:.0%} by pixels" in said


def test_the_worth_is_kept_in_the_folder(fitted: EnergyDetector, tmp_path: Path) -> None:
    save_model(fitted, tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.worth_ == fitted.worth_
    assert again.verdict() == fitted.verdict()
    new = (127.5 * (stripes(20, 2).numpy() + 1)).astype(np.uint8)
    assert np.array_equal(again.score_samples(new), fitted.score_samples(new))


def test_models_are_small(fitted: EnergyDetector, tmp_path: Path) -> None:
    """Ten megabytes, and four bytes for every number that is kept of the data."""
    save_model(fitted, tmp_path / "model")
    kept = fitted.scorer_.energy.centres.numel()  # type: ignore[operator]
    size = sum(path.stat().st_size for path in (tmp_path / "model").iterdir())
    assert size <= 10_000_000 + 4 * kept


def test_the_range_of_floats_does_not_matter() -> None:
    """Images in [0, 1] are changed within it, and found as those in [−1, 1] are."""
    images, held = stripes(400), stripes(200, 1)
    wide = worth_of(FeatureRule(), conv(), images, held, seed=0)
    narrow = worth_of(FeatureRule(), conv(), (images + 1) / 2, (held + 1) / 2, seed=0)
    assert narrow.by_pixels == pytest.approx(wide.by_pixels, abs=0.01)
