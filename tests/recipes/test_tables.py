"""Training on top of a reference: never worse than it, better where it is poor."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import pytest
import torch
from torch import Tensor, nn

from tests.recipes.common import mixture, small_table
from uspebm import MLP, DivergedError, fit, train
from uspebm.energies.kernel import TiltedEnergy, likeliest_bandwidth
from uspebm.energies.rules import GivenEnergy
from uspebm.objective import effective_sample_size
from uspebm.recipes import Recipe, Schedule, held_out, run
from uspebm.recipes.held_out import HeldOut
from uspebm.recipes.tables import TiltedKernel, density_recipe
from uspebm.support.randomness import generator

TABLE = mixture(720)


def learned(recipe: Recipe, points: Tensor = TABLE) -> run.Run:
    return train(recipe, points, None, 0, show=False)


def tilted(trained: run.Run) -> TiltedEnergy:
    return cast(TiltedEnergy, trained.energy)


def likelihood(energy: TiltedEnergy, points: Tensor) -> tuple[float, float]:
    """Mean log-density with a log Z of its own draws, and the standard error of that log Z."""
    with torch.no_grad():
        n = 20_000
        log_weight = -energy.tilt(energy.reference.sample(n, generator(99))).double()
        log_z = torch.logsumexp(log_weight, 0).item() - math.log(n)
        error = math.sqrt(max(0.0, 1 / effective_sample_size(log_weight) - 1 / n))
        return -energy(points).mean().item() - log_z, error


def test_a_poor_reference_is_improved_on_points_that_nobody_saw() -> None:
    new = mixture(2000, seed=1)
    trained = learned(small_table(updates=200, rate=3e-3))
    energy = tilted(trained)
    after, error = likelihood(energy, new)
    before = energy.reference.log_prob(new).mean().item()
    assert energy.strength == 1
    # Nats per point: far more than log Z may be off by.
    assert after - before > 0.5 > 10 * error
    assert trained.judge is not None
    assert trained.judge.best.log_likelihood - trained.curve[0].log_likelihood > 0.5


def test_the_curve_holds_the_log_likelihood_of_what_is_returned() -> None:
    recipe = small_table()
    trained = learned(recipe)
    assert recipe.schedule.held_out is not None
    _, held = recipe.schedule.held_out.split(TABLE, 0)
    value, error = likelihood(tilted(trained), held)
    weight_error = math.sqrt(1 / (held_out.TRUSTED * held_out.LOG_Z_DRAWS))  # at worst
    assert trained.judge is not None
    assert abs(value - trained.judge.best.log_likelihood) < 4 * (error + weight_error)
    assert [look.update for look in trained.curve] == [0, 50, 100]


@dataclass(frozen=True)
class LoudKernel(TiltedKernel):
    """A network that does not begin at zero, and is wrong."""

    def build(self, points: Tensor, seed: int) -> TiltedEnergy:
        energy = super().build(points, seed)
        torch.manual_seed(0)
        energy.network = MLP((5,), width=16, layers=2)
        with torch.no_grad():
            list(energy.network.parameters())[-2].mul_(30)  # the last layer's weights
        return energy


@pytest.mark.parametrize("rate", [1e-3, 0.3])
@pytest.mark.parametrize("loud", [False, True])
def test_what_is_returned_is_never_below_the_reference(rate: float, loud: bool) -> None:
    """Even at a rate that ruins the weights, and for a network that does not begin at zero."""
    recipe = small_table(centres=500, rate=rate)
    if loud:
        recipe = replace(recipe, energy=LoudKernel(500))
    trained = learned(recipe)
    energy = tilted(trained)
    assert recipe.schedule.held_out is not None
    _, held = recipe.schedule.held_out.split(TABLE, 0)
    alone = energy.reference.log_prob(held).mean().item()
    assert trained.curve[0].log_likelihood == pytest.approx(alone)
    value, error = likelihood(energy, held)
    assert value > alone - 4 * error - 1e-9
    if rate == 0.3 or loud:
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
    whole = learned(small_table(updates=50)).energy
    monkeypatch.setattr(run, "fit", Diverges(after=70))
    with pytest.warns(UserWarning, match="ended early, with what was best at update 50"):
        stopped = learned(small_table(updates=500))
    assert [look.update for look in stopped.curve] == [0, 50]
    for a, b in zip(whole.parameters(), stopped.energy.parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_where_log_z_is_not_known_no_weights_are_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_out, "TRUSTED", 1.0)
    trained = learned(small_table())
    assert [look.log_likelihood for look in trained.curve[1:]] == [-math.inf] * 2
    energy = tilted(trained)
    assert energy.strength == 0
    assert not energy.network(TABLE).any()


def test_training_ends_when_patience_does() -> None:
    rule = HeldOut(every=5, patience=3)
    trained = learned(small_table(200, updates=5000, rate=3e-2, held_out=rule), TABLE[:160])
    assert trained.judge is not None
    assert trained.curve[-1].update == trained.judge.best.update + 15
    assert trained.state.step == trained.curve[-1].update


def test_a_gain_that_is_too_small_does_not_count() -> None:
    usual = learned(small_table(updates=200, rate=3e-3))
    assert usual.judge is not None
    gain = usual.judge.best.log_likelihood - usual.curve[0].log_likelihood
    choosy = HeldOut(patience=3, least_gain=gain + 0.1)
    trained = learned(small_table(updates=200, rate=3e-3, held_out=choosy))
    assert tilted(trained).strength == 0


@pytest.mark.parametrize("method", ["ps-usp", "srlmc"])
def test_the_other_methods_train(method: Literal["ps-usp", "srlmc"]) -> None:
    recipe = replace(small_table(updates=4), phase=density_recipe(method).phase)
    trained = learned(recipe, TABLE[:240])
    assert len(trained.curve) == 2
    assert math.isfinite(trained.curve[-1].log_likelihood)
    assert torch.isfinite(trained.energy(TABLE)).all()


def test_without_held_out_points_the_reference_still_counts() -> None:
    recipe = small_table(updates=20)
    alone = replace(recipe, schedule=replace(recipe.schedule, held_out=None))
    energy = tilted(learned(alone))
    x = mixture(30, seed=2)
    expected = energy.reference(x) + energy.network(x)
    torch.testing.assert_close(energy(x), expected)
    assert energy.network(x).abs().max() > 0


def test_few_points_leave_the_reference_as_it_is() -> None:
    rule = HeldOut(share=0.0, fewest=50)
    for n, updates in ((49, 0), (50, 100)):
        assert learned(small_table(held_out=rule), TABLE[:n]).state.step == updates


def test_lines_are_printed_only_if_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    for show in (False, True):
        train(small_table(updates=3), TABLE, None, 0, show=show)
        printed = capsys.readouterr().out
        assert bool(printed) is show
    assert "tables-density 3/3  held-out log-likelihood" in printed


def test_what_is_held_out_is_apart_and_nothing_is_lost() -> None:
    x = torch.arange(1000.0)[:, None]
    inside, held = HeldOut(share=0.1).split(x, 0)
    assert (len(inside), len(held)) == (900, 100)
    assert torch.equal(torch.cat([inside, held]).sort(0).values, x)
    assert not torch.equal(HeldOut(share=0.1).split(x, 1)[1], held)


@pytest.mark.parametrize("event", [(3,), (1, 2, 2), (3, 8, 8)])
def test_tilts_begin_at_zero_and_references_are_the_likeliest(event: tuple[int, ...]) -> None:
    points = torch.randn(40, *event, generator=generator(0))
    energy = TiltedKernel(centres=30).build(points, 0)
    assert not energy.network(points).any()
    assert torch.equal(energy.reference.centres, points[:30].double())
    assert energy.reference.bandwidth.item() == likeliest_bandwidth(points[:30])[0]


class Wrong(nn.Module):
    def __init__(self, of: Callable[[Tensor], Any]) -> None:
        super().__init__()
        self.of = of
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Any:
        return self.of(x)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (nn.Linear(5, 1), r"energy=Linear does not fit .* one number per point"),
        (nn.Linear(4, 1), r"energy=Linear does not fit points of shape \(5,\): mat1 and mat2"),
        (Wrong(lambda x: x.sum()), "energy=Wrong does not fit"),
        (Wrong(lambda x: None), "energy=Wrong does not fit"),
        (Wrong(lambda x: x.sum(1) / 0), "energy=Wrong does not fit"),
        (nn.Flatten(0), "energy=Flatten does not fit"),
        (MLP(5).requires_grad_(False), "energy=MLP has no parameters to train"),
    ],
)
def test_energies_that_do_not_fit_are_refused(module: nn.Module, message: str) -> None:
    from uspebm import Box, RiemannGrid

    phase = RiemannGrid(Box(-1.0, 1.0, (5,)), 2)
    recipe = Recipe("own", GivenEnergy(module), phase, Schedule(1, 10))
    with pytest.raises(ValueError, match=message) as caught:
        learned(recipe, TABLE)
    assert "\n" not in str(caught.value)
