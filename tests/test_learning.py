"""Training on top of a reference: never worse than it, better where it is poor."""

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from uspebm import DivergedError, fit, learning
from uspebm.energies import MLP, Conv
from uspebm.learning import (
    FEWEST,
    Curve,
    Method,
    Recipe,
    Split,
    check_network,
    learn,
    network_for,
    split,
)
from uspebm.objective import effective_sample_size
from uspebm.randomness import generator
from uspebm.reference import KernelReference, TiltedEnergy, likeliest_bandwidth


def recipe(method: Method = "importance", updates: int = 100, rate: float = 1e-3) -> Recipe:
    return Recipe(method, updates, patience=3, learning_rate=rate, batch_size=100)


def mixture(n: int, seed: int = 0) -> Tensor:
    """Three correlated Gaussians in five dimensions."""
    laws = generator(7)
    roots = torch.randn(3, 5, 5, generator=laws) / 2
    means = 2 * torch.randn(3, 5, generator=laws)
    draws = generator(seed)
    k = torch.randint(3, (n,), generator=draws)
    noise = torch.randn(n, 5, generator=draws)
    return means[k] + torch.einsum("ni,nij->nj", noise, roots[k])


def problem(centres: int, n: int = 900) -> tuple[TiltedEnergy, Split]:
    data = split(mixture(n), 0.2, seed=0)
    chosen = data.train[:centres]
    reference = KernelReference(chosen, likeliest_bandwidth(chosen)[0])
    return TiltedEnergy(network_for((5,), 0), reference), data


def held_out(energy: TiltedEnergy, points: Tensor) -> tuple[float, float]:
    """Mean log-density with a log Z of its own draws, and the standard error of that log Z."""
    assert energy.reference is not None
    with torch.no_grad():
        n = 20_000
        log_weight = -energy.tilt(energy.reference.sample(n, generator(99))).double()
        log_z = torch.logsumexp(log_weight, 0).item() - math.log(n)
        error = math.sqrt(max(0.0, 1 / effective_sample_size(log_weight) - 1 / n))
        return -energy(points).mean().item() - log_z, error


def best(curve: Curve) -> float:
    return max(look.log_likelihood for look in curve)


def test_a_poor_reference_is_improved_on_points_that_nobody_saw() -> None:
    energy, data = problem(centres=20)
    new = mixture(2000, seed=1)
    before, _ = held_out(energy, new)
    curve = learn(energy, data, recipe(updates=200, rate=3e-3), 0, verbose=False)
    after, error = held_out(energy.eval(), new)
    assert energy.strength == 1
    # Nats per point: far more than log Z may be off by.
    assert after - before > 0.5 > 10 * error
    assert best(curve) - curve[0].log_likelihood > 0.5


def test_the_curve_holds_the_log_likelihood_of_what_is_returned() -> None:
    energy, data = problem(centres=20)
    curve = learn(energy, data, recipe(updates=100), 0, verbose=False)
    value, error = held_out(energy.eval(), data.stopping)
    weight_error = math.sqrt(1 / (learning.TRUSTED * learning.DRAWS))  # at worst
    assert abs(value - best(curve)) < 4 * (error + weight_error)
    assert [look.update for look in curve] == [0, 50, 100]


@pytest.mark.parametrize("rate", [1e-3, 0.3])
@pytest.mark.parametrize("own", [False, True])
def test_what_is_returned_is_never_below_the_reference(rate: float, own: bool) -> None:
    """Even at a rate that ruins the weights, and for a network that does not begin at zero."""
    energy, data = problem(centres=500)
    if own:
        energy.network = MLP((5,), width=16, layers=2)
        with torch.no_grad():
            list(energy.network.parameters())[-2].mul_(30)  # the last layer's weights
    curve = learn(energy, data, recipe(rate=rate), 0, verbose=False)
    assert energy.reference is not None
    alone = energy.reference.log_prob(data.stopping).mean().item()
    assert curve[0].log_likelihood == pytest.approx(alone)
    value, error = held_out(energy.eval(), data.stopping)
    assert value > alone - 4 * error - 1e-9
    if rate == 0.3 or own:
        assert energy.strength == 0


class Diverges:
    """``fit``, until it raises."""

    def __init__(self, after: int) -> None:
        self.after = after
        self.fit: Callable[..., Any] = fit

    def __call__(self, state: Any, *args: Any, **settings: Any) -> Any:
        for record in self.fit(state, *args, **settings):
            yield record
            if record.step == self.after:
                raise DivergedError("update 71: loss nan", state)


