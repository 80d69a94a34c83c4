import math

import pytest
import torch
from torch import Tensor

from tests.laws import assert_law
from uspebm import Box, Gaussian, GaussianMixture, grid_density
from uspebm.evaluation.annealing import importance_log_z
from uspebm.evaluation.grid_density import GridDensity, kl, mass_by_nearest, ood_share, region
from uspebm.support.randomness import generator

BOX = Box(-2.0, 2.0, (2,))
P = grid_density(GaussianMixture(((-1.0, 0.0), (1.0, 0.0)), 0.2, (0.25, 0.75)), BOX, 200)


def test_kl_of_two_gaussians_is_the_closed_form() -> None:
    line = Box(-3.0, 3.0, (1,))
    p, q = (
        grid_density(Gaussian((m,), s), line, 2000, torch.float64)
        for m, s in ((0.1, 0.3), (0, 0.4))
    )
    exact = math.log(0.4 / 0.3) + (0.3**2 + 0.1**2) / (2 * 0.4**2) - 0.5
    assert kl(p, q) == pytest.approx(exact, abs=1e-7)
    assert kl(p, p) == 0.0


def test_mass_by_nearest() -> None:
    masses = mass_by_nearest(P, torch.tensor([[-1.0, 0.0], [1.0, 0.0]]))
    assert masses == pytest.approx([0.25, 0.75], abs=1e-5)
    assert P.mass.sum().item() == pytest.approx(1.0)


def test_region_holds_its_mass_and_is_the_smallest() -> None:
    gaussian = grid_density(Gaussian((0.0, 0.0), 0.3), BOX, 400)
    inside = region(gaussian, 0.99)
    assert gaussian.mass[inside].sum().item() == pytest.approx(0.99, abs=1e-3)
    radius = 0.3 * math.sqrt(-2 * math.log(0.01))
    assert torch.equal(inside, inside & (gaussian.x.norm(dim=1) < radius + 0.02))


def test_ood_share() -> None:
    assert ood_share(P, P) == 0.0
    # A flat density is above its own median nowhere.
    assert ood_share(P, grid_density(lambda x: 0.0 * x.sum(1), BOX, 200)) == 0.0
    # One that prefers the wrong place: nearly all of the OOD region is denser than the data.
    wrong = grid_density(lambda x: -P.log_q.float(), BOX, 200)._replace(log_q=-P.log_q)
    assert ood_share(P, wrong) > 0.99


OBLONG = Box((-1.0, 0.0), (1.0, 3.0))
TILTED = grid_density(lambda x: 2 * x[:, 0] - 0.5 * x[:, 1], OBLONG, 6, torch.float64)
"""Few cells, and every axis another: coordinates that are mixed up show."""


def test_the_log_density_is_that_of_the_cell() -> None:
    torch.testing.assert_close(TILTED.log_prob(TILTED.x), TILTED.log_q)
    finer = OBLONG.grid(60, torch.float64)
    torch.testing.assert_close(
        TILTED.log_prob(finer).exp().mean() * OBLONG.volume, torch.tensor(1.0, dtype=torch.float64)
    )
    corners = torch.tensor([[-1.0, 0.0], [1.0, 3.0], [-1.0, 3.0]])
    assert torch.equal(TILTED.log_prob(corners), TILTED.log_q[[0, 35, 5]].float())


def test_outside_the_box_there_is_nothing() -> None:
    outside = torch.tensor([[-1.1, 1.0], [0.0, 3.1], [math.nan, 1.0], [math.inf, 1.0]])
    assert (TILTED.log_prob(outside) == -math.inf).all()
    with pytest.raises(ValueError, match=r"GridDensity takes points of shape \(N, 2\)"):
        TILTED.log_prob(torch.zeros(4, 3))


def along(q: GridDensity, axis: int) -> Tensor:
    """The mass of the cells along one axis."""
    return q.mass.view(q.cells, q.cells).sum(1 - axis)


def assert_drawn(x: Tensor, q: GridDensity) -> None:
    """Along each axis the distribution function is linear on every cell."""
    for axis, (low, high) in enumerate(((-1.0, 1.0), (0.0, 3.0))):
        total = torch.cat([torch.zeros(1), along(q, axis).cumsum(0)]).double()

        def cdf(v: Tensor, low: float = low, high: float = high, total: Tensor = total) -> Tensor:
            place = (v - low) / (high - low) * q.cells
            left = place.long().clamp(0, q.cells - 1)
            return torch.lerp(total[left], total[left + 1], place - left)

        assert_law(x[:, axis], cdf)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_draws_are_uniform_in_cells_by_mass(dtype: torch.dtype) -> None:
    x = TILTED.sample(100_000, generator(0), dtype)
    assert x.dtype == dtype
    assert OBLONG.contains(x).all()
    assert_drawn(x.double(), TILTED)
    # Both axes together: every cell has the share of the draws that it should.
    count = torch.bincount(OBLONG.cell_of(x, 6), minlength=36)
    error = (TILTED.mass * (1 - TILTED.mass) / len(x)).sqrt()
    assert ((count / len(x) - TILTED.mass).abs() < 6 * error).all()


def test_draws_of_another_law_are_noticed() -> None:
    """The mutants: a temperature that is a tenth off, and cells drawn as their midpoints."""
    warmer = grid_density(lambda x: 1.8 * x[:, 0] - 0.45 * x[:, 1], OBLONG, 6, torch.float64)
    x = TILTED.sample(100_000, generator(0), torch.float64)
    with pytest.raises(AssertionError):
        assert_drawn(warmer.sample(100_000, generator(0), torch.float64), TILTED)
    with pytest.raises(AssertionError):
        assert_drawn(TILTED.x[OBLONG.cell_of(x, 6)], TILTED)


def test_it_is_a_law_to_weigh_by() -> None:
    """A rough grid of a density is a proposal for the density itself, with a known log Z."""
    target = Gaussian((0.0, 0.0), 0.3)
    rough = grid_density(target, BOX, 20)
    found = importance_log_z(target, rough, 20_000, generator(0))
    assert found.value == pytest.approx(target.log_z, abs=5 * found.error)
    assert found.error < 0.01
