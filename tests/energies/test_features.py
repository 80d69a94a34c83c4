"""Distances to the data in what a network sees, against the same by brute force."""

import math
from dataclasses import replace
from typing import Any, Literal

import pytest
import torch
from torch import Tensor, nn

from uspebm import Conv
from uspebm.energies import nearest, turning
from uspebm.energies.features import (
    FeatureEnergy,
    FeatureRule,
    Joined,
    Pixels,
    features_of,
)
from uspebm.energies.reading import OF_NETWORKS, PLAIN, Reading
from uspebm.energies.rules import ConvRule, MLPRule
from uspebm.energies.turning import Turning
from uspebm.recipes.images import image_recipe
from uspebm.support.randomness import generator, global_seed

IMAGES = 2 * torch.rand(120, 1, 12, 12, generator=generator(0)) - 1
NEW = 2 * torch.rand(40, 1, 12, 12, generator=generator(1)) - 1


def network() -> Conv:
    with global_seed(0):
        return Conv((1, 12, 12), filters=(4, 6, 8), width=10).eval()


def by_hand(z: Tensor, centres: Tensor, k: int, reading: Reading) -> Tensor:
    """The formula of the docstring, in double precision and one point after the other."""
    z, centres = z.double(), centres.double()
    among = torch.cdist(centres, centres).fill_diagonal_(math.inf)
    scale = among.sort(1).values[:, :k].mean(1)
    # Of as many as the quantile leaves, the largest: those above it count as that.
    scale = scale.clamp_max(scale.sort().values[math.ceil(reading.cap * (len(scale) - 1))])
    energies = []
    for point in z:
        apart = (centres - point).norm(dim=1)
        nearest = apart.argsort()
        far = apart[nearest[:k]].mean().log()
        if reading.middle is not None:
            middle = centres[nearest[: min(reading.middle, len(centres) - 1)]].mean(0)
            far = (far + (point - middle).norm().log()) / 2
        around = nearest[: min(reading.around or k, len(centres) - 1)]
        energies.append(far - reading.locality * scale[around].log().mean())
    return torch.stack(energies)


def test_features_are_means_of_the_first_filters_and_the_layer_before_the_last() -> None:
    net = network()
    after_first, after_second = net.net[:3](NEW), net.net[:6](NEW)
    hidden = net.net[:-1](NEW)
    expected = torch.cat([after_first.mean((2, 3)), after_second.mean((2, 3)), hidden], 1)
    assert torch.equal(net.features(NEW), expected)
    assert expected.shape == (40, 4 + 6 + 10)
    with pytest.raises(ValueError, match="Conv"):
        net.features(NEW[:, :, :-1])


@pytest.mark.parametrize("of", ["network", "pixels"])
@pytest.mark.parametrize("neighbours", [1, 5, 119, 1000])
@pytest.mark.parametrize(
    "reading",
    [None, PLAIN, Reading(middle=3), Reading(around=7, locality=0.3), Reading(200, 200, cap=0.3)],
)
def test_energies_are_those_of_the_formula(
    of: Literal["network", "pixels"], neighbours: int, reading: Reading | None
) -> None:
    rule = FeatureRule(of, neighbours=neighbours, reading=reading)
    energy = rule.over(network(), IMAGES, seed=0)
    usual = PLAIN if of == "pixels" else OF_NETWORKS
    expected = by_hand(energy.places(NEW), energy.centres, min(neighbours, 119), reading or usual)
    torch.testing.assert_close(energy(NEW).double(), expected, rtol=1e-4, atol=1e-4)


def test_without_a_compiler_the_same_are_nearest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """The middle and the neighbours' own distances are of the nearest alone: order counts."""
    energy = FeatureRule(reading=Reading(3, 7, 0.3)).over(network(), IMAGES, seed=0)
    compiled = energy(NEW)
    monkeypatch.setattr(nearest, "library_if_any", lambda _: None)
    torch.testing.assert_close(energy(NEW), compiled, rtol=1e-4, atol=1e-4)


def test_an_untrained_network_stands_beside() -> None:
    beside = ConvRule((2, 3, 4), width=5)
    alone = FeatureRule().over(network(), IMAGES, seed=0)
    both = FeatureRule(beside=beside).over(network(), IMAGES, seed=0)
    other = FeatureRule(beside=beside).over(network(), IMAGES, seed=1)
    untrained = beside.build(IMAGES[:1], seed=0)
    expected = torch.cat([network().features(NEW), untrained.features(NEW)], 1)
    assert torch.equal(both.network.features(NEW), expected)  # type: ignore[operator]
    assert both.event_shape == alone.event_shape
    assert not torch.equal(both(NEW), alone(NEW))
    assert not torch.equal(both(NEW), other(NEW))  # of another seed, other weights


