"""How sure, why, and is it still true: confidence, weights, reasons and drift as commands."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from uspebm import load
from uspebm.report.drift_record import DriftRecord, drift_in

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
    refused("--weight name: row 1 has 'x' there; a weight is", *command, "--weight", "name")
    refused("--confidence is of a rate", *command, "--weight", "weight", "--confidence", "0.9")
    other = ("score", place / "m", place / "late.csv", "--out", tmp_path / "t.csv")
    refused("--weight weight is for a model", *other, "--weight", "weight")
    bad = ("calibrate", place / "m", place / "more.csv", "--out", tmp_path / "x")
    refused("--weight kind: row 1 has ", *bad, "--weight", "kind")
    more = pd.read_csv(place / "more.csv")
    more.loc[4321 % len(more), "weight"] = -0.5
    more.to_csv(tmp_path / "negative.csv", index=False)
    bad = ("calibrate", place / "m", tmp_path / "negative.csv", "--out", tmp_path / "x")
    refused("--weight weight: row 1,322 has '-0.5' there", *bad, "--weight", "weight")


def test_why_in_a_table(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
    # Discoveries are known after all rows: these are read a second time.
    assert run(*command, tmp_path / "t.csv", "--why", "9", "--false-discovery-rate", "0.3") == 0
    assert "--why 9: the model has 4 columns, and all of them" in capsys.readouterr().err
    called = pd.read_csv(tmp_path / "t.csv", keep_default_na=False)
    assert called["outlier"][:5].all()
    assert (called["why_1"][:5] == "b").all()
    assert (called["gain_1"] == "").tolist() == (~called["outlier"]).tolist()
    further = called.loc[called["outlier"], ["gain_2", "gain_3", "gain_4"]].to_numpy().ravel()
    assert "" in further  # what gains nothing is no reason
    assert min(float(gain) for gain in further if gain) > 0


def test_a_value_never_seen_is_told_as_one(place: Path, tmp_path: Path) -> None:
    table(20).assign(kind="sideways").to_csv(tmp_path / "strange.csv", index=False)
    command = ("score", place / "m", tmp_path / "strange.csv", "--out", tmp_path / "s.csv")
    assert run(*command, "--why", "1", "--keep", "kind") == 0
    found = pd.read_csv(tmp_path / "s.csv")
    named = found[found["why_1"] == "kind"]
    assert len(named) > 15
    assert (named["value_1"] == "'sideways', a value never seen").all()
    assert named["expected_1"].isin(["up", "down"]).all()
    assert (named["kind"] == "sideways").all()  # what it was stands beside it


def test_why_of_images(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
    assert drawn[0] == "001-07.png"
    assert len(drawn) == 2
    assert f"; why, of the least likely: {out}.why/" in " ".join(capsys.readouterr().out.split())
    shutil.rmtree(f"{out}.why")
    assert (
        run("score", tmp_path / "m", tmp_path / "images", "--out", out, "--why", "2", "--json") == 0
    )
    assert json.loads(capsys.readouterr().out)["why"] == f"{out}.why"
    assert sorted(path.name for path in (tmp_path / "s.csv.why").iterdir()) == drawn


@pytest.mark.parametrize("channels", [1, 2, 3])
def test_why_of_images_whose_channels_come_first(tmp_path: Path, channels: int) -> None:
    data, model, out = tmp_path / "x.npy", tmp_path / "m", tmp_path / "s.csv"
    np.save(data, DRAWS.normal(size=(20, channels, 12, 12)))
    assert run("fit", data, "--out", model, "--recipe", "pixels") == 0
    assert run("score", model, data, "--out", out, "--why", "1") == 0
    assert len(list((tmp_path / "s.csv.why").iterdir())) == 1


def test_nothing_is_found_by_too_few(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With 400 calibration rows no p-value is below 1/401: of 400 rows, ten at a rate of 0.1."""
    scored(place, tmp_path / "s.csv", "--false-discovery-rate", "0.01")
    said = " ".join(capsys.readouterr().out.split())
    assert "0 of 400 rows are discoveries at a rate of 0.01" in said
    needed = re.search(r"no p-value is below 0.0025: of 400 rows, (\d+) or more would have", said)
    assert needed is not None
    assert 80 < int(needed[1]) < 120  # 100, times the share of inliers


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


