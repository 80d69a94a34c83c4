import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import ReduceLROnPlateau, StepLR

from tests.phases import PHASES
from uspebm import (
    MLP,
    Box,
    DivergedError,
    Gaussian,
    GaussianMixture,
    Langevin,
    Particles,
    PersistentUSP,
    Replay,
    RiemannGrid,
    TrainState,
    fit,
    grid_density,
)
from uspebm.evaluation.grid_density import kl
from uspebm.objective import Leveled, Likelihood, Objective, Tempered
from uspebm.support.randomness import generator

LINE = Box(-1.0, 1.0, (1,))
TARGET = GaussianMixture(((-0.5,), (0.4,)), 0.15, (0.3, 0.7))


def make(phase: Any, learning_rate: float = 3e-3, **options: Any) -> TrainState:
    torch.manual_seed(0)
    domain = getattr(phase, "domain", None)
    net = MLP(2 if domain is None else domain.shape, width=32)
    return TrainState.start(
        net, phase, torch.optim.Adam(net.parameters(), learning_rate), **options
    )


def test_training_with_exact_nodes_finds_the_density() -> None:
    phase = RiemannGrid(LINE, 100)
    state = make(phase, average_decay=0.9)
    records = list(fit(state, phase, TARGET, batch_size=500, steps=300))
    p = grid_density(TARGET, LINE, 400)
    assert kl(p, grid_density(state.average.module, LINE, 400)) < 0.02
    assert [r.step for r in records] == list(range(1, 301))
    assert all(0 < r.ess <= 100.001 and r.seconds > 0 for r in records)


@pytest.mark.parametrize("phase", PHASES.values(), ids=PHASES.keys())
def test_every_phase_trains(phase: Any) -> None:
    torch.manual_seed(0)
    net = MLP(2, width=16)
    state = TrainState.start(net, phase, torch.optim.SGD(net.parameters(), 0.01))
    data = torch.rand(64, 2)
    rows = [r.row() for r in fit(state, phase, data, batch_size=16, steps=3)]
    numbers = [value for row in rows for value in row.values() if not isinstance(value, str)]
    assert len(numbers) >= 21
    assert all(math.isfinite(value) for value in numbers)
    assert all(row["engine"] == "torch" for row in rows)
    if "usp" in type(phase).__name__.lower():
        assert ("unsettled" if type(phase).__name__ == "USP" else "violating") in rows[0]
    if hasattr(phase, "rho"):
        assert rows[0]["rho"] == phase.rho