def test_a_divergence_leaves_the_best_weights_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, data = problem(centres=20)
    stopped = copy.deepcopy(whole)
    learn(whole, data, recipe(updates=50), 0, verbose=False)
    monkeypatch.setattr(learning, "fit", Diverges(after=70))
    with pytest.warns(UserWarning, match="ended early, with what was best at update 50"):
        curve = learn(stopped, data, recipe(updates=500), 0, verbose=False)
    assert [look.update for look in curve] == [0, 50]
    for a, b in zip(whole.parameters(), stopped.parameters(), strict=True):
        assert torch.equal(a, b)


def test_where_log_z_is_not_known_no_weights_are_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "TRUSTED", 1.0)
    energy, data = problem(centres=20)
    before = copy.deepcopy(energy.state_dict())
    curve = learn(energy, data, recipe(), 0, verbose=False)
    assert [look.log_likelihood for look in curve[1:]] == [-math.inf] * 2
    assert energy.strength == 0
    for name, value in energy.state_dict().items():
        assert name == "strength" or torch.equal(value, before[name])


def test_training_ends_when_patience_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "EVERY", 5)
    energy, data = problem(centres=200, n=200)
    curve = learn(energy, data, recipe(updates=5000, rate=3e-2), 0, verbose=False)
    values = [look.log_likelihood for look in curve]
    assert len(values) == int(np.argmax(values)) + 1 + 3


@pytest.mark.parametrize("method", ["ps-usp", "srlmc"])
def test_the_other_methods_train(method: Method) -> None:
    energy, data = problem(centres=20, n=300)
    curve = learn(energy, data, recipe(method, updates=4), 0, verbose=False)
    assert len(curve) == 2
    assert math.isfinite(curve[-1].log_likelihood)
    assert torch.isfinite(energy(data.stopping)).all()


def test_few_points_leave_the_reference_as_it_is() -> None:
    for n, trained in ((FEWEST - 1, False), (FEWEST, True)):
        energy, data = problem(centres=20)
        curve = learn(energy, data._replace(train=data.train[:n]), recipe(), 0, verbose=False)
        assert (len(curve) > 1) is trained


def test_lines_are_printed_only_if_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    for verbose in (False, True):
        energy, data = problem(centres=20)
        learn(energy, data, recipe(updates=3), 0, verbose=verbose)
        printed = capsys.readouterr().out
        assert bool(printed) is verbose
    assert "importance 3/3  held-out log-likelihood" in printed


def test_the_parts_are_apart_and_everything_is_in_one() -> None:
    x = torch.arange(1000.0)[:, None]
    parts = split(x, 0.2, seed=0)
    assert [len(part) for part in parts] == [720, 80, 200]
    assert torch.equal(torch.cat(parts).sort(0).values, x)
    assert not torch.equal(split(x, 0.2, seed=1).train, parts.train)
    for n in (2, 3, 5):
        train, _, calibration = split(x[:n], 0.2, seed=0)
        assert len(train) >= 1
        assert len(calibration) >= 1


@pytest.mark.parametrize("event", [(3,), (1, 2, 2), (1, 7, 9), (3, 8, 8), (1, 28, 28)])
def test_networks_begin_at_zero(event: tuple[int, ...]) -> None:
    network = network_for(event, 0)
    assert isinstance(network, Conv) is (len(event) == 3 and min(event[1:]) >= 8)
    assert not network(torch.randn(4, *event)).any()


class Wrong(nn.Module):
    def __init__(self, of: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.of = of
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Any:
        return self.of(x)


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (nn.Linear(5, 1), r"network=Linear does not fit .* one number per point"),
        (nn.Linear(4, 1), r"network=Linear does not fit points of shape \(5,\): mat1 and mat2"),
        (Wrong(lambda x: x.sum()), "network=Wrong does not fit"),
        (Wrong(lambda x: None), "network=Wrong does not fit"),
        (Wrong(lambda x: x.sum(1) / 0), "network=Wrong does not fit"),
        (nn.Flatten(0), "network=Flatten does not fit"),
        (MLP(5).requires_grad_(False), "network=MLP has no parameters to train"),
    ],
)
def test_networks_that_do_not_fit_are_refused(network: nn.Module, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        check_network(network, mixture(4))
    assert "\n" not in str(caught.value)
