"""Where the energy is no number, a point is an outlier, and never a normal one."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.detector.common import X
from tests.detector.signing import signed
from uspebm import EnergyDetector, load, save_model
from uspebm.detector.folder import ModelFileError
from uspebm.detector.onnx_export import Deployed
from uspebm.energies.scaling import Scaling

REACH = 50.0
NOWHERE = [math.nan, math.inf, -math.inf]
FAR = [[1e200, 0.0, 0.0], [0.0, -1e200, 1e200], [-1.7e308, 1.7e308, 1.7e308], [60.0, 0.0, 0.0]]


class Breaks(nn.Module):
    """An energy like any other, up to a reach; beyond it, ``value``."""

    def __init__(self, value: float, reach: float = REACH, dtype: torch.dtype = torch.float32):
        super().__init__()
        self.value, self.reach = value, reach
        self.weight = nn.Parameter(torch.ones((), dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        assert x.dtype == self.weight.dtype
        energy = 0.5 * self.weight * x.square().sum(1)
        return torch.where(x.abs().amax(1) > self.reach, self.value, energy)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("value", NOWHERE)
def test_what_has_no_energy_is_an_outlier(value: float, dtype: torch.dtype) -> None:
    found = EnergyDetector.from_energy(Breaks(value, dtype=dtype), X)
    assert (found.score_samples(FAR) == -math.inf).all()
    for rate in (None, 0.01, 0.5, 0.999):
        assert (found.predict(FAR, rate) == -1).all()
    assert (found.decision_function(FAR) < 0).all()
    smallest = 1 / (len(X) + 1)
    assert (found.p_values(FAR) == smallest).all()
    assert found.discoveries(FAR, 0.1).all()
    assert found.score(FAR) == -math.inf
    # Others in the same batch are as they would be alone.
    mixed = np.concatenate([X[:5], FAR])
    assert np.array_equal(found.score_samples(mixed)[:5], found.score_samples(X[:5]))
    assert (found.predict(X) == 1).mean() > 0.9


def test_such_points_can_be_counted_in_an_evaluation() -> None:
    figures = EnergyDetector.from_energy(Breaks(math.nan), X).evaluate(X, FAR)
    assert figures["auroc"].value == 1
    assert figures["fpr95"].value == 0


class Falls(nn.Module):
    """An energy that takes the farthest points for the likeliest."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones((), dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        return -self.weight * x.abs().sum(1)


@pytest.mark.parametrize(("dtype", "reach"), [(torch.float32, 1e4), (torch.float64, 1e100)])
def test_beyond_what_numbers_reach_are_outliers_whatever_the_energy_says(
    dtype: torch.dtype, reach: float
) -> None:
    found = EnergyDetector.from_energy(Falls(dtype), X)
    far = np.zeros((4, 3))
    far[:, 1] = [0.9 * reach, 1.1 * reach, -1e200, 1e308]
    assert found.predict(far, false_alarm_rate=0.01).tolist() == [1, -1, -1, -1]
    assert (found.p_values(far[1:]) == 1 / (len(X) + 1)).all()


def test_units_that_overflow_are_as_far_as_can_be() -> None:
    """1e200 times 1e200 is infinite, and infinity minus infinity no number."""
    matrix = torch.tensor([[1e200, -1e200], [1e200, 1e200]], dtype=torch.float64)
    found = EnergyDetector.from_energy(
        Breaks(math.nan), X[:, :2] * 1e-200, scaling=Scaling(torch.zeros(2), matrix)
    )
    assert (found.predict([[1e200, 1e200], [1e200, -1e200], [-1e308, 0.0]]) == -1).all()
    assert (found.predict(X[:, :2] * 1e-200) == 1).mean() > 0.9


@pytest.mark.parametrize("value", NOWHERE)
def test_what_is_deployed_says_the_same(value: float) -> None:
    broken = EnergyDetector.from_energy(Breaks(value), X)
    deployed = Deployed(broken.scorer_, torch.from_numpy(broken.calibration_scores_), False)
    score, p = deployed(torch.tensor(FAR, dtype=torch.float64))
    assert (score == -math.inf).all()
    assert (p == 1 / (len(X) + 1)).all()


@pytest.mark.parametrize("value", NOWHERE)
def test_calibration_points_without_a_score_are_refused(value: float) -> None:
    message = "no finite score for 1 of its 301 calibration points: .*; train it longer"
    with pytest.raises(ValueError, match=message) as error:
        EnergyDetector.from_energy(Breaks(value), np.concatenate([X, [[60.0, 0.0, 0.0]]]))
    assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match="no finite score for 300 of its 300"):
        EnergyDetector.from_energy(Breaks(value, reach=0.0), X)


@pytest.mark.parametrize("what", ["calibration scores", "threshold"])
@pytest.mark.parametrize("value", NOWHERE)
def test_models_with_such_calibration_scores_are_not_loaded(
    tmp_path: Path, value: float, what: str
) -> None:
    found = EnergyDetector.from_energy(Breaks(math.nan), X)
    if what == "calibration scores":
        found.calibration_scores_[0] = value
    save_model(found, tmp_path / "model")
    if what == "threshold":
        signed(tmp_path / "model", offset=str(value))
    with pytest.raises(ModelFileError, match=f"{what} (are|is) no finite number") as error:
        load(tmp_path / "model", energy=Breaks(math.nan))
    assert "\n" not in str(error.value)