class Spy(nn.Module):
    """Remembers the data it was shown, in the order it came."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.seen: list[Tensor] = []

    def forward(self, x: Tensor) -> Tensor:
        if torch.is_grad_enabled() and len(x) == 5:
            self.seen.append(x.flatten().clone())
        return self.scale * x.square().sum(1)


def test_an_epoch_shows_every_point_once_in_an_order_of_the_seeds() -> None:
    data = torch.linspace(-1, 1, 20).unsqueeze(1)
    phase = RiemannGrid(LINE, 7)

    def order(seed: int) -> list[Tensor]:
        spy = Spy()
        state = TrainState.start(spy, phase, torch.optim.SGD(spy.parameters(), 0.1), seed=seed)
        list(fit(state, phase, data, batch_size=5, steps=8))
        return spy.seen

    a, b, c = order(0), order(0), order(1)
    for epoch in (a[:4], a[4:]):
        assert torch.equal(torch.cat(epoch).sort().values, data.flatten())
    assert all(torch.equal(x, y) for x, y in zip(a, b, strict=True))
    assert not torch.equal(torch.cat(a[:4]), torch.cat(a[4:]))
    assert not torch.equal(torch.cat(a), torch.cat(c))


def test_averaged_weights_are_the_exponential_average() -> None:
    phase = RiemannGrid(LINE, 20)
    state = make(phase, average_decay=0.5)
    expected: list[Tensor] | None = None
    for _ in fit(state, phase, TARGET, batch_size=50, steps=5):
        raw = [p.detach().clone() for p in state.module.parameters()]
        expected = (
            raw
            if expected is None
            else [0.5 * e + 0.5 * p for e, p in zip(expected, raw, strict=True)]
        )
    assert expected is not None
    for a, b in zip(state.average.module.parameters(), expected, strict=True):
        torch.testing.assert_close(a.detach(), b)


def test_gradients_are_clipped_but_reported_as_they_were() -> None:
    phase = RiemannGrid(LINE, 20)

    def run(clip_norm: float | None) -> tuple[float, float]:
        torch.manual_seed(0)
        net = MLP(1, width=32)
        before = [p.detach().clone() for p in net.parameters()]
        state = TrainState.start(net, phase, torch.optim.SGD(net.parameters(), 1.0))
        state.clip_norm = clip_norm
        (record,) = fit(state, phase, TARGET, batch_size=50, steps=1)
        moved = sum(
            float((a.detach() - b).square().sum())
            for a, b in zip(net.parameters(), before, strict=True)
        )
        return record.gradient_norm, math.sqrt(moved)

    norm, moved = run(None)
    assert moved == pytest.approx(norm, rel=1e-3)
    clipped_norm, clipped_moved = run(norm / 10)
    assert clipped_norm == norm
    assert clipped_moved == pytest.approx(norm / 10, rel=1e-3)


@pytest.mark.parametrize("even", [Leveled(2.0), Tempered(2.0)], ids=["leveled", "tempered"])
def test_objectives_even_out_the_energies_of_the_data(even: Objective) -> None:
    """Rare data then get an energy nearer to that of common data, and the rest stays far away."""
    phase = RiemannGrid(LINE, 100)
    rare, common = (TARGET.sample(2000, generator(k)) for k in range(2))
    rare, common = rare[rare[:, 0] < -0.2], common[common[:, 0] > 0.1]

    def gap(objective: Objective) -> tuple[float, float]:
        state = make(phase, average_decay=0.9)
        for _ in fit(state, phase, TARGET, batch_size=500, steps=300, objective=objective):
            pass
        with torch.no_grad():
            energy = state.average.module
            between = energy(torch.full((1, 1), -0.05)) - energy(common).mean()
            return (energy(rare).mean() - energy(common).mean()).item(), between.item()

    likelihood, level = gap(Likelihood()), gap(even)
    # Weights 0.3 and 0.7 of equal widths: maximum likelihood has log(7/3) between them.
    assert likelihood[0] == pytest.approx(math.log(7 / 3), abs=0.2)
    assert level[0] < 0.5 * likelihood[0]
    assert level[1] > 1.0


def test_the_scheduler_follows_the_updates() -> None:
    phase = RiemannGrid(LINE, 20)
    torch.manual_seed(0)
    net = MLP(1, width=8)
    optimizer = torch.optim.Adam(net.parameters(), 1.0e-3)
    scheduler = StepLR(optimizer, step_size=2, gamma=0.1)
    state = TrainState.start(net, phase, optimizer, scheduler=scheduler)
    rates = [
        optimizer.param_groups[0]["lr"] for _ in fit(state, phase, TARGET, batch_size=5, steps=4)
    ]
    assert rates == pytest.approx([1e-3, 1e-4, 1e-4, 1e-5])


class Exploding(nn.Module):
    """An energy that is fine until its weight passes a bound."""

    def __init__(self, explode: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))
        self.explode = explode

    def forward(self, x: Tensor) -> Tensor:
        energy = self.weight * x.sum(1)
        return self.explode(energy) if abs(self.weight.item()) > 1e-6 else energy


def test_a_divergence_stops_loudly_with_a_good_state() -> None:
    phase = PersistentUSP(domain=LINE, particles=20, spacing=0.05, active=5, nodes=20, rounds=2)
    net = Exploding(lambda e: e * float("nan"))
    state = TrainState.start(net, phase, torch.optim.SGD(net.parameters(), 0.1))
    data = torch.linspace(0, 1, 10).unsqueeze(1)
    with pytest.raises(
        DivergedError, match=r"update 2: .* of .* energies are not finite"
    ) as caught:
        list(fit(state, phase, data, batch_size=5, steps=10))
    assert caught.value.state is state
    assert state.step == 0  # the update that led there is taken back
    assert net.weight.item() == 0.0
    assert isinstance(state.negative, Particles)
    assert torch.isfinite(state.negative.points).all()


def test_an_infinite_loss_says_step_loss_and_effective_sample_size() -> None:
    """Nodes are fine but the data's energy is not: caught before the weights are touched."""
    phase = RiemannGrid(LINE, 20)
    net = Exploding(lambda e: e)
    state = TrainState.start(net, phase, torch.optim.SGD(net.parameters(), 0.1))

    class Far:
        """Finite when it is first looked at."""

        value = 0.0

        def sample(self, n: int, generator: object, dtype: torch.dtype) -> Tensor:
            drawn = torch.full((n, 1), self.value, dtype=dtype)
            self.value = float("inf")
            return drawn

    with pytest.raises(
        DivergedError, match=r"update 1: loss nan.*effective sample size 20\.0 of 20"
    ):
        list(fit(state, phase, Far(), batch_size=5, steps=2))
    assert net.weight.item() == 0.0