def test_each_network_has_a_distance_of_its_own() -> None:
    """Two energies, one of either network's features, and not one of both: they are added."""
    beside = ConvRule((2, 3, 4), width=5)
    both = FeatureRule(beside=beside).over(network(), IMAGES, seed=0)
    untrained = beside.build(IMAGES[:1], seed=0)
    of_each = [FeatureRule().over(net, IMAGES, seed=0) for net in (network(), untrained)]
    assert both.widths == tuple(one.centres.shape[1] for one in of_each)
    torch.testing.assert_close(both(NEW), sum(one(NEW) for one in of_each), rtol=1e-4, atol=1e-4)


def test_what_a_network_that_saw_nothing_rounds_is_not_blown_up() -> None:
    """Its features are equal but for rounding, and decide nothing."""

    class Blind(nn.Module):
        event_shape = (1, 12, 12)

        def features(self, x: Tensor) -> Tensor:
            return 1 + 1e-7 * x.flatten(1)[:, :6]

    live, blind = network().features(IMAGES), Blind().features(IMAGES)
    frame = turning.half_whitening(torch.cat([live, blind], 1), [20, 6])
    z = (torch.cat([live, blind], 1) - frame.shift) @ frame.turn
    seen, dark = z.split(frame.widths, 1)
    assert dark.std(0).max() < 0.2 * seen.std(0).median()


def test_of_the_directions_each_network_has_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turning, "MOST_DIRECTIONS", 10)  # 20 and 10 features
    both = FeatureRule(beside=ConvRule((2, 3, 4), width=5)).over(network(), IMAGES, seed=0)
    assert both.widths == (7, 3)


def test_an_image_that_lies_alone_excuses_nothing_near_it() -> None:
    """Its own distance is capped, so that what is as near to it as it is to others stands out."""
    crowd = 0.01 * torch.randn(99, 4, generator=generator(0))
    alone, near_it = torch.full((1, 4), 5.0), torch.full((1, 4), 5.5)
    points = torch.cat([crowd, alone])
    free, capped = (
        FeatureRule("pixels", neighbours=1, reading=Reading(cap=cap)).build(points, seed=0)
        for cap in (1.0, 0.9)
    )
    assert capped(near_it) > free(near_it) + 1.0
    usual = crowd[:50] + 0.001
    torch.testing.assert_close(capped(usual).mean(), free(usual).mean(), rtol=0.0, atol=0.1)


def test_directions_that_hardly_vary_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turning, "MOST_DIRECTIONS", 6)
    few = FeatureRule().over(network(), IMAGES, seed=0).centres
    monkeypatch.undo()
    whole = FeatureRule().over(network(), IMAGES, seed=0).centres
    torch.testing.assert_close(few, whole[:, -6:], rtol=1e-4, atol=1e-4)
    assert few.var(0).min() >= whole[:, :-6].var(0).max()


def test_directions_vary_by_the_root_of_what_they_did() -> None:
    """Whitened wholly they would all vary by one; not at all, by their own deviations."""
    energy = FeatureRule().over(network(), IMAGES, seed=0)
    seen = features_of(network(), IMAGES).double()
    standard = (seen - seen.mean(0)) / seen.std(0, correction=0)
    spreads = torch.linalg.svdvals(standard) / math.sqrt(len(seen))
    found = energy.centres.double()
    covariance = found.T @ found / len(found)
    torch.testing.assert_close(covariance, covariance.diag().diag(), atol=1e-3, rtol=0.0)
    ours = covariance.diag().sqrt().sort(descending=True).values
    large = spreads > 1e-2  # smaller ones are rounding
    torch.testing.assert_close(ours[large], spreads[large].sqrt(), rtol=1e-2, atol=1e-3)


def test_units_of_features_do_not_matter() -> None:
    class Scaled(nn.Module):
        def features(self, x: Tensor) -> Tensor:
            seen = network().features(x)
            return 100 * seen * torch.linspace(1, 9, seen.shape[1]) + 7

    plain, scaled = (FeatureRule().over(net, IMAGES, 0) for net in (network(), Scaled()))
    torch.testing.assert_close(plain(NEW), scaled(NEW), rtol=1e-2, atol=1e-2)


def test_what_is_further_away_has_more_energy() -> None:
    for of in ("network", "pixels"):
        energy = FeatureRule(of).over(network(), IMAGES, seed=0)
        start = NEW[:1]
        far = torch.cat([start + t * torch.sign(start) for t in (0.0, 1.0, 10.0, 100.0)])
        assert (energy(far).diff() > 0).all()


def test_the_same_seed_keeps_the_same_centres_and_no_more_than_asked_for() -> None:
    rule = FeatureRule(centres=30)
    first, again, other = (rule.over(network(), IMAGES, seed) for seed in (0, 0, 1))
    assert len(first.centres) == 30
    assert torch.equal(first.centres, again.centres)
    assert not torch.equal(first.centres, other.centres)


def test_equal_images_and_features_that_never_change_do_no_harm() -> None:
    """Twenty copies of each: a neighbour's own scale is zero, and some features are constant."""
    copies = IMAGES[:6].repeat(20, 1, 1, 1)
    for of in ("network", "pixels"):
        energy = FeatureRule(of).over(network(), copies, seed=0)
        found = energy(torch.cat([copies[:6], NEW]))
        assert found.isfinite().all()
        assert found[:6].max() < found[6:].min()
    same = FeatureRule().over(network(), IMAGES[:1].expand(9, -1, -1, -1), seed=0)
    assert same(NEW).isfinite().all()


