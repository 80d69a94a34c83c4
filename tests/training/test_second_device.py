"""Everything that trains does so on a second device, with the numbers of the first.

The device (tests/second_device.py) is one for all of torch, so it is made in a process of its own.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.phases import BOX, PHASES
from tests.recipes.common import small_images
from tests.training.processes import in_processes
from uspebm import MLP, Box, CrowdedUSP, PersistentUSP, Recipe, Replay, TrainState, fit
from uspebm.energies.rules import ConvRule, MLPRule
from uspebm.negative import Langevin, RandomFields
from uspebm.objective import Leveled
from uspebm.recipes import AtData, Run, Schedule
from uspebm.support.randomness import generator

POINTS = BOX.sample(64, generator(0, "data"))
SHAPE = (1, 8, 8)
IMAGES = Box(-1.0, 1.0, SHAPE)
CROWDED = CrowdedUSP(
    phase=PersistentUSP(
        domain=IMAGES, particles=40, spacing=5.0, active=10, nodes=20, rounds=3, ascent_size=1.0
    ),
    restarts=1.5,
    fresh=RandomFields(SHAPE),
)
SRLMC = Replay(Langevin(IMAGES, 8, 3, step_size=1.0, noise_scale=0.01, domain=IMAGES), capacity=20)
SCHEDULE = Schedule(updates=4, batch_size=8, snapshot_every=2)
RECIPES = {
    "images": Recipe(
        *("images", ConvRule((16, 16, 16), width=16), CROWDED, SCHEDULE, Leveled(2.0)),
        start=AtData(0.1),
    ),
    "srlmc": Recipe("srlmc", ConvRule((16, 16, 16), width=16), SRLMC, SCHEDULE, noise=0.1),
    "plane": Recipe("plane", MLPRule(8), PHASES["ps-usp"], SCHEDULE),
}


def trained(name: str, device: str) -> dict[str, Tensor]:
    """Weights after three updates by the phase of that name."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = MLP(2, width=8).to(device)
    phase = PHASES[name]
    state = TrainState.start(net, phase, torch.optim.Adam(net.parameters(), 1e-2))
    for _ in fit(state, phase, POINTS, batch_size=16, steps=3):
        pass
    assert {part.device.type for part in state.negative} == {torch.device(device).type}
    return {name: value.cpu() for name, value in net.state_dict().items()}


def run(name: str, device: str, folder: Path) -> dict[str, Tensor]:
    """Weights that a run in a folder comes to, in two halves."""
    recipe = RECIPES[name]
    data = POINTS if name == "plane" else small_images(60)
    for until in (2, 4):
        one = Run(recipe, data, folder / device[:3], 0, show=False, device=device)
        for record in one:
            if record.step == until:
                break
    assert one.state.step == 4
    return {name: value.cpu() for name, value in one.energy.state_dict().items()}


def near_sample(self: Box, n: int, generator: torch.Generator, dtype: torch.dtype) -> Tensor:
    """The mutant: draws with the device's generator, and says nothing of the device."""
    return torch.rand(n, *self.shape, generator=generator, dtype=dtype)


def near_edge(self: Box, name: str, like: Tensor) -> Tensor:
    """The mutant: numbers that stay behind."""
    return torch.tensor(getattr(self, name), dtype=like.dtype)


FORGOTTEN = {"sample": near_sample, "_edge": near_edge}


def far_away(work: Callable[..., Any], name: str, *more: Any) -> Any:
    """What ``work`` gives on the second device, in this process, which is none of the tests'."""
    from tests.second_device import second_device

    with second_device() as device:
        return work(name, device, *more)


def every(forgotten: str | None = None) -> dict[str, Any]:
    """Of every phase the weights, or what went wrong."""
    if forgotten is not None:
        setattr(Box, forgotten, FORGOTTEN[forgotten])
    found: dict[str, Any] = {}
    for name in PHASES:
        try:
            found[name] = far_away(trained, name)
        except RuntimeError as error:
            found[name] = f"{type(error).__name__}: {error}"
    return found


def test_every_phase_trains_there_with_the_same_numbers() -> None:
    (found,) = in_processes(1, every)
    expected = {name: trained(name, "cpu") for name in PHASES}
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


@pytest.mark.parametrize("forgotten", FORGOTTEN)
def test_a_device_that_was_forgotten_is_noticed(forgotten: str) -> None:
    (found,) = in_processes(1, every, forgotten)
    for name in ("uniform importance", "short-run", "usp", "ps-usp sampled"):  # they use the box
        assert str(found[name]).startswith("WrongDeviceError"), found[name]


@pytest.mark.parametrize("name", RECIPES)
def test_a_run_goes_on_there_with_the_same_numbers(name: str, tmp_path: Path) -> None:
    (found,) = in_processes(1, far_away, run, name, tmp_path)
    torch.testing.assert_close(found, run(name, "cpu", tmp_path), rtol=0, atol=0)
