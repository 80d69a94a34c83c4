"""From the user's numbers to log-densities."""

import math

import torch
from torch import Tensor, nn

from uspebm.randomness import generator
from uspebm.reference import KernelReference, TiltedEnergy
from uspebm.scaling import Scaling
from uspebm.scorer import ROWS, Scorer


class Nothing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.new_zeros(len(x))


def one_gaussian(unit: float) -> Scorer:
    """N(10, unit²) in one dimension."""
    scaling = Scaling(torch.tensor([10.0]), torch.tensor(1 / unit))
    energy = TiltedEnergy(Nothing(), KernelReference(torch.zeros(1, 1), 1.0))
    return Scorer(scaling, energy, -scaling.log_det)


def test_scores_are_log_densities_in_the_users_units() -> None:
    x = torch.tensor([[10.0], [12.0], [4.0]])
    exact = torch.distributions.Normal(10.0, 4.0).log_prob(x.double()).flatten()
    torch.testing.assert_close(one_gaussian(4.0)(x), exact)


def test_the_constant_is_saved_with_the_weights() -> None:
    scorer, other = one_gaussian(4.0), one_gaussian(1.0)
    other.load_state_dict(scorer.state_dict())
    x = torch.randn(5, 1, generator=generator(0))
    assert torch.equal(other(x), scorer(x))
    assert math.isclose(other.log_normaliser.item(), math.log(4))


def test_many_points_are_scored_in_parts() -> None:
    scorer = one_gaussian(2.0)
    x = torch.randn(2 * ROWS + 3, 1, generator=generator(0))
    torch.testing.assert_close(scorer.in_parts(x), scorer(x), rtol=1e-12, atol=1e-12)
    assert scorer.in_parts(x[:0]).shape == (0,)


def test_no_number_is_too_large() -> None:
    scorer = one_gaussian(1e-6)
    scores = scorer(torch.tensor([[1e10], [1e50], [-1e300], [1.7e308]], dtype=torch.float64))
    assert torch.isfinite(scores).all()
    assert scores[0] > scores[1] > scores[2]