def test_drift_names_the_files_own_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def told(data: pd.DataFrame, *flags: str) -> str:
        data.to_csv(tmp_path / "new.csv", index=False)
        capsys.readouterr()
        assert run("drift", tmp_path / "m", tmp_path / "new.csv", *flags) == 0
        return " ".join(capsys.readouterr().out.split())

    frame = pd.DataFrame(
        {"load": DRAWS.normal(size=600), "city": DRAWS.choice(["Köln", "Ulm"], 600)}
    )
    mornings = 360 + DRAWS.integers(0, 300, 600) + 1440 * DRAWS.integers(0, 28, 600)
    frame["time"] = pd.Timestamp("2026-01-05") + pd.to_timedelta(mornings, "min")
    frame.to_csv(tmp_path / "old.csv", index=False)
    assert run("fit", tmp_path / "old.csv", "--out", tmp_path / "m") == 0
    higher = frame.assign(load=frame["load"] + 2)
    assert re.search(r"most in ('load'|'load', the score|the score, 'load') \(evi", told(higher))
    assert json.loads(told(higher, "--json"))["columns"] == ["load"]
    assert json.loads(told(frame, "--json"))["columns"] == []
    moved = frame.assign(city="Köln")
    assert re.search(r"most in ('city'|'city', the score|the score, 'city') \(evi", told(moved))
    assert "most in 'city' (rate" in told(moved, "--batch")
    assert json.loads(told(moved, "--batch", "--json"))["column"] == "city"
    later = told(frame.assign(time=frame["time"] + pd.Timedelta(hours=9)))
    assert "most in the score: no column shows it by itself, and dates ('time')" in later
    assert "; uspebm score --why names the columns (evi" in later


def test_columns_that_were_found_by_name_are_not_warned_of(
    place: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    numbers = ("--drop", "weight", "--drop", "kind", "--drop", "name")
    assert run("fit", place / "old.csv", *numbers, "--out", tmp_path / "m") == 0
    capfd.readouterr()
    data = (tmp_path / "m", place / "more.csv")
    assert run("drift", *data) == 0
    assert run("drift", *data, "--batch") == 0
    assert run("calibrate", *data, "--out", tmp_path / "c") == 0
    assert run("score", *data, "--out", tmp_path / "s.csv", "--why", "1") == 0
    assert capfd.readouterr().err == ""


def test_drift_on_the_models_page(
    place: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    refused: Callable[..., None],
) -> None:
    model = tmp_path / "m"
    fit = ("fit", place / "old.csv", "--drop", "weight", "--out", model)
    assert run(*fit) == 0
    page = model / "report.html"
    assert "Evidence over time" not in page.read_text()
    assert run("drift", model, place / "late.csv", "--report") == 0
    assert f"report: {page}" in " ".join(capsys.readouterr().out.split())
    found, text = load_record(model), page.read_text()
    assert f"Drift, noticed at row {found.alarm_at} of 400 rows of late.csv" in text
    assert "Evidence over time" in text
    assert "fit it again" in text
    assert found.at[0] == 0
    assert found.at[-1] == 400
    assert found.lines[0][0] == "all together"
    assert run("drift", model, place / "new.csv", "--report") == 0
    assert "No drift in 400 rows of new.csv" in page.read_text()
    assert "fit it again" not in page.read_text()
    (model / "drift.json").write_text('{"data": 1}')
    refused("drift.json is not what uspebm wrote: remove it", "report", model)
    assert run(*fit) == 0  # a new model has no drift yet
    assert not (model / "drift.json").exists()
    refused("a batch has no time", "drift", model, place / "new.csv", "--batch", "--report")
    refused("a folder of yours", "drift", "fashion-mnist", place / "new.csv", "--report")


def load_record(model: Path) -> DriftRecord:
    found = drift_in(model)
    assert found is not None
    return found