def test_gradients_reach_the_image() -> None:
    x = NEW.clone().requires_grad_()
    FeatureRule().over(network(), IMAGES, seed=0)(x).sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()
    assert x.grad.abs().sum() > 0


def test_scoring_costs_at_most_twice_the_network_at_20_000_centres() -> None:
    """By multiplications: the machine's mood has no say."""
    images = torch.rand(300, 1, 28, 28, generator=generator(0))
    recipe = image_recipe(images)
    energy = recipe.scored_by(recipe.energy.build(images, seed=0), images, seed=0)
    assert isinstance(energy, FeatureEnergy)
    assert isinstance(energy.network, Joined)
    assert energy.turn is not None
    network_alone, beside = (multiplications(net) for net in energy.network.networks)
    ours = beside + energy.turn.numel() + 20_000 * energy.centres.shape[1]
    assert ours <= network_alone


def multiplications(network: nn.Module) -> int:
    """For one image of 28 × 28."""
    count, pixels = 0, 28 * 28
    for layer in network.net:  # type: ignore[union-attr]
        if isinstance(layer, nn.Conv2d):
            count += pixels * layer.weight.numel()
            pixels = math.isqrt(pixels // 4) ** 2  # pooled
        elif isinstance(layer, nn.Linear):
            count += layer.weight.numel()
    return count


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"of": "colours"}, "of='colours' must be one of 'network', 'pixels'"),
        ({"centres": 1}, "centres=1 must be a whole number, at least 2"),
        ({"neighbours": 0}, "neighbours=0 must be a whole number, at least 1"),
        ({"reading": 5}, "reading=5 must be a Reading"),
        ({"beside": 5}, "beside=5 must be a rule that builds a network"),
        ({"of": "pixels", "beside": ConvRule()}, "pixels have none beside them"),
    ],
)
def test_bad_settings_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(FeatureRule(), **change)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"middle": 0}, "middle=0 must be a whole number, at least 1"),
        ({"around": 2.5}, "around=2.5 must be a whole number, at least 1"),
        ({"locality": 1.5}, "locality=1.5 must be a number between 0 and 1"),
        ({"locality": math.nan}, "locality=nan must be a number between 0 and 1"),
        ({"locality": "half"}, "locality=half must be a number between 0 and 1"),
        ({"cap": -0.1}, "cap=-0.1 must be a number between 0 and 1"),
        ({"cap": True}, "cap=True must be a number between 0 and 1"),
    ],
)
def test_bad_readings_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Reading(**change)


def test_what_does_not_fit_together_is_refused() -> None:
    with pytest.raises(ValueError, match="Linear has no method features"):
        FeatureRule().over(nn.Linear(2, 1), torch.zeros(5, 2), seed=0)
    with pytest.raises(ValueError, match="MLP has no method features"):
        FeatureRule(beside=MLPRule()).check(network(), IMAGES)
    with pytest.raises(ValueError, match="1 training points are too few"):
        FeatureRule().over(network(), IMAGES[:1], seed=0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"centres": torch.zeros(1, 4)}, r"centres of shape \(1, 4\) must be two or more"),
        ({"centres": torch.zeros(5, 0)}, r"centres of shape \(5, 0\)"),
        ({"log_scale": torch.zeros(3)}, r"log_scale of shape \(3,\)"),
        (
            {"frame": Turning(torch.zeros(4), torch.zeros(4, 3))},
            r"turn of shape \(4, 3\) must have",
        ),
        (
            {"frame": Turning(torch.zeros(4), torch.zeros(4, 4), (3, 2))},
            r"widths=\(3, 2\) must add up to 4 columns",
        ),
        (
            {"frame": Turning(torch.zeros(4), torch.zeros(4, 4), (4, 0))},
            r"widths\[1\]=0 must be a whole number, at least 1",
        ),
        (
            {"frame": Turning(torch.zeros(4), torch.zeros(4, 4), (3, 1))},
            r"log_scale of shape \(5,\) must be .* 5 centres and 2 networks",
        ),
        ({"centres": torch.zeros(5, 4, dtype=torch.int64)}, "finite numbers in float32"),
        ({"centres": torch.full((5, 4), math.nan)}, "finite numbers in float32"),
        ({"log_scale": torch.full((5,), math.inf)}, "finite numbers in float32"),
        ({"log_scale": torch.zeros(5).double()}, "finite numbers in float32"),
        ({"neighbours": True}, "neighbours=True must be a whole number"),
    ],
)
def test_parts_that_are_no_energy_are_refused(change: dict[str, Any], message: str) -> None:
    """As a foreign model's file may have them."""
    parts: dict[str, Any] = {"centres": torch.zeros(5, 4), "log_scale": torch.zeros(5)}
    FeatureEnergy(Pixels((4,)), **parts)
    with pytest.raises(ValueError, match=message):
        FeatureEnergy(Pixels((4,)), **parts | change)
