"""Threads and forked workers give the very numbers that one thread of one process gives."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import nn

from uspebm import Box, EnergyDetector, RiemannGrid, TrainState, fit, load

FORKED = """
import multiprocessing, sys
import numpy as np, torch
from uspebm import load
torch.set_num_threads(2)
model = load("fashion-mnist")
images = np.random.default_rng(0).integers(0, 256, (600, 28, 28), dtype=np.uint8)
mine = model.score_samples(images)
with multiprocessing.get_context("fork").Pool(2) as pool:
    theirs = np.concatenate(pool.map(model.score_samples, [images[:300], images[300:]]))
print(np.abs(mine - theirs).max())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not fork by default")
def test_forked_workers_score_after_the_parent_did() -> None:
    """Without more ado they wait for ever for threads that only the parent has."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKED],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert float(done.stdout) < 1e-5


def scores(seed: int) -> list[float]:
    X = np.random.default_rng(0).normal(size=(120, 3))
    detector = EnergyDetector(max_updates=20, random_state=seed).fit(X)
    found: list[float] = detector.score_samples(X[:5]).tolist()
    return found


def test_seeds_hold_in_threads() -> None:
    alone = [scores(seed) for seed in range(6)]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(scores, [*range(6), *range(6)]))
    assert together == [*alone, *alone]


class Drops(nn.Module):
    """An energy that draws from torch's global generator, as one for all threads there is."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(1, 8), nn.Dropout(0.5), nn.Linear(8, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        energy: torch.Tensor = self.net(x).squeeze(1)
        return energy


def trained(module: nn.Module, seed: int) -> list[float]:
    phase = RiemannGrid(Box(-1.0, 1.0, (1,)), 20)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.fill_(0.1)
    state = TrainState.start(module, phase, torch.optim.SGD(module.parameters(), 0.1), seed=seed)
    for _ in fit(state, phase, torch.linspace(-0.5, 0.5, 40)[:, None], batch_size=10, steps=30):
        pass
    return [value for p in module.parameters() for value in p.flatten().tolist()]


def test_modules_that_draw_do_so_by_their_seed_in_threads_too() -> None:
    alone = [trained(Drops(), seed) for seed in range(4)]
    modules = [Drops() for _ in range(8)]  # made before, since making one draws, too
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(trained, modules, [*range(4), *range(4)]))
    assert together == [*alone, *alone]


def test_loading_and_fitting_leave_the_global_generator_alone() -> None:
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    load("fashion-mnist")
    scores(0)
    assert torch.equal(torch.rand(4), expected)
