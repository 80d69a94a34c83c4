"""The library's short cuts against the moves without any."""

from collections.abc import Iterator

import pytest
import torch

from uspebm import MLP, Box, Langevin, Particles, PersistentUSP
from uspebm.bench import straightforward
from uspebm.support.randomness import generator
from uspebm.training.engine import Engine, energy_on, workspace_on


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
    nodes, state, info = phase.step(
        energy, Particles(points.clone()), generator(1), workspace_on(engine)
    )
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
