"""From files to models, scores and figures."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from rich.console import Console

from uspebm import load
from uspebm.cli import user_data
from uspebm.support import progress

from .common import FILES, FRAME, IMAGES, QUICK, ROWS, TABLE, run, write_csv


@pytest.mark.parametrize("name", FILES, ids=list(FILES))
def test_from_a_file_to_decisions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    data, model, out = tmp_path / name, tmp_path / "model", tmp_path / "scores.parquet"
    FILES[name](data)

    def answer(*arguments: object) -> Any:
        assert run(*arguments, "--json") == 0
        return json.loads(capsys.readouterr().out)

    fitted = answer("fit", data, "--out", model, *QUICK)
    assert fitted["rows"] == ROWS
    assert fitted["calibration_rows"] == ROWS
    detector = load(model)
    assert fitted["recipe"] == ("pixels" if name in ("x-idx3-ubyte", "images") else "tables")
    assert fitted["verdict"] == detector.verdict()
    assert fitted["threshold"] == detector.offset_
    assert answer("score", model, data, "--out", out)["rows"] == ROWS
    x: Any = IMAGES if name in ("x-idx3-ubyte", "images") else TABLE
    far, columns = tmp_path / "far.npy", None
    np.save(far, 255 - x if x.dtype == np.uint8 else x + np.array([99, 0, 0]))
    if name in ("x.csv", "x.parquet"):
        columns, x = ["a", "b", "c"], FRAME
    found = pq.read_table(out).to_pydict()
    assert found["score"] == detector.score_samples(x).tolist()
    assert found["p_value"] == detector.p_values(x).tolist()
    assert found["outlier"] == (detector.predict(x) == -1).tolist()
    figures = answer("evaluate", model, "--id", data, "--ood", f"far={far}")
    assert figures["false_alarms"] == np.mean(found["outlier"])
    assert figures["rows"] == ROWS
    against = figures["against"]["far"]
    strange = np.load(far)
    if columns is not None:
        strange = pd.DataFrame(strange, columns=columns)
    assert against["alarms"] == np.mean(detector.predict(strange) == -1)
    if x.ndim == 2:  # random images are as random when they are inverted
        assert against["auroc"]["value"] > 0.9
    assert answer("info", model)["columns"] == columns
    assert run("info", model) == 0
    assert "Thresholds" in capsys.readouterr().out


def test_text_goes_to_the_output_and_names_what_was_written(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("fit", models / "x.csv", "--out", tmp_path / "m", *QUICK) == 0
    out = capsys.readouterr().out
    assert "learned from 120 rows, each scored without its fold" in out
    assert load(tmp_path / "m").verdict() in out
    assert str(tmp_path / "m" / "README.md") in out
    assert run("score", tmp_path / "m", models / "x.csv", "--out", tmp_path / "s.csv") == 0
    assert f"all scores: {tmp_path / 's.csv'}" in capsys.readouterr().out
    ood = ("--ood", f"same={models / 'x.csv'}")
    assert run("evaluate", tmp_path / "m", "--id", models / "x.csv", *ood) == 0
    out = capsys.readouterr().out
    assert "AUROC" in out
    assert "raise one; at most 4.96 % was to be expected on average" in out
    card = (tmp_path / "m" / "README.md").read_text()
    assert "Fitted to 120 rows of x.csv" in card


def chunks_of(rows: int) -> list[NDArray[Any]]:
    return np.array_split(np.arange(rows), 3)


def test_counting_passes_rows_on_and_tells_how_many(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    for total, words in ((9000, "rows 9,000 of 9,000 rows, "), (None, "rows 9,000 rows, ")):
        assert np.concatenate(list(progress.counted(chunks_of(9000), total, "rows"))).size == 9000
        assert words in capsys.readouterr().out


def test_counting_on_a_terminal_is_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    terminal = Console(file=screen, force_terminal=True, width=100)
    monkeypatch.setattr(progress, "console", terminal)
    assert len(list(progress.counted(chunks_of(9000), 9000, "rows"))) == 3
    assert "9000/9000" in screen.getvalue()
    assert "rows/s" in screen.getvalue()


def test_updates_of_what_is_not_trained_are_said_to_be_none(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("fit", models / "x.csv", "--out", tmp_path / "m", "--max-updates", "50") == 0
    assert "--max-updates 50: recipe tables trains nothing" in capsys.readouterr().err


def test_training_shows_itself_beside_the_json(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = ("--recipe", "tables-density", "--max-updates", "50", "--json")
    assert run("fit", models / "x.csv", "--out", tmp_path / "m", *settings) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["rows"] == ROWS
    assert "tables-density 50/50" in err
    assert not progress.console.stderr


@pytest.mark.parametrize("name", ["named", "pixels"], ids=["table", "images"])
def test_chunks_score_as_the_whole(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    # Not the calibration points themselves: sums over other batch sizes are rounded otherwise.
    np.save(tmp_path / "x.npy", TABLE * 1.01 if name == "named" else np.roll(IMAGES, 1, 2))
    found = []
    for chunk in (7, 10_000):
        monkeypatch.setattr(user_data, "ROWS_AT_A_TIME", chunk)
        out = tmp_path / f"{chunk}.npz"
        assert run("score", models / name, tmp_path / "x.npy", "--out", out) == 0
        found.append(dict(np.load(out)))
    parts, whole = found
    assert len(whole["score"]) == ROWS
    rounding = 1e-12 if name == "named" else 1e-5  # tables are scored in double precision
    np.testing.assert_allclose(parts["score"], whole["score"], rtol=rounding)
    np.testing.assert_array_equal(parts["p_value"], whole["p_value"])
    np.testing.assert_array_equal(parts["outlier"], whole["outlier"])


def test_columns_are_found_by_name(models: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    lines = [f"{a!r},text {k},{c!r},{b!r}" for k, (a, b, c) in enumerate(TABLE.tolist())]
    other.write_text("a,id,c,b\n" + "\n".join(lines) + "\n")
    assert run("score", models / "named", other, "--out", tmp_path / "s.npz") == 0
    found = np.load(tmp_path / "s.npz")["score"]
    np.testing.assert_array_equal(found, load(models / "named").score_samples(FRAME))


def test_a_column_that_the_model_needs_is_not_to_be_dropped(
    models: Path, tmp_path: Path, refused: Callable[..., None]
) -> None:
    write_csv(tmp_path / "x.csv", TABLE, "a,b,c")
    with (tmp_path / "x.csv").open("a") as file:
        file.write("1,n/a?,2\n")
    command = ("score", models / "named", tmp_path / "x.csv", "--out", tmp_path / "s.npz")
    refused(["column 'b' holds 'n/a?'", "the model needs the column: put numbers in it"], *command)


def test_a_model_that_is_replaced_is_mentioned(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write_csv(tmp_path / "x.csv")
    for out, mentioned in ((tmp_path / "new", False), (model, True)):
        capsys.readouterr()
        assert run("fit", data, "--out", out, *QUICK) == 0
        text = " ".join(capsys.readouterr().out.split())
        assert ("the model that was there before is replaced" in text) is mentioned


def test_columns_without_names_go_by_their_order(
    models: Path, tmp_path: Path, refused: Callable[..., None]
) -> None:
    out = tmp_path / "s.npz"
    assert run("score", models / "nameless", models / "x.csv", "--out", out) == 0
    assert run("score", models / "named", models / "x.npy", "--out", tmp_path / "t.npz") == 0
    np.testing.assert_array_equal(np.load(out)["score"], np.load(tmp_path / "t.npz")["score"])
    more = tmp_path / "more.csv"
    lines = [f"r{k},{a!r},{b!r},{c!r}" for k, (a, b, c) in enumerate(TABLE.tolist())]
    more.write_text("id,a,b,c\n" + "\n".join(lines) + "\n")
    refused("(--drop 'id')", "score", models / "nameless", more, "--out", out)
    assert run("score", models / "nameless", more, "--drop", "id", "--out", out) == 0
    np.testing.assert_array_equal(np.load(out)["score"], np.load(tmp_path / "t.npz")["score"])


def test_a_rate_of_the_decision(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], refused: Callable[..., None]
) -> None:
    command = ("score", models / "named", models / "x.csv", "--out", tmp_path / "s.csv")
    for rate in (0.1, 0.5):
        capsys.readouterr()
        assert run(*command, "--json", "--false-alarm-rate", rate) == 0
        found = json.loads(capsys.readouterr().out)
        detector = load(models / "named")
        assert found["outliers"] == int((detector.predict(FRAME, rate) == -1).sum())
    few = "needs at least 199 calibration points; there are 120"
    refused(few, *command, "--false-alarm-rate", 0.005)