@pytest.mark.parametrize("replay", [False, True])
def test_a_law_beyond_the_domain_is_refused(replay: bool) -> None:
    sampler = Langevin(LINE, chains=5, steps=1, step_size=0.1, domain=LINE)
    phase = Replay(sampler, capacity=10) if replay else sampler
    with pytest.raises(ValueError, match="of the data lies outside"):
        next(fit(make(phase), phase, Gaussian((100.0,), std=0.1), batch_size=5, steps=1))


def test_bad_settings_are_refused() -> None:
    phase = RiemannGrid(LINE, 20)
    state = make(phase)
    optimizer = state.optimizer
    with pytest.raises(ValueError, match="batch_size=0"):
        next(fit(state, phase, TARGET, batch_size=0, steps=1))
    with pytest.raises(ValueError, match="batch_size=8 is more than the 5 data points"):
        next(fit(state, phase, torch.zeros(5, 1), batch_size=8, steps=1))
    with pytest.raises(ValueError, match=r"clip_norm=-1\.0"):
        state.clip_norm = -1.0
        next(fit(state, phase, TARGET, batch_size=5, steps=1))
    state.clip_norm = None
    with pytest.raises(ValueError, match="steps=-5"):
        next(fit(state, phase, TARGET, batch_size=5, steps=-5))
    with pytest.raises(ValueError, match=r"data is torch.uint8 of shape \(9, 1\)"):
        next(fit(state, phase, torch.zeros(9, 1, dtype=torch.uint8), batch_size=5, steps=1))
    with pytest.raises(ValueError, match="data is of type list"):
        next(fit(state, phase, [1.0], batch_size=5, steps=1))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"points of shape \(3,\)"):
        next(fit(state, phase, torch.zeros(9, 3), batch_size=5, steps=1))
    with pytest.raises(ValueError, match="100% of the data lies outside"):
        next(fit(state, phase, torch.full((9, 1), 50.0), batch_size=5, steps=1))
    with pytest.raises(ValueError, match="has no parameters"):
        TrainState.start(nn.Identity(), phase, optimizer)
    with pytest.raises(ValueError, match="not the module's"):
        TrainState.start(MLP(1), phase, optimizer)
    with pytest.raises(ValueError, match="NaN or infinite"):
        next(fit(state, phase, torch.full((5, 1), float("nan")), batch_size=5, steps=1))
    with pytest.raises(ValueError, match=r"average_decay=1\.0"):
        make(phase, average_decay=1.0)
    with pytest.raises(ValueError, match="ReduceLROnPlateau"):
        TrainState.start(state.module, phase, optimizer, scheduler=ReduceLROnPlateau(optimizer))
    with pytest.raises(ValueError, match="LBFGS"):
        TrainState.start(state.module, phase, torch.optim.LBFGS(state.module.parameters()))
