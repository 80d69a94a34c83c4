"""Chains leave the model's law as it is, find it from afar, and say where they do not."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.laws import assert_law, normal_cdf
from uspebm import MLP, Box, Chains, Gaussian, GaussianMixture, NonFiniteError, Samples, sample
from uspebm.support.randomness import generator
from uspebm.types import Energy

STD = 0.5
LAW = Gaussian((0.0,), STD)
MANY = Chains(chains=100_000, draws=4, every=8, burn_in=0, step_size=0.2)
"""So many that the ends of chains tell a temperature from another that is a tenth off."""
UNIT = Box(0.0, 1.0, (1,))
SLOPE = 3.0


def ends(found: Samples, chains: Chains = MANY) -> Tensor:
    """Of every chain, where it was last: independent points."""
    return found.x.view(chains.chains, chains.draws, -1)[:, -1]


def stationary(energy: Energy, start: Tensor, domain: Box | None = None) -> Tensor:
    """The ends of chains that start at exact draws, which a right chain cannot tell from these."""
    return ends(sample(energy, start, MANY, domain=domain))


def exact() -> Tensor:
    return LAW.sample(MANY.chains, generator(0), torch.float64)


def test_the_law_of_the_model_stays() -> None:
    assert_law(stationary(LAW, exact()), normal_cdf(STD))


@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_a_temperature_off_by_a_tenth_is_noticed(factor: float) -> None:
    x = stationary(lambda x: factor * LAW(x), exact())
    with pytest.raises(AssertionError):
        assert_law(x, normal_cdf(STD))
    assert_law(x, normal_cdf(STD / math.sqrt(factor)))


def test_without_the_metropolis_test_the_step_size_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The mutant accepts every move: its variance is σ² / (1 − α / 4σ²)."""
    start = exact()
    monkeypatch.setattr(
        torch, "rand", lambda *_, **kinds: torch.zeros(MANY.chains, dtype=kinds["dtype"])
    )
    x = stationary(LAW, start)
    with pytest.raises(AssertionError):
        assert_law(x, normal_cdf(STD))
    assert_law(x, normal_cdf(STD / math.sqrt(1 - 0.2 / (4 * STD**2))))


def slope(x: Tensor) -> Tensor:
    return SLOPE * x.flatten(1).sum(1)


def slope_cdf(x: Tensor) -> Tensor:
    return torch.expm1(-SLOPE * x) / math.expm1(-SLOPE)


def on_the_slope() -> Tensor:
    u = torch.rand(MANY.chains, 1, generator=generator(1), dtype=torch.float64)
    return -torch.log1p(u * math.expm1(-SLOPE)) / SLOPE


