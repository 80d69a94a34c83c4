import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from uspebm import MLP, Box, Conv, Langevin, Particles, PersistentUSP
from uspebm.appendix import MIXTURE_PS_USP
from uspebm.bench import cases, straightforward
from uspebm.bench.timing import race
from uspebm.cli import main
from uspebm.engine import Engine, energy_on
from uspebm.randomness import generator


@pytest.fixture
def threads_put_back() -> Iterator[None]:
    """Puts the number of threads back."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("shape", "spacing", "rounds", "repulsion"),
    [
        ((2,), 0.12, 12, 0.02),
        ((200,), 11.6, 12, 0.02),
        ((2, 5), 1.8, 8, 0.02),
    ],
)
@pytest.mark.parametrize("engine", ["torch", "native"])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.usefixtures("threads_put_back")
def test_the_library_makes_the_straightforward_moves(
    shape: tuple[int, ...],
    spacing: float,
    rounds: int,
    repulsion: float,
    engine: Engine,
    threads: int,
) -> None:
    """Many rounds with all short cuts end where those without any end."""
    torch.manual_seed(0)
    net, box = MLP(shape, width=16).double(), Box(-1.0, 1.0, shape)
    phase = PersistentUSP(
        domain=box,
        particles=150,
        spacing=spacing,
        active=40,
        nodes=60,
        rounds=rounds,
        repulsion_size=repulsion * spacing,
    )
    torch.set_num_threads(threads)
    points = box.sample(150, generator(0), torch.float64)
    energy = energy_on(engine, net)
    nodes, state, info = phase.step(energy, Particles(points.clone()), generator(1))
    x, log_weight = straightforward.ps_usp(net, points, phase, generator(1))
    assert 0 < info.violating < 1
    torch.testing.assert_close(state.points, points, rtol=1e-7, atol=1e-9)
    torch.testing.assert_close(nodes.x, x, rtol=1e-7, atol=1e-9)
    torch.testing.assert_close(nodes.log_weight, log_weight, rtol=1e-7, atol=1e-9)


def test_chains_are_the_same_too() -> None:
    torch.manual_seed(0)
    net, box = MLP(3, width=8).double(), Box(-1.0, 1.0, (3,))
    phase = Langevin(box, chains=10, steps=5, step_size=0.01, noise_scale=0.002, domain=box)
    x = box.sample(10, generator(0), torch.float64)
    ours = phase.run(net, x, generator(1))
    torch.testing.assert_close(ours, straightforward.langevin(net, x, phase, generator(1)))


def test_multiplications_are_counted_as_the_layers_define_them() -> None:
    forward = 28 * 28 * 32 * 9 + 14 * 14 * 64 * 32 * 9 + 7 * 7 * 128 * 64 * 9 + 1152 * 128 + 128
    assert cases.multiplications(Conv(), (1, 28, 28)) == 2 * forward


def test_images_are_as_far_apart_as_they_say() -> None:
    x = cases.images(10_000).flatten(1)
    distance = torch.cdist(x[:200], x)
    distance[range(200), range(200)] = torch.inf
    assert 7.0 < distance.min(1).values.median() < 9.5
    assert 0.002 < (distance < 10).double().mean() < 0.01


def test_a_race_takes_turns() -> None:
    order: list[str] = []
    timings = race({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, repeats=3)
    assert order == ["a", "b"] * 4
    assert all(t.low <= t.median <= t.high for t in timings.values())


def test_the_command_reports_every_ratio(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from uspebm.bench import report

    monkeypatch.setattr(
        cases, "MIXTURE_PS_USP", replace(MIXTURE_PS_USP, particles=500, active=50, nodes=500)
    )
    monkeypatch.setattr(report, "QUICK", replace(report.QUICK, repeats=1))
    path = tmp_path / "figures.json"
    assert main(["bench", "--quick", "--json", str(path), "--out", str(tmp_path)]) == 0
    content = json.loads(path.read_text())
    assert content["ratios"].keys() >= {
        "cnn_gradient_vs_plain",
        "cnn_share_of_peak",
        "langevin_vs_torchebm",
        "ps_usp_50k_vs_straightforward",
        "ps_usp_50k_vs_10k",
        "ps_usp_2d_vs_straightforward",
    }
    assert content["ratios"]["cnn_gradient_vs_plain"] > 0
    for kind, size in (("n", "1000"), ("active", "50"), ("side", "64")):
        assert content["memory"][kind][size]["peak"] > 0
        assert content["growth"][kind][size]["median"] > 0
    assert 0 < content["compilation"] < 60
    assert (tmp_path / "bench.png").exists()
    assert "ratio" in capsys.readouterr().out
