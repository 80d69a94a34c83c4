import math

import pytest
import torch

from uspebm import Box, Gaussian, grid_density
from uspebm.evaluation.uniform_bound import least_bits_per_dimension
from uspebm.support.randomness import generator

BOX = Box(-1.0, 1.0, (2,))


@pytest.mark.parametrize("std", [0.3, 1.0, 5.0])
def test_it_is_below_the_truth_and_meets_it_where_the_model_is_flat(std: float) -> None:
    q = Gaussian((0.0, 0.0), std)
    x = BOX.project(q.sample(4000, generator(0), torch.float64))
    log_z = grid_density(q, BOX, 400, torch.float64).log_z
    truth = (q(x).mean().item() + log_z) / (2 * math.log(2)) + 7
    bound = least_bits_per_dimension(q, x, BOX, draws=20_000)
    assert bound <= truth + 1e-3
    if std == 5.0:
        assert bound == pytest.approx(truth, abs=1e-3)


def test_a_constant_changes_nothing() -> None:
    q = Gaussian((0.0, 0.0), 0.5)
    x = torch.zeros(10, 2)
    assert least_bits_per_dimension(lambda v: q(v) + 7, x, BOX) == pytest.approx(
        least_bits_per_dimension(q, x, BOX), abs=1e-6
    )
