from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from uspebm import (
    Box,
    Gaussian,
    GaussianMixture,
    Langevin,
    NonFiniteError,
    Reconstruction,
    Replay,
    TrainState,
    fit,
    resume,
    save,
)
from uspebm.energies.gradient import energy_gradient
from uspebm.negative import Interpolated, ReplayState
from uspebm.negative.interpolated import LineSlopes
from uspebm.support.randomness import generator
from uspebm.types import Energy

LINE = Box(-1.0, 1.0, (1,))
WIDER = Box(-1.5, 1.5, (1,))
MODES = GaussianMixture(((-0.5,), (0.5,)), std=0.2)
CHAINS = Langevin(LINE, chains=200, steps=40, step_size=1e-3, noise_scale=1e-4)


def worst(energy: Energy, cells: int) -> float:
    """The largest error of the slope, between the first and the last point it is known at."""
    points = WIDER.grid(cells, torch.float64)
    at = torch.linspace(points[0].item(), points[-1].item(), 20_011, dtype=torch.float64)
    at = at.unsqueeze(1)
    _, slope = LineSlopes(energy, points).value_and_gradient(at)
    return (slope - energy_gradient(energy, at)).abs().max().item()


def third_derivative(x: Tensor) -> Tensor:
    """Of the mixture's energy, by autograd."""
    x = x.requires_grad_()
    value = MODES(x)
    for _ in range(3):
        (value,) = torch.autograd.grad(value.sum(), x, create_graph=True)
    return value.detach()


def test_the_error_is_within_its_bound_and_of_second_order() -> None:
    steepest = third_derivative(WIDER.grid(20_000, torch.float64)).abs().max().item()
    for cells in (100, 200, 400):
        h = 3.0 / cells
        assert worst(MODES, cells) <= h**2 * steepest / 8
    # Read off the nearest point instead, it would be of first order: a ratio of two.
    assert worst(MODES, 200) / worst(MODES, 400) == pytest.approx(4, rel=0.1)


@pytest.mark.parametrize("jump", [0.0, 0.5])
def test_a_kink_costs_its_jumps_and_only_between_the_points_beside_it(jump: float) -> None:
    """E' jumps by ``jump`` at 0.1, and E'' from 8 to 2."""

    def kinked(x: Tensor) -> Tensor:
        off = x.squeeze(1) - 0.1
        return torch.where(off > 0, off.square() + jump * off, 4 * off.square())

    points, h = WIDER.grid(50, torch.float64), 3.0 / 50
    at = torch.linspace(-1.4, 1.4, 9999, dtype=torch.float64).unsqueeze(1)
    found = LineSlopes(kinked, points).value_and_gradient(at)[1]
    error = (found - energy_gradient(kinked, at)).abs()
    assert error.max() <= jump + 6 * h
    assert error[(at - 0.1).abs() > h].max() < 1e-12


def test_the_energy_is_asked_once_an_update_and_only_where_it_is_to_be() -> None:
    """Chains that asked it themselves would end in the same places."""
    asked = []

    def energy(x: Tensor) -> Tensor:
        asked.append(x.detach().clone())
        return Gaussian((0.2,), 0.3)(x)

    phase = Interpolated(CHAINS, WIDER, cells=30)
    phase.step(energy, phase.init(generator(0)), generator(1))
    (points,) = asked
    assert torch.equal(points, WIDER.grid(30))
    assert phase.gradients == len(points)


@pytest.mark.parametrize("sampler", [CHAINS, Replay(CHAINS, capacity=500)])
def test_chains_end_where_those_that_ask_the_energy_end(sampler: Any) -> None:
    """Exactly, where the slope is linear: what is left is rounding."""
    energy, ends = Gaussian((0.2,), 0.3), []
    for phase in (sampler, Interpolated(sampler, WIDER, cells=300)):
        state = phase.init(generator(0), torch.float64)
        for k in range(3):
            nodes, state, info = phase.step(energy, state, generator(k, "step"))
        assert info == (10.0,)
        ends.append((*nodes, *state))
    for direct, read in zip(*ends, strict=True):
        torch.testing.assert_close(read, direct, atol=1e-9, rtol=0)


def test_slopes_are_of_the_energy_as_it_is_now() -> None:
    phase = Interpolated(replace(CHAINS, step_size=0.5, steps=100), WIDER, cells=50)
    state = phase.init(generator(0))
    for centre in (-0.7, 0.7):
        nodes, state, _ = phase.step(Gaussian((centre,), 1.0), state, generator(1))
        assert nodes.x.mean().item() == pytest.approx(centre, abs=0.02)


def test_an_energy_that_is_no_number_is_refused() -> None:
    phase = Interpolated(CHAINS, WIDER, cells=50)
    with pytest.raises(NonFiniteError):
        phase.step(lambda x: (x.squeeze(1) - 1).log(), phase.init(generator(0)), generator(1))
    lost = Replay(CHAINS, capacity=200, refresh=0.0)
    with pytest.raises(NonFiniteError, match="energies are not finite"):
        Interpolated(lost, WIDER, cells=50).step(
            MODES, ReplayState(torch.full((200, 1), torch.nan)), generator(1)
        )


def test_a_run_goes_on_exactly(tmp_path: Path) -> None:
    phase = Interpolated(Replay(CHAINS, capacity=300), WIDER, cells=50)

    def begun() -> TrainState:
        torch.manual_seed(0)
        net = Reconstruction(1, width=16)
        return TrainState.start(net, phase, torch.optim.SGD(net.parameters(), 0.01))

    whole, part = begun(), begun()
    list(fit(whole, phase, MODES, batch_size=50, steps=10))
    list(fit(part, phase, MODES, batch_size=50, steps=4))
    save(part, tmp_path / "4.ckpt")
    again = begun()
    resume(again, tmp_path / "4.ckpt")
    list(fit(again, phase, MODES, batch_size=50, steps=10))
    assert all(map(torch.equal, whole.module.parameters(), again.module.parameters()))
    assert torch.equal(whole.negative[0], again.negative[0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"interval": Box(-1.0, 1.0, (2,)), "cells": 9}, "must be one of a line"),
        ({"interval": WIDER, "cells": 1}, "cells=1"),
    ],
)
def test_settings_that_make_no_line_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Interpolated(CHAINS, **arguments)
