"""The commands compare and export."""

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from uspebm.cli import compare
from uspebm.detector import energy_detector, folder
from uspebm.evaluation import anomaly_problems, classical
from uspebm.evaluation.anomalies import Points

from .common import FILES, TABLE, no_work, run, write_csv


class Mean:
    """A detector that is done at once."""

    def fit(self, X: Points) -> None:
        self.mean = X.reshape(len(X), -1).mean(0)

    def score_samples(self, X: Points) -> NDArray[Any]:
        return np.asarray(-np.linalg.norm(X.reshape(len(X), -1) - self.mean, axis=1))


class Ours(Mean):
    """A class, as what it stands for is one: modules loaded later name it in their signatures."""

    def __init__(self, random_state: int) -> None:
        self.random_state = random_state


@pytest.fixture
def quick_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classical, "classical_detectors", lambda: {"mean": lambda seed: Mean()})
    monkeypatch.setattr(energy_detector, "EnergyDetector", Ours)


@pytest.mark.usefixtures("quick_comparison")
@pytest.mark.parametrize("name", ["x.csv", "x.npy"])
def test_a_comparison_on_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    FILES[name](tmp_path / name)
    command = ("compare", tmp_path / name, "--seeds", "2", "--out", tmp_path / "out")
    assert run(*command, "--json") == 0
    out, err = capsys.readouterr()
    results = json.loads(out)["results"]
    assert len(results) == 2 * 2 * 4
    assert "1/16  data, " in err
    assert "16/16  data, " in err
    assert json.loads((tmp_path / "out" / "compare.json").read_text()) == results
    assert run(*command) == 0
    assert "16/16" in capsys.readouterr().out


@pytest.mark.usefixtures("quick_comparison")
def test_a_comparison_without_a_table_takes_the_standard_problems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = anomaly_problems.user_problem(TABLE, 0)[0]
    monkeypatch.setattr(
        anomaly_problems, "standard_problems", lambda seed: [replace(problem, name="standard")]
    )
    assert run("compare", "--out", tmp_path, "--json") == 0
    assert {row["problem"] for row in json.loads(capsys.readouterr().out)["results"]} == {
        "standard"
    }


def test_comparisons_that_are_refused(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Callable[..., None]
) -> None:
    (tmp_path / "file").write_text("in the way")
    few = write_csv(tmp_path / "x.csv", TABLE[:9])
    out = ("--out", tmp_path / "out")
    refused("9", "compare", few, *out)
    refused("holds images; compare takes a table", "compare", models / "x-idx3-ubyte", *out)
    refused("--seeds: 0 must be a whole number, at least 1", "compare", "--seeds", "0")
    no_work(monkeypatch, "open_source")
    refused("is a file; choose a folder", "compare", few, "--out", tmp_path / "file")
    refused("cannot be written", "compare", few, "--out", tmp_path / "file" / "below")
    monkeypatch.setattr(anomaly_problems, "standard_problems", None)
    refused("is a file; choose a folder", "compare", "--out", tmp_path / "file")


def test_an_export_says_what_is_missing(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Callable[..., None]
) -> None:
    monkeypatch.setattr(folder, "load", None)
    (tmp_path / "file").write_text("in the way")
    below = tmp_path / "file" / "m.onnx"
    refused("cannot be written", "export", models / "named", "--onnx", below)
    refused("is a folder: name a file", "export", models / "named", "--onnx", tmp_path)
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    command = ("export", models / "named", "--onnx", tmp_path / "m.onnx")
    refused("pip install 'uspebm[onnx]'", *command)


@pytest.mark.parametrize(("rows", "kept"), [(80, 16), (150, 99), (600, 120)])
def test_a_split_keeps_what_rare_alarms_need(rows: int, kept: int) -> None:
    found: Any = compare.on_suites()[compare.FOR_RARE_ALARMS](0)
    found.fit(np.random.default_rng(0).normal(size=(rows, 2)))
    assert len(found.calibration_scores_) == kept
