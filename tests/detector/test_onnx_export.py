"""ONNX files: onnxruntime finds the scores that PyTorch finds."""

import json
import logging
import math
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pandas as pd
import pytest
import torch
from sklearn.exceptions import NotFittedError
from torch import Tensor, nn

from tests.detector.common import X as NEAR
from tests.detector.common import reference_only, tilted, with_centres
from uspebm import Conv
from uspebm.cli.main import main
from uspebm.detector.energy_detector import EnergyDetector
from uspebm.detector.folder import save_model
from uspebm.detector.onnx_export import to_onnx
from uspebm.energies.features import FeatureRule
from uspebm.energies.rules import ConvRule

NUMBERS = np.random.default_rng(0)
# A kilometre in millimetres beside a micrometre in metres, both far from zero.
TABLE = NUMBERS.normal(size=(300, 4)) * [1, 1e6, 1e-6, 50] + [0, 1e8, 1e-3, -500]
FRAME = pd.DataFrame(TABLE, columns=["a", "b, c", "größe", "d"])
BYTES = NUMBERS.integers(0, 256, (150, 9, 8), dtype=np.uint8)
FLOATS = NUMBERS.normal(size=(100, 6, 6, 3))

Case = tuple[EnergyDetector, Any, Any]


def fitted(x: Any) -> EnergyDetector:
    """With a network that says something, though it has not learned it."""
    detector = reference_only(with_centres(50)).fit(x)
    energy = tilted(detector)
    draws = torch.Generator().manual_seed(0)
    for parameter in energy.network.parameters():
        nn.init.normal_(parameter, std=0.1, generator=draws)
    energy.strength.fill_(1.0)
    return detector


@pytest.fixture(scope="module")
def table() -> Case:
    return fitted(FRAME), FRAME, TABLE


@pytest.fixture(scope="module", params=["table", "bytes", "floats", "network", "features"])
def case(request: pytest.FixtureRequest, table: Case) -> Case:
    """A detector, points as it takes them, and the same as its ONNX file takes them."""
    if request.param == "table":
        return table
    if request.param == "bytes":
        return fitted(BYTES), BYTES, BYTES[:, None]
    if request.param == "network":
        torch.manual_seed(0)
        network = Conv((1, 9, 8), filters=(4, 8), width=16)
        with torch.no_grad():
            [*network.parameters()][-2].mul_(100)  # the last layer's weights: scores that differ
        return EnergyDetector.from_energy(network, BYTES), BYTES, BYTES[:, None]
    if request.param == "features":  # of two networks, with a distance in those of each
        rule = FeatureRule(beside=ConvRule((2, 4), width=8))
        points = torch.from_numpy(BYTES[:100, None] / 127.5 - 1).float()
        energy = rule.over(ConvRule((4, 8), width=16).build(points, 0), points, seed=0)
        assert len(energy.widths) == 2
        return EnergyDetector.from_energy(energy, BYTES, of_bytes=True), BYTES, BYTES[:, None]
    return fitted(FLOATS), FLOATS, FLOATS.transpose(0, 3, 1, 2)


