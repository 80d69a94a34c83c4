"""Langevin chains against exact laws, not against the limits they would reach some day."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from tests.laws import assert_law, normal_cdf
from uspebm import Box, Gaussian, Langevin
from uspebm.support.randomness import generator

STD = 0.5
CHAINS = 400_000


def run(phase: Langevin, energy: object = None) -> Tensor:
    state = phase.init(generator(0, "init"), torch.float64)
    target = Gaussian((0.0,), STD) if energy is None else energy
    nodes, _, _ = phase.step(target, state, generator(0, "step"))  # type: ignore[arg-type]
    return nodes.x


def ar1_std(phase: Langevin, start_std: float) -> float:
    """On a quadratic the chain is x' = a x + sqrt(beta) z: its width is known at each step."""
    a = 1 - 0.5 * phase.step_size / STD**2
    decay = a ** (2 * phase.steps)
    return math.sqrt(decay * start_std**2 + phase.beta * (1 - decay) / (1 - a**2))


@pytest.mark.parametrize("noise_scale", [None, 0.01, 0.3])
@pytest.mark.parametrize("steps", [1, 5, 30])
def test_every_step_has_the_law_of_an_ar1_process(steps: int, noise_scale: float | None) -> None:
    phase = Langevin(Gaussian((0.0,), 1.0), CHAINS, steps, 0.1, noise_scale)
    assert_law(run(phase), normal_cdf(ar1_std(phase, 1.0)))


def test_a_temperature_off_by_a_tenth_is_noticed() -> None:
    phase = Langevin(Gaussian((0.0,), 1.0), CHAINS, 30, 0.1)
    exact = normal_cdf(ar1_std(phase, 1.0))
    with pytest.raises(AssertionError):
        assert_law(run(replace(phase, noise_scale=0.11)), exact)
    with pytest.raises(AssertionError):
        assert_law(run(replace(phase, step_size=0.11, noise_scale=0.1)), exact)


def tilted_quartic(x: Tensor) -> Tensor:
    return (x**4 / 4 + 0.5 * x).sum(1)


GRID = torch.linspace(-3.5, 3.5, 701, dtype=torch.float64)


def cdf_on_grid(mass: Tensor) -> object:
    total = (mass / mass.sum()).cumsum(0) - 0.5 * mass / mass.sum()

    def cdf(x: Tensor) -> Tensor:
        position = (x - GRID[0]) / (GRID[1] - GRID[0])
        left = position.floor().long().clamp(0, len(GRID) - 2)
        return torch.lerp(total[left], total[left + 1], position - left)

    return cdf


def exact_chain_law(phase: Langevin) -> Tensor:
    """The law of the chain's end on a grid, by applying its transition kernel T times."""
    drift = GRID - 0.5 * phase.step_size * (GRID**3 + 0.5)
    kernel = torch.exp(-((GRID.unsqueeze(1) - drift) ** 2) / (2 * phase.beta))
    kernel = kernel / kernel.sum(0)
    start = torch.exp(-0.5 * GRID**2)
    law: Tensor = torch.linalg.matrix_power(kernel, phase.steps) @ (start / start.sum())
    return law


def sharpened(rho: float) -> Tensor:
    mass = torch.exp(-rho * tilted_quartic(GRID.unsqueeze(1)))
    return mass / mass.sum()


def gap(a: Tensor, b: Tensor) -> float:
    return (a.cumsum(0) - b.cumsum(0)).abs().max().item()


@pytest.mark.parametrize("rho", [0.5, 1.0, 4.0])
def test_decoupled_chains_sample_the_sharpened_law(rho: float) -> None:
    """Prop. 2, in two parts: the samples have the chain's exact law; that law tends to q^rho."""
    phase = Langevin(Gaussian((0.0,), 1.0), 50_000, 900, 0.02 * rho, 0.02)
    law = exact_chain_law(phase)
    assert_law(run(phase, tilted_quartic), cdf_on_grid(law))  # type: ignore[arg-type]

    # A step half as long and twice as many of them: half the bias.
    finer = replace(phase, step_size=0.01 * rho, noise_scale=0.01, steps=1800)
    coarse_bias, fine_bias = gap(law, sharpened(rho)), gap(exact_chain_law(finer), sharpened(rho))
    assert fine_bias < 0.01
    assert coarse_bias / fine_bias == pytest.approx(2.0, rel=0.1)


def test_the_sharpened_law_is_told_from_its_neighbours() -> None:
    phase = Langevin(Gaussian((0.0,), 1.0), 100_000, 300, 0.08, 0.02)
    with pytest.raises(AssertionError):
        assert_law(run(phase, tilted_quartic), cdf_on_grid(sharpened(3.5)))  # type: ignore[arg-type]
    with pytest.raises(AssertionError):
        mutant = replace(phase, noise_scale=0.022)
        assert_law(run(mutant, tilted_quartic), cdf_on_grid(exact_chain_law(phase)))  # type: ignore[arg-type]


def test_rho_is_reported() -> None:
    q0 = Gaussian((0.0,), 1.0)
    short_run = Langevin(q0, 10, 2, step_size=1e-3, noise_scale=1e-4)
    *_, info = short_run.step(q0, short_run.init(generator(0)), generator(1))
    assert info.rho == pytest.approx(10.0)
    assert Langevin(q0, 10, 2, step_size=1e-3).rho == 1.0


def test_projection_keeps_chains_inside() -> None:
    box = Box(-0.3, 0.3, (1,))
    free = Langevin(box, 1000, 10, 0.1)
    assert not box.contains(run(free)).all()
    assert box.contains(run(replace(free, domain=box))).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"chains": 0}, "chains=0"),
        ({"steps": -1}, "steps=-1"),
        ({"steps": 1.5}, "steps=1.5"),
        ({"step_size": -0.1}, "step_size=-0.1"),
        ({"noise_scale": 0.0}, "noise_scale=0.0"),
        ({"step_size": float("nan")}, "step_size=nan"),
    ],
)
def test_bad_settings_are_refused(change: dict[str, float], message: str) -> None:
    phase = Langevin(Gaussian((0.0,)), 10, 2, 0.1)
    with pytest.raises(ValueError, match=message):
        replace(phase, **change)  # type: ignore[arg-type]
