import math

import pytest
import torch

from uspebm import Box, Gaussian, GaussianMixture, grid_density
from uspebm.density import kl, mass_by_nearest, ood_share, region

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
