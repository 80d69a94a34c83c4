"""Files with text, dates and gaps, from fit to scores; kept columns, discoveries, suites."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from uspebm import load
from uspebm.data.writers import Columns, Sink

from .common import TABLE, run, write_csv

ROWS = 240
DRAWS = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "number": np.arange(1, ROWS + 1),
        "when": pd.date_range("2026-01-01", periods=ROWS, freq="h"),
        "machine": DRAWS.choice(["A", "B, C", "D"], ROWS),
        "on": DRAWS.random(ROWS) < 0.8,
        "x": DRAWS.normal(size=ROWS),
        "remark": [f"remark {k}" for k in range(ROWS)],
    }
)
FRAME["y"] = 2 * FRAME["x"] + 0.1 * DRAWS.normal(size=ROWS)
FRAME.loc[::9, "x"] = None
FRAME.loc[::11, "machine"] = None


@pytest.fixture
def files(tmp_path: Path) -> Path:
    FRAME.to_csv(tmp_path / "x.csv", index=False)
    FRAME.to_parquet(tmp_path / "x.parquet", index=False)
    return tmp_path


@pytest.mark.parametrize("name", ["x.csv", "x.parquet"])
def test_any_table_is_learned_and_scored_without_a_word(files: Path, name: str) -> None:
    assert run("fit", files / name, "--out", files / "m") == 0
    model = load(files / "m")
    assert model.encoding_ is not None
    kinds = {column.name: column.kind for column in model.encoding_.columns}
    assert kinds == {
        "number": "left out",
        "when": "date",
        "machine": "category",
        "on": "truth",
        "x": "number",
        "remark": "left out",
        "y": "number",
    }
    for other in ("x.csv", "x.parquet"):  # a model knows no kinds of files
        out = files / f"{other}.out.parquet"
        assert run("score", files / "m", files / other, "--out", out) == 0
        scores = pq.read_table(out)["score"].to_numpy()
        np.testing.assert_allclose(scores, model.score_samples(FRAME), rtol=1e-9)


def test_what_is_said_of_columns_is_kept(files: Path, refused: Callable[..., None]) -> None:
    said = ("--id", "machine", "--categorical", "on", "--numeric", "number")
    assert run("fit", files / "x.csv", "--out", files / "m", *said) == 0
    model = load(files / "m")
    assert model.encoding_ is not None
    kinds = {column.name: column.kind for column in model.encoding_.columns}
    assert (kinds["machine"], kinds["on"], kinds["number"]) == ("left out", "category", "number")
    unknown = ("fit", files / "x.csv", "--out", files / "n", "--id", "none")
    refused("there is no column 'none', but 'number', 'when'", *unknown)
    dense = ("fit", files / "x.csv", "--out", files / "n", "--recipe", "tables-density")
    refused("--id x is for tables with named columns", *dense, "--id", "x")
    refused("column 'when' holds", *dense)


def test_text_where_numbers_were_is_refused_by_cell(
    files: Path, refused: Callable[..., None]
) -> None:
    assert run("fit", files / "x.csv", "--out", files / "m") == 0
    lines = (files / "x.csv").read_text().splitlines()
    (files / "bad.csv").write_text("\n".join([*lines[:4], lines[4].rsplit(",", 1)[0] + ",high"]))
    score = ("score", files / "m", files / "bad.csv", "--out", files / "s.csv")
    refused("column 'y' holds 'high' in data row 4", *score)
    FRAME.assign(y="high").to_parquet(files / "bad.parquet")
    refused("column 'y' holds", *score[:2], files / "bad.parquet", *score[3:])


def test_columns_are_kept_beside_the_scores(files: Path, refused: Callable[..., None]) -> None:
    assert run("fit", files / "x.csv", "--out", files / "m") == 0
    score = ("score", files / "m", files / "x.csv", "--out", files / "s.csv")
    assert run(*score, "--keep", "number", "--keep", "machine") == 0
    found = pd.read_csv(files / "s.csv", dtype=str)
    assert list(found.columns) == ["number", "machine", "score", "p_value", "outlier"]
    assert found["number"].tolist() == [str(k) for k in FRAME["number"]]
    assert found["machine"].fillna("").tolist() == FRAME["machine"].fillna("").tolist()
    assert run(*score, "--keep", "all") == 0
    assert list(pd.read_csv(files / "s.csv").columns)[:7] == list(FRAME.columns)
    refused("has no column 'none'", *score, "--keep", "none")
    FRAME.rename(columns={"remark": "score"}).to_csv(files / "y.csv", index=False)
    clash = ("score", files / "m", files / "y.csv", "--out", files / "s.csv", "--keep", "score")
    refused("the scores have a column of that name", *clash)


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".npz", ".parquet"])
def test_columns_that_are_only_kept_may_hold_anything(
    files: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    usual, kinds = Sink.write, set()

    def watched(sink: Sink, columns: Columns) -> None:
        kinds.add(columns["remark"].dtype)
        usual(sink, columns)

    monkeypatch.setattr(Sink, "write", watched)
    assert run("fit", files / "x.csv", "--out", files / "m") == 0
    remarks = ["NA", "", "inf", "x" * 50_000] * (ROWS // 4)
    FRAME.assign(remark=remarks).to_csv(files / "kept.csv", index=False)
    out = files / f"s{ending}"
    assert run("score", files / "m", files / "kept.csv", "--out", out, "--keep", "remark") == 0
    read = {
        ".csv": lambda: pd.read_csv(out, keep_default_na=False)["remark"],
        ".jsonl": lambda: pd.read_json(out, lines=True, dtype=False)["remark"],
        ".npz": lambda: np.load(out)["remark"],
        ".parquet": lambda: pq.read_table(out)["remark"].to_numpy(),
    }
    assert read[ending]().tolist() == remarks
    assert kinds == {np.dtype(object)}  # the longest text is not every row's width
    FRAME.assign(remark=np.inf).to_parquet(files / "kept.parquet", index=False)
    assert run("score", files / "m", files / "kept.parquet", "--out", out, "--keep", "remark") == 0


def test_a_row_of_gaps_is_scored_in_any_kind_of_file(files: Path) -> None:
    assert run("fit", files / "x.csv", "--out", files / "m") == 0
    (files / "gaps.csv").write_text(",".join(FRAME.columns) + "\n" + "," * 6 + "\n1,,A,True,1,,2\n")
    out = files / "s.jsonl"
    assert run("score", files / "m", files / "gaps.csv", "--out", out) == 0
    records = [json.loads(line) for line in out.read_text().splitlines()]
    assert [record["score"] is None for record in records] == [True, False]
    assert records[0]["outlier"]


@pytest.mark.parametrize("kept", ["key", "all"])
def test_whole_numbers_are_kept_to_the_last_digit(files: Path, kept: str) -> None:
    """As floats, the ends of long ones would be others."""
    assert run("fit", files / "x.csv", "--out", files / "m") == 0
    keys = 2**53 + 1 + 2 * np.arange(ROWS)
    FRAME.assign(key=keys).to_parquet(files / "keys.parquet", index=False)
    score = ("score", files / "m", files / "keys.parquet", "--out", files / "s.csv")
    assert run(*score, "--keep", kept) == 0
    assert pd.read_csv(files / "s.csv")["key"].tolist() == keys.tolist()


def test_discoveries_are_decided_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], refused: Callable[..., None]
) -> None:
    data = write_csv(tmp_path / "x.csv", TABLE)
    strange = write_csv(tmp_path / "new.csv", np.concatenate([TABLE[:80], TABLE[:8] + 50]))
    assert run("fit", data, "--out", tmp_path / "m") == 0
    score = ("score", tmp_path / "m", strange, "--out", tmp_path / "s.csv")
    capsys.readouterr()
    assert run(*score, "--false-discovery-rate", 0.2, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    outliers = pd.read_csv(tmp_path / "s.csv")["outlier"].to_numpy()
    model = load(tmp_path / "m")
    frame = pd.read_csv(strange)
    assert outliers.tolist() == model.discoveries(frame, 0.2).tolist()
    assert found["outliers"] == outliers.sum() >= 8
    refused("not both", *score, "--false-discovery-rate", 0.2, "--false-alarm-rate", 0.1)


def test_faults_of_ones_own_rank_detectors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], refused: Callable[..., None]
) -> None:
    data = write_csv(tmp_path / "x.csv", TABLE)
    faults = write_csv(tmp_path / "faults.csv", TABLE[:20] + 30)
    command = ("compare", data, "--faults", faults, "--out", tmp_path / "out")
    assert run(*command, "--json") == 0
    results = json.loads(capsys.readouterr().out)["results"]
    assert {r["problem"] for r in results} == {"faults"}
    assert next(r for r in results if r["detector"] == "EnergyDetector")["auroc"] > 0.99
    refused("needs DATA", "compare", "--faults", faults)
    other = write_csv(tmp_path / "other.csv", TABLE[:, :2], "a,b")
    refused("has no column 'c'", "compare", data, "--faults", other, "--out", tmp_path / "out")


def test_a_suite_is_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], refused: Callable[..., None]
) -> None:
    folder = tmp_path / "suite"
    folder.mkdir()
    for k in range(2):
        X = DRAWS.normal(size=(80, 3))
        y = (np.arange(80) < 8).astype(int)
        np.savez(folder / f"s{k}.npz", X=X + 5 * y[:, None], y=y)
    command = ("compare", "--suite", folder, "--out", tmp_path / "out", "--seeds", 2)
    only = ("--only", "EnergyDetector", "--only", "KNN")
    assert run(*command, *only) == 0
    out = capsys.readouterr().out
    assert "mean rank" in out
    assert "differ by less than" in out
    kept = next((tmp_path / "out").glob("suite-*.jsonl")).read_text()
    assert kept.count("problem") == 8
    # What comes later stands where it belongs, not at the end.
    assert run(*command, *only, "--only", "kernel density, ours") == 0
    table = (tmp_path / "out" / "compare.md").read_text()
    assert "| problem | EnergyDetector | kernel density, ours | KNN |" in table
    refused("there is no detector 'mine', but EnergyDetector", *command, "--only", "mine")
    refused("is compared without DATA", *command, "x.csv")
    refused("--only is for --suite", "compare", "--only", "KNN")
    refused("is no folder", "compare", "--suite", tmp_path / "none")


def test_detectors_are_compared_on_any_table(files: Path, refused: Callable[..., None]) -> None:
    faults = FRAME.sample(60, random_state=0).assign(y=lambda f: f["y"] + 3, number=0)
    faults.to_csv(files / "faults.csv", index=False)
    out = files / "compared"
    command = ("compare", files / "x.csv", "--faults", files / "faults.csv", "--out", out)
    assert run(*command, "--rows", "200") == 0
    found = {r["detector"]: r["auroc"] for r in json.loads((out / "compare.json").read_text())}
    assert found["EnergyDetector"] > 0.8
    refused("there is no column 'nothing'", *command, "--categorical", "nothing")
    np.save(files / "x.npy", np.zeros((40, 2)))
    refused("has no named columns", "compare", files / "x.npy", "--out", out, "--id", "a")
    refused("--rows 50 is for DATA", "compare", "--suite", files, "--out", out, "--rows", "50")


def test_rows_that_repeat_are_pointed_out(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    twice = pd.concat([FRAME.drop(columns="number")] * 2)
    twice.to_csv(files / "twice.csv", index=False)
    assert run("fit", files / "twice.csv", "--out", files / "m") == 0
    assert "240 of 480 rows are there before" in " ".join(capsys.readouterr().err.split())


def test_a_column_that_is_empty_throughout_is_told(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("fit", files / "x.csv", "--out", files / "m") == 0
    for name in ("x", "when"):
        FRAME.assign(**{name: None}).to_csv(files / "new.csv", index=False)
        capsys.readouterr()
        assert run("score", files / "m", files / "new.csv", "--out", files / "s.csv") == 0
        said = " ".join(capsys.readouterr().err.split())
        assert said.count("has no value in any row") == 1
        assert (
            f"new.csv: column '{name}' has no value in any row, and no part in the scores" in said
        )


@pytest.mark.filterwarnings("always:.*taken for names")
def test_values_that_are_taken_for_names_are_told(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    FRAME[["machine", "x", "y"]].dropna().to_csv(files / "new.csv", index=False, header=False)
    assert run("fit", files / "new.csv", "--out", files / "m") == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "its first line is taken for names, but '" in said
    FRAME[["x", "y"]].rename(columns={"x": "2025", "y": "y"}).to_csv(files / "y.csv", index=False)
    assert run("fit", files / "y.csv", "--out", files / "n") == 0
    assert "taken for names" not in capsys.readouterr().err  # a year is a name
