"""From the user's numbers to scores."""

import math

import pytest
import torch
from torch import Tensor, nn

from uspebm.detector.scorer import SCORED, Scorer, calibration_scores
from uspebm.energies.kernel import KernelReference, TiltedEnergy
from uspebm.energies.scaling import Scaling, as_is
from uspebm.support.randomness import generator


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
    x = torch.randn(2 * SCORED + 3, 1, generator=generator(0))
    torch.testing.assert_close(scorer.in_parts(x), scorer(x), rtol=1e-12, atol=1e-12)
    assert scorer.in_parts(x[:0]).shape == (0,)


def test_no_number_is_too_large() -> None:
    scorer = one_gaussian(1e-6)
    scores = scorer(torch.tensor([[1e10], [1e50], [-1e300], [1.7e308]], dtype=torch.float64))
    assert torch.isfinite(scores[:2]).all()
    assert scores[0] > scores[1]
    assert (scores[2:] == -math.inf).all()  # beyond what has a square


class Nowhere(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.new_full((len(x),), math.nan)


class Records(nn.Module):
    """An energy that remembers what it was given."""

    def __init__(self, dtype: torch.dtype | None) -> None:
        super().__init__()
        if dtype is not None:
            self.weight = nn.Parameter(torch.ones((), dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        self.seen = x
        return x.square().sum(1)


@pytest.mark.parametrize(
    ("dtype", "seen", "end"),
    [
        (torch.float32, torch.float32, 1e4),
        (torch.float64, torch.float64, 1e100),
        (None, torch.float64, 1e100),
    ],
)
def test_energies_see_numbers_of_their_own_kind_and_what_is_too_large_is_an_outlier(
    dtype: torch.dtype | None, seen: torch.dtype, end: float
) -> None:
    energy = Records(dtype)
    x = [[1.0, 1e200], [-1e200, 0.5], [0.99 * end, 0.5], [1.01 * end, 0.5], [1.0, 0.5]]
    scores = Scorer(as_is((2,)), energy)(torch.tensor(x, dtype=torch.float64))
    assert scores.dtype == torch.float64
    assert energy.seen.dtype == seen
    assert energy.seen[:2].double().tolist() == [[1.0, end], [-end, 0.5]]
    assert torch.isfinite(energy.seen).all()
    assert scores.isfinite().tolist() == [False, False, True, False, True]
    assert (scores < math.inf).all()


def test_tilted_energies_see_double_precision_whatever_their_network_has() -> None:
    network = Records(torch.float32)
    tilted = TiltedEnergy(network, KernelReference(torch.zeros(1, 1), 1.0))
    near = torch.tensor([[100.0], [100.0 + 1e-7]], dtype=torch.float64)
    scores = Scorer(as_is((1,)), tilted)(near)
    assert network.seen.dtype == torch.float32
    assert len(network.seen.unique()) == 1  # they are one point to the network
    # x²/2 changes by x · 1e-7, which is known to 100² · 1e-16.
    assert (scores[0] - scores[1]).item() == pytest.approx(1e-5, abs=1e-11)


def test_calibration_scores_are_scores_or_an_error() -> None:
    scorer = one_gaussian(2.0)
    x = torch.randn(20, 1, generator=generator(0))
    assert torch.equal(calibration_scores(scorer, x), scorer.in_parts(x))
    with pytest.raises(ValueError, match="no finite score for 20 of its 20 calibration points"):
        calibration_scores(Scorer(as_is((1,)), Nowhere()), x)
    with pytest.raises(ValueError, match=r"energy=Flatten does not fit points of shape \(2,\)"):
        calibration_scores(Scorer(as_is((2,)), nn.Flatten(0)), x.reshape(10, 2))
