"""How sure, why, and is it still true: confidence, weights, reasons and drift as commands."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from uspebm import load

from .common import run

DRAWS = np.random.default_rng(0)


def table(n: int, shift: float = 0.0) -> pd.DataFrame:
    a = DRAWS.normal(shift, 1, n)
    b = 2 * a + 0.1 * DRAWS.normal(size=n)
    kind = np.where(a > 0, "up", "down")
    weight = np.exp(a - 0.5)  # of a shift of a by one
    return pd.DataFrame({"a": a, "b": b, "kind": kind, "weight": weight, "name": "x"})


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("decisions")
    for name, n, shift in (("old", 400, 0), ("more", 1500, 0), ("new", 400, 0), ("late", 400, 1)):
        table(n, shift).to_csv(folder / f"{name}.csv", index=False)
    model = ("--drop", "weight", "--out", folder / "m")
    assert run("fit", folder / "old.csv", *model) == 0
    assert run("calibrate", folder / "m", folder / "more.csv", "--out", folder / "c") == 0
    weighted = ("--weight", "weight", "--out", folder / "w")
    assert run("calibrate", folder / "m", folder / "more.csv", *weighted) == 0
    return folder


def scored(place: Path, out: Path, *flags: object, model: str = "m", data: str = "new") -> Any:
    command = ("score", place / model, place / f"{data}.csv", "--out", out, *flags)
    assert run(*command) == 0
    return pd.read_csv(out)


def test_other_rows_calibrate(place: Path, tmp_path: Path) -> None:
    found = load(place / "c")
    assert len(found.calibration_scores_) == 1500
    assert not found.folded_
    ours = scored(place, tmp_path / "s.csv", model="c")
    both = (ours["score"].to_numpy(), scored(place, tmp_path / "t.csv")["score"].to_numpy())
    assert np.array_equal(*both)


def test_a_rate_with_confidence(place: Path, tmp_path: Path) -> None:
    out = tmp_path / "s.csv"
    sure = scored(place, out, "--false-alarm-rate", "0.05", "--confidence", "0.99", model="c")
    plain = scored(place, out, "--false-alarm-rate", "0.05", model="c")
    assert 0 < sure["outlier"].sum() < plain["outlier"].sum()


def test_weights_for_a_shift(place: Path, tmp_path: Path, refused: Callable[..., None]) -> None:
    out = tmp_path / "s.csv"
    flags = ("--false-alarm-rate", "0.1")
    weighted = scored(place, out, *flags, "--weight", "weight", model="w", data="late")
    plain = scored(place, out, *flags, model="c", data="late")
    assert weighted["outlier"].mean() < 0.16
    assert plain["outlier"].mean() > 1.3 * weighted["outlier"].mean()
    assert np.array_equal(weighted["outlier"], weighted["p_value"] <= 0.1)
    command = ("score", place / "w", place / "late.csv", "--out", tmp_path / "t.csv")
    refused("was calibrated by weights: give --weight", *command)
    refused("--weight name: could not convert", *command, "--weight", "name")
    refused("--confidence is of a rate", *command, "--weight", "weight", "--confidence", "0.9")
    other = ("score", place / "m", place / "late.csv", "--out", tmp_path / "t.csv")
    refused("--weight weight is for a model", *other, "--weight", "weight")
    bad = ("calibrate", place / "m", place / "more.csv", "--out", tmp_path / "x")
    refused("--weight kind: could not convert", *bad, "--weight", "kind")


def test_why_in_a_table(place: Path, tmp_path: Path, refused: Callable[..., None]) -> None:
    wrong = table(30)
    wrong.loc[:4, "b"] += 6
    wrong.to_csv(tmp_path / "wrong.csv", index=False)
    command = ("score", place / "m", tmp_path / "wrong.csv", "--out")
    for name in ("s.csv", "s.parquet", "s.npz", "s.jsonl"):
        assert run(*command, tmp_path / name, "--why", "2") == 0
    found = pd.read_csv(tmp_path / "s.csv", keep_default_na=False)
    assert found["outlier"][:5].all()
    assert (found["why_1"][:5] == "b").all()
    assert np.allclose(found["value_1"][:5].astype(float), wrong["b"][:5], rtol=1e-4)
    expected = found["expected_1"][:5].astype(float)
    assert np.abs(expected - (wrong["b"][:5] - 6)).max() < 1.5
    usual = found[found["outlier"] == 0]
    assert (usual["why_1"] == "").all()
    assert (found["gain_1"][:5].astype(float) > 0).all()
    refused(
        "--why explains rows as they are scored",
        *(*command, tmp_path / "t.csv", "--why", "1", "--false-discovery-rate", "0.1"),
    )


def test_why_of_images(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    for k in range(30):
        pixels = DRAWS.integers(0, 40, (12, 12)).astype(np.uint8)
        if k == 7:
            pixels[2:6, 5:9] = 255
        Image.fromarray(pixels).save(tmp_path / "images" / f"{k:02d}.png")
    assert run("fit", tmp_path / "images", "--out", tmp_path / "m", "--recipe", "pixels") == 0
    out = tmp_path / "s.csv"
    assert run("score", tmp_path / "m", tmp_path / "images", "--out", out, "--why", "2") == 0
    drawn = sorted(path.name for path in (tmp_path / "s.csv.why").iterdir())
    assert drawn[0] == "001-image-8.png"
    assert len(drawn) == 2


def test_nothing_is_found_by_too_few(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With 400 calibration rows no p-value is below 1/401: of 400 rows, ten at a rate of 0.1."""
    scored(place, tmp_path / "s.csv", "--false-discovery-rate", "0.01")
    said = " ".join(capsys.readouterr().out.split())
    assert "0 of 400 rows are discoveries at a rate of 0.01" in said
    assert "no p-value is below 0.0025: of 400 rows, 100 or more would have to be" in said


def test_drift_over_time_and_in_a_batch(
    place: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    refused: Callable[..., None],
) -> None:
    capsys.readouterr()
    picture = tmp_path / "drift.png"
    assert run("drift", place / "m", place / "new.csv", "--out", picture) == 0
    assert "No drift in 400 rows" in " ".join(capsys.readouterr().out.split())
    assert picture.exists()
    assert run("drift", place / "m", place / "late.csv", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["alarm_at"] < 200
    assert told["log10_capital"] > told["alarm_level"] == 2.0
    assert max(told["suspects"], key=told["suspects"].get) in ("a", "b", "kind = up", "kind = down")
    for data, drifted in (("new", False), ("late", True)):
        assert run("drift", place / "m", place / f"{data}.csv", "--batch", "--json") == 0
        assert json.loads(capsys.readouterr().out)["drift"] == drifted
    command = ("drift", place / "m", place / "new.csv")
    refused("must end in .png or .svg", *command, "--out", tmp_path / "x.txt")
    refused("a batch has no time to draw", *command, "--batch", "--out", picture)
