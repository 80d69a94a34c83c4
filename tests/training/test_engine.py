"""Which code evaluates the energy, and that it makes no difference."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from uspebm import (
    MLP,
    Box,
    Conv,
    CrowdedUSP,
    Langevin,
    PersistentUSP,
    TrainState,
    fit,
    resume,
    save,
)
from uspebm.negative.persistent_usp import PersistentUSPInfo
from uspebm.neighbours import lists
from uspebm.neighbours import search as neighbours
from uspebm.support import compiled
from uspebm.support.randomness import generator
from uspebm.training.engine import Engine, available, choose_engine, energy_on, workspace_on

SHAPE = (1, 8, 8)
BOX = Box(-1.0, 1.0, SHAPE)
PHASE = PersistentUSP(
    domain=BOX, particles=40, spacing=4.0, active=20, nodes=40, rounds=3, ascent_size=1.0
)
DATA = BOX.sample(30, generator(0, "data"))


def small(seed: int = 0) -> Conv:
    torch.manual_seed(seed)
    return Conv(SHAPE, filters=(16, 16, 16), width=16)


def test_the_engine_follows_from_the_settings() -> None:
    assert choose_engine(small(), PHASE, steps=10) == "torch"  # not worth compiling
    assert choose_engine(small(), PHASE, steps=10_000) == "native"
    chains = Langevin(BOX, chains=100, steps=10, step_size=0.1, noise_scale=0.1)
    assert choose_engine(small(), chains, steps=10_000) == "native"
    # An MLP's gradients, and its points' neighbours, are worth compiling for in longer runs only.
    for phase in (PHASE, replace(PHASE, others=5), CrowdedUSP(phase=PHASE)):
        assert choose_engine(MLP(SHAPE), phase, steps=1_000) == "torch"
        assert choose_engine(MLP(SHAPE), phase, steps=10_000) == "native"
    assert choose_engine(MLP(SHAPE), chains, steps=400) == "torch"
    assert choose_engine(MLP(SHAPE), chains, steps=500) == "native"
    # Of a network that there is no compiled code for, it is the search that decides.
    own = nn.Sequential(MLP(SHAPE))
    assert choose_engine(own, PHASE, steps=10_000) == "native"
    assert choose_engine(own, replace(PHASE, others=5), steps=10_000) == "torch"
    assert choose_engine(own, chains, steps=10_000) == "torch"


def test_without_a_compiler_torch_is_used_and_one_line_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    compiled.library.cache_clear()
    assert choose_engine(small(), PHASE, steps=10_000) == "torch"
    (record,) = caplog.records
    assert "Using torch instead of compiled code" in record.getMessage()
    assert "\n" not in record.getMessage()
    # So does a run that was begun with compiled code elsewhere.
    state = start("native")
    next(fit(state, PHASE, DATA, batch_size=10, steps=2))
    assert state.engine == "torch"
    assert len(caplog.records) == 2


@pytest.mark.parametrize("module", [MLP(2).to("meta"), MLP(2).bfloat16()], ids=["device", "dtype"])
def test_a_run_goes_on_where_its_points_have_no_compiled_code(
    module: nn.Module, caplog: pytest.LogCaptureFixture
) -> None:
    assert available("native", module, PHASE) == "torch"
    assert "there is none for MLP as it is" in caplog.records[0].getMessage()


def test_columns_first_points_are_searched_too() -> None:
    module = MLP(2, width=8)
    phase = PersistentUSP(
        domain=Box(-1.0, 1.0, (2,)), particles=20, spacing=0.2, active=10, nodes=10
    )
    state = phase.start_at(torch.zeros(2, 20).T)
    phase.step(energy_on("native", module), state, generator(0), workspace_on("native"))


@pytest.mark.parametrize("spacing", [0.5, 4.0, 4.5])
@pytest.mark.parametrize("make", [small, lambda: MLP(SHAPE, width=16)], ids=["Conv", "MLP"])
def test_a_round_gives_the_same_points_on_either_engine(
    spacing: float, make: Callable[[], nn.Module]
) -> None:
    phase = replace(PHASE, rounds=1, spacing=spacing)
    module = make().double()
    ends = []
    engines: tuple[Engine, ...] = ("torch", "native")
    for engine in engines:
        state = phase.init(generator(0), torch.float64)
        nodes, state, info = phase.step(
            energy_on(engine, module), state, generator(1), workspace_on(engine)
        )
        ends.append((nodes, state, info))
    (a, points, told), (b, others, told_too) = ends
    torch.testing.assert_close(points.points, others.points, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(a.log_weight, b.log_weight, rtol=1e-10, atol=1e-12)
    assert told.violating == told_too.violating


def start(engine: Engine | None = None) -> TrainState:
    net = small()
    state = TrainState.start(net, PHASE, torch.optim.Adam(net.parameters(), 1e-2))
    state.engine = engine
    return state


def test_the_engine_is_kept_and_resuming_stays_exact(tmp_path: Path) -> None:
    def run(state: TrainState, steps: int) -> TrainState:
        for _ in fit(state, PHASE, DATA, batch_size=10, steps=steps):
            pass
        return state

    straight = run(start("native"), 6)
    save(run(start("native"), 2), tmp_path)
    resumed = start()
    assert resume(resumed, tmp_path)
    assert resumed.engine == "native"
    run(resumed, 6)
    for a, b in zip(straight.negative, resumed.negative, strict=True):
        assert torch.equal(a, b)
    for x, y in zip(straight.module.parameters(), resumed.module.parameters(), strict=True):
        assert torch.equal(x, y)
    # On the other engine the run would have been another one, if only in the last digits.
    other = run(start("torch"), 6)
    assert not torch.equal(other.negative[0], straight.negative[0])
    torch.testing.assert_close(other.negative[0], straight.negative[0], atol=0.05, rtol=0)


@pytest.mark.parametrize("engine", ["torch", "native"])
def test_resuming_is_exact_where_neighbours_are_found_by_sketches(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A resumed run sketches its points anew, lists others, and must find the same."""
    for name in ("LISTED", "LISTED_NATIVE"):
        monkeypatch.setattr(lists, name, 100)
    monkeypatch.setattr(lists, "REACH", 1.01)  # points leave their lists often
    monkeypatch.setattr(neighbours, "LOOSE", 1.0)  # sketches are used, however little they tell
    box = Box(-1.0, 1.0, (1, 12, 12))
    phase = PersistentUSP(
        domain=box, particles=200, spacing=9.6, active=40, nodes=60, rounds=6, repulsion_size=0.3
    )

    def begin() -> TrainState:
        torch.manual_seed(0)
        net = Conv(box.shape, filters=(16, 16, 16), width=16)
        optimiser = torch.optim.Adam(net.parameters(), 1e-2)
        state = TrainState.start(net, phase, optimiser)
        state.engine = engine
        return state

    data = box.sample(30, generator(0, "data"))
    straight, resumed = begin(), begin()
    for record in fit(straight, phase, data, batch_size=10, steps=6):
        assert isinstance(record.info, PersistentUSPInfo)
        assert 0 < record.info.violating < 1
    interrupted = begin()
    for _ in fit(interrupted, phase, data, batch_size=10, steps=3):
        pass
    save(interrupted, tmp_path)
    assert resume(resumed, tmp_path)
    for _ in fit(resumed, phase, data, batch_size=10, steps=6):
        pass
    assert torch.equal(straight.negative[0], resumed.negative[0])


def test_a_network_that_no_code_is_compiled_for_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """Such as that of images with sides above 64, which has a convolution more."""
    deep = Conv((1, 16, 16), filters=(16, 16, 16, 16), width=16)
    box = replace(PHASE, domain=Box(-1.0, 1.0, (1, 16, 16)))
    choose_engine(deep, box, steps=10_000)
    assert "no compiled code for filters [16, 16, 16, 16]" in caplog.text
    caplog.clear()
    choose_engine(deep, box, steps=1)
    choose_engine(small(), PHASE, steps=10_000)
    assert "no compiled code" not in caplog.text
