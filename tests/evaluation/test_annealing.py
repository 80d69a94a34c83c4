"""log Z against energies whose log Z is known, in 1, 2, 10 and 100 dimensions."""

import math
from functools import cache

import pytest
import torch
from torch import Tensor

from uspebm import Box, Gaussian, GaussianMixture
from uspebm.evaluation.annealing import Annealing, LogZ, importance_log_z
from uspebm.support.randomness import generator


def target(dim: int) -> Gaussian | GaussianMixture:
    if dim == 100:
        return Gaussian((0.1,) * dim, tuple(0.2 + 0.8 * k / dim for k in range(dim)))
    means = ((0.3,) + (0.0,) * (dim - 1), (-0.3,) + (0.0,) * (dim - 1))
    return GaussianMixture(means, 0.4, (0.3, 0.7))


@cache
def sandwich(dim: int) -> tuple[LogZ, LogZ]:
    q = target(dim)
    annealing = Annealing(
        Gaussian((0.0,) * dim, 0.8), chains=150, temperatures=300 if dim == 100 else 60
    )
    lower = annealing.lower(q, generator(0, "lower"))
    samples = q.sample(150, generator(0, "exact"), torch.float64)
    return lower, annealing.upper(q, samples, generator(0, "upper"))


@pytest.mark.parametrize("dim", [1, 2, 10, 100])
def test_the_truth_is_between_the_bounds(dim: int) -> None:
    exact = target(dim).log_z
    lower, upper = sandwich(dim)
    assert lower.value <= exact + 4 * lower.error + 1e-9
    assert upper.value >= exact - 4 * upper.error - 1e-9
    assert upper.value - lower.value < (3.0 if dim == 100 else 0.3) + 4 * (
        lower.error + upper.error
    )
    assert [bound.kind for bound in (lower, upper)] == ["lower bound", "upper bound"]


def test_a_base_that_is_a_box() -> None:
    box = Box(-1.0, 1.0, (2,))
    q = Gaussian((0.2, 0.0), 0.1)
    found = Annealing(box, chains=200, temperatures=200).lower(q, generator(0))
    assert found.value == pytest.approx(q.log_z, abs=6 * found.error + 0.02)


def test_an_energy_off_by_a_twentieth_is_noticed() -> None:
    """In 100 dimensions a width off by 5 % moves log Z by 5: outside the sandwich either way."""
    lower, upper = sandwich(100)
    for scale in (1.05, 1 / 1.05):
        wrong = target(100).log_z + 100 * math.log(scale)
        assert not lower.value - 1 <= wrong <= upper.value + 1


def test_importance_sampling_in_few_dimensions() -> None:
    q = target(2)
    found = importance_log_z(q, Gaussian((0.0, 0.0), 0.8), 20_000, generator(0))
    assert abs(found.value - q.log_z) < 6 * found.error
    assert found.kind == "estimate"
    assert found.ess > 1000


def test_a_proposal_that_misses_is_betrayed_by_its_effective_size() -> None:
    far = importance_log_z(target(10), Box(-30.0, 30.0, (10,)), 2000, generator(0))
    assert far.ess < 5


def test_without_the_metropolis_test_the_bound_would_break(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant that accepts every move: with long steps it leaves the target's law."""

    def always(n: int, **options: object) -> Tensor:
        return torch.zeros(n, dtype=torch.float64)

    annealing = Annealing(Gaussian((0.0,) * 10, 1.5), chains=200, temperatures=60)
    q = target(10)
    sizes = torch.full((61,), 0.75, dtype=torch.float64)
    monkeypatch.setattr(Annealing, "_pilot", lambda *_: sizes)
    exact = q.log_z

    def bound() -> LogZ:
        samples = q.sample(200, generator(5), torch.float64)
        return annealing.upper(q, samples, generator(1))

    honest = bound()
    monkeypatch.setattr(torch, "rand", always)
    mutant = bound()
    assert honest.value >= exact - 5 * honest.error
    assert abs(mutant.value - exact) > 2 * abs(honest.value - exact)