class Sticky(Box):
    """A mutant: what leaves it is put on its wall."""

    def reflect(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.project(x), torch.ones_like(x)


class Unturned(Box):
    """Another: what bounces off keeps its direction."""

    def reflect(self, x: Tensor) -> tuple[Tensor, Tensor]:
        place, _ = super().reflect(x)
        return place, torch.ones_like(x)


def test_on_a_box_the_law_stays_up_to_the_walls() -> None:
    assert_law(stationary(slope, on_the_slope(), UNIT), slope_cdf)


@pytest.mark.parametrize("mutant", [Sticky, Unturned])
def test_walls_that_are_wrong_are_noticed(mutant: type[Box]) -> None:
    with pytest.raises(AssertionError):
        assert_law(stationary(slope, on_the_slope(), mutant(0.0, 1.0, (1,))), slope_cdf)


def test_from_afar_chains_find_the_law_and_say_how_well() -> None:
    """Means of all draws are as near as the effective number of them says, to four errors."""
    target = Gaussian((1.0, -2.0), (0.5, 0.2))
    found = sample(target, Box(-4.0, 4.0, (2,)))
    assert found.x.shape == (16 * 500, 2)
    assert found.r_hat < 1.02
    assert 400 < found.ess < 8000
    assert found.accepted == pytest.approx(0.574, abs=0.1)
    for k in range(2):
        off = abs(found.x[:, k].mean().item() - target.mean[k]) / target.std[k]  # type: ignore[index]
        assert off < 4 / math.sqrt(found.ess)


@pytest.mark.parametrize("step_size", [1e-6, 1.0, 100.0])
def test_burn_in_finds_the_step_size(step_size: float) -> None:
    found = sample(LAW, Gaussian((0.0,), 1.0), Chains(step_size=step_size))
    assert found.accepted == pytest.approx(0.574, abs=0.1)
    assert found.r_hat < 1.05


def test_modes_that_chains_do_not_leave_are_said() -> None:
    far = GaussianMixture(((-3.0,), (3.0,)), 0.3)
    with pytest.warns(UserWarning, match=r"the chains have not mixed: R-hat is .*, above 1\.05"):
        found = sample(far, Box(-4.0, 4.0, (1,)))
    assert found.r_hat > 3
    assert found.ess < 50


def test_images_keep_their_shape_and_stay_in_the_box() -> None:
    box = Box(-1.0, 1.0, (1, 2, 3))
    found = sample(lambda x: 5 * x.flatten(1).sum(1), box, domain=box)
    assert found.x.shape == (8000, 1, 2, 3)
    assert box.contains(found.x).all()


def test_points_to_start_from_and_the_kind_of_numbers() -> None:
    points = torch.linspace(-1, 1, 40, dtype=torch.float64).unsqueeze(1)
    few = Chains(chains=4, draws=4, every=1, burn_in=0, step_size=1e-12)
    with pytest.warns(UserWarning, match="not mixed"):
        found = sample(LAW, points, few)
    assert found.x.dtype == torch.float64
    first = found.x.view(4, 4)[:, 0]
    assert len(first.unique()) == 4  # each chain at another point
    assert torch.cdist(first.unsqueeze(1), points).min(1).values.max() < 1e-5
    net = MLP(1, width=4)
    with pytest.warns(UserWarning, match="not mixed"):
        assert sample(net, points, few).x.dtype == torch.float32
    assert all(parameter.grad is None for parameter in net.parameters())


def test_the_seed_decides() -> None:
    short = Chains(draws=50, burn_in=20, step_size=0.3)
    a, b, c = (sample(LAW, LAW, short, seed=seed).x for seed in (0, 0, 1))
    assert torch.equal(a, b)
    assert not torch.equal(a, c)


class Overflowing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.exp(x.square()).sum(1)


def cases() -> list[tuple[Callable[[], Any], type[Exception], str]]:
    box = Box(-1.0, 1.0, (1,))
    return [
        (lambda: sample(LAW, torch.zeros(3, 1)), ValueError, "start has 3 points.* chains=16"),
        (lambda: sample(LAW, torch.ones(20, 1) * 2, domain=box), ValueError, "do not lie in dom"),
        (lambda: sample(LAW, torch.ones(20, 2), domain=box), ValueError, "do not lie in domain"),
        (lambda: sample(LAW, Box(-3.0, 3.0, (1,)), domain=box), ValueError, "outside domain"),
        (
            lambda: sample(Overflowing(), box, Chains(step_size=1e6)),
            NonFiniteError,
            r"are not finite, at a step size of .* \(step_size=1000000.0\): begin with a smaller",
        ),
    ]


@pytest.mark.parametrize(("call", "error", "message"), cases())
def test_what_cannot_be_sampled_is_refused(
    call: Callable[[], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(
    "change", [{"chains": 1}, {"draws": 3}, {"every": 0}, {"burn_in": -1}, {"step_size": 0.0}]
)
def test_bad_settings_are_refused(change: dict[str, Any]) -> None:
    ((name, value),) = change.items()
    with pytest.raises(ValueError, match=f"{name}={value}"):
        replace(Chains(), **change)