def test_scores_are_those_of_pytorch(
    case: Case, tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    detector, x, given = case
    logger = logging.getLogger("torch.onnx")
    logger.setLevel(logging.WARNING)
    path = tmp_path / "new" / "model.onnx"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        to_onnx(detector, path)
    assert caught == []
    assert logger.level == logging.WARNING
    logger.setLevel(logging.NOTSET)
    assert capfd.readouterr() == ("", "")
    assert [r for r in caplog.records if r.levelno >= logging.WARNING] == []
    assert list(path.parent.iterdir()) == [path]  # no data beside it

    onnx.checker.check_model(onnx.load(path))
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    assert [i.name for i in session.get_inputs()] == ["x"]
    about = session.get_modelmeta().custom_metadata_map
    assert json.loads(about["uspebm.event_shape"]) == list(detector.event_shape_)
    assert json.loads(about["uspebm.threshold"]) == detector.offset_
    points, rate = len(detector.calibration_scores_), detector.usual_rate
    known = {"points": points, "folds": detector.folded_, "false_alarm_rate": rate}
    assert json.loads(about["uspebm.calibration"]) == known
    assert ("uspebm.columns" in about) == (x is FRAME)
    if x is FRAME:
        assert json.loads(about["uspebm.columns"]) == list(FRAME.columns)

    rank = 1 / (len(detector.calibration_scores_) + 1)
    for rows in (1, 2, 7, len(given)):
        score, p = session.run(["score", "p_value"], {"x": np.ascontiguousarray(given[:rows])})
        assert score.shape == p.shape == (rows,)
        np.testing.assert_allclose(score, detector.score_samples(x[:rows]), atol=1e-4)
        np.testing.assert_allclose(p, detector.p_values(x[:rows]), atol=1.0001 * rank)
    # Ranks may differ where a calibration point meets itself, rounded otherwise, and only there.
    other = np.roll(given, 1, axis=-1) if given.dtype == np.uint8 else given + 0.1 * given.std(0)
    seen = other if x is not FLOATS else other.transpose(0, 2, 3, 1)
    score, p = session.run(["score", "p_value"], {"x": other})
    frame = pd.DataFrame(seen, columns=FRAME.columns) if x is FRAME else seen
    assert np.ptp(score) > 1
    np.testing.assert_allclose(score, detector.score_samples(frame), atol=1e-4)
    np.testing.assert_allclose(p, detector.p_values(frame), rtol=1e-12)


class Breaks(nn.Module):
    """An energy like any other, up to a reach; beyond it NaN, infinity, or minus infinity."""

    def forward(self, x: Tensor) -> Tensor:
        energy = 0.5 * x.square().sum(1)
        for k, value in enumerate((math.nan, math.inf, -math.inf)):
            energy = torch.where(x[:, k].abs() > 50, value, energy)
        return energy


def test_what_has_no_energy_is_an_outlier_there_too(tmp_path: Path) -> None:
    detector = EnergyDetector.from_energy(Breaks(), NEAR)
    to_onnx(detector, tmp_path / "m.onnx")
    session = ort.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    far = np.array([[1e200, 0, 0], [0, 60, 0], [0, 0, -1e200], [-1.7e308, 1.7e308, 0]])
    score, p = session.run(["score", "p_value"], {"x": np.concatenate([far, NEAR])})
    assert (score[:4] == -math.inf).all()
    assert (p[:4] == 1 / (len(NEAR) + 1)).all()
    np.testing.assert_allclose(score[4:], detector.score_samples(NEAR), atol=1e-4)


def test_the_command_writes_the_same(
    table: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    detector, frame, given = table
    save_model(detector, tmp_path / "model")
    out = tmp_path / "m.onnx"
    assert main(["export", str(tmp_path / "model"), "--onnx", str(out), "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["outputs"] == ["score", "p_value"]
    assert printed.err == ""
    (score,) = ort.InferenceSession(out).run(["score"], {"x": given})
    np.testing.assert_allclose(score, detector.score_samples(frame), atol=1e-4)


def test_the_exporter_s_level_is_restored_after_an_error(
    table: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("not exported")

    monkeypatch.setattr("torch.onnx.export", broken)
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    with pytest.raises(RuntimeError, match="not exported"):
        to_onnx(table[0], tmp_path / "m.onnx")
    assert logger.level == before
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("package", ["onnx", "onnxscript"])
def test_what_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)  # as if it were not installed
    with pytest.raises(ValueError, match=r"pip install 'uspebm\[onnx\]'") as error:
        to_onnx(EnergyDetector(), tmp_path / "m.onnx")
    assert "\n" not in str(error.value)


def test_what_is_not_fitted_is_not_exported(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        to_onnx(EnergyDetector(), tmp_path / "m.onnx")
