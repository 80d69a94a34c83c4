"""The commands on files of the user's: what they write, and what they refuse before and after."""

import builtins
import errno
import io
import json
import math
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from rich.console import Console

from uspebm import actions, calibration, compare, load, modelfile, progress
from uspebm.anomalies import Points
from uspebm.cli import main
from uspebm.detector import EnergyDetector
from uspebm.learning import split

ROWS = 120
NUMBERS = np.random.default_rng(0)
# Columns in very different units.
TABLE = NUMBERS.normal(size=(ROWS, 3)) * [1.0, 1e4, 1e-3] + [0.0, 1e5, 0.0]
FRAME = pd.DataFrame(TABLE, columns=list("abc"))
IMAGES = NUMBERS.integers(0, 256, (ROWS, 4, 5), dtype=np.uint8)
IDX = bytes([0, 0, 8, 3, 0, 0, 0, ROWS, 0, 0, 0, 4, 0, 0, 0, 5]) + IMAGES.tobytes()
QUICK = ("--max-updates", "0", "--centres", "40")


def write_csv(path: Path, table: NDArray[Any] = TABLE, names: str = "a,b,c") -> Path:
    lines = [names, *(",".join(map(repr, row)) for row in table.tolist())]
    path.write_text("\n".join(lines) + "\n")
    return path


def write_parquet(path: Path) -> Path:
    pq.write_table(pa.table(dict(zip("abc", TABLE.T, strict=True))), path)
    return path


def write_images(folder: Path, images: NDArray[Any] = IMAGES) -> Path:
    folder.mkdir()
    for k, image in enumerate(images):
        Image.fromarray(image).save(folder / f"{k:03}.png")
    return folder


FILES: dict[str, Callable[[Path], object]] = {
    "x.csv": write_csv,
    "x.parquet": write_parquet,
    "x.npy": lambda path: np.save(path, TABLE),
    "x.npz": lambda path: np.savez(path, TABLE),
    "x-idx3-ubyte": lambda path: path.write_bytes(IDX),
    "images": write_images,
}


def run(*arguments: object) -> int:
    """The exit code, also where the parser finds the mistake."""
    try:
        return main([str(argument) for argument in arguments])
    except SystemExit as stopped:
        assert isinstance(stopped.code, int)
        return stopped.code


def content(place: Path) -> dict[str, bytes | None]:
    """Everything below a place, hidden files too."""
    found = {str(p.relative_to(place)): p for p in place.rglob("*")}
    return {name: p.read_bytes() if p.is_file() else None for name, p in sorted(found.items())}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of a table with names, one without, one of bytes."""
    folder = tmp_path_factory.mktemp("models")
    for name, file in (("named", "x.csv"), ("nameless", "x.npy"), ("pixels", "x-idx3-ubyte")):
        FILES[file](folder / file)
        assert run("fit", folder / file, "--out", folder / name, *QUICK) == 0
    return folder


@pytest.fixture
def model(models: Path, tmp_path: Path) -> Path:
    """A copy of a model, to be changed."""
    return Path(shutil.copytree(models / "named", tmp_path / "model"))


@pytest.fixture
def refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., None]:
    """Whether a command ends with one line that has the messages, and changes nothing."""

    def check(messages: str | list[str], *arguments: object) -> None:
        before = content(tmp_path)
        capsys.readouterr()
        assert run(*arguments) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("uspebm: "), err
        assert err.count("\n") == 1, err
        for message in [messages] if isinstance(messages, str) else messages:
            assert message in err
        assert content(tmp_path) == before

    return check


def no_work(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """From now on, the work that is named fails the test."""

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("worked before it looked")

    for name in names:
        monkeypatch.setattr(actions, name, fail)


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
    assert fitted["calibration_rows"] == ROWS // 5
    detector = load(model)
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
    assert figures["against"]["far"]["auroc"]["value"] > (0.9 if x.ndim == 2 else 0.0)
    assert figures["against"]["far"]["alarms"] >= (0.9 if x.ndim == 2 else 0.0)
    assert answer("info", model)["columns"] == columns
    assert run("info", model) == 0
    assert "Thresholds" in capsys.readouterr().out


def test_text_goes_to_the_output_and_names_what_was_written(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("fit", models / "x.csv", "--out", tmp_path / "m", *QUICK) == 0
    out = capsys.readouterr().out
    assert "learned from 120 rows, 24 of them kept" in out
    assert str(tmp_path / "m" / "README.md") in out
    assert run("score", tmp_path / "m", models / "x.csv", "--out", tmp_path / "s.csv") == 0
    assert f"all scores: {tmp_path / 's.csv'}" in capsys.readouterr().out
    ood = ("--ood", f"same={models / 'x.csv'}")
    assert run("evaluate", tmp_path / "m", "--id", models / "x.csv", *ood) == 0
    out = capsys.readouterr().out
    assert "AUROC" in out
    assert "% of x.csv, of which 4.00 % at most were to be expected" in out
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


def test_training_shows_itself_beside_the_json(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = ("--max-updates", "50", "--centres", "40", "--json")
    assert run("fit", models / "x.csv", "--out", tmp_path / "m", *settings) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["rows"] == ROWS
    assert "importance 50/50" in err
    assert not progress.console.stderr


@pytest.mark.parametrize("name", ["named", "pixels"], ids=["table", "images"])
def test_chunks_score_as_the_whole(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    # Not the calibration points themselves: sums over other batch sizes are rounded otherwise.
    np.save(tmp_path / "x.npy", TABLE * 1.01 if name == "named" else np.roll(IMAGES, 1, 2))
    found = []
    for chunk in (7, 10_000):
        monkeypatch.setattr(actions, "CHUNK", chunk)
        out = tmp_path / f"{chunk}.npz"
        assert run("score", models / name, tmp_path / "x.npy", "--out", out) == 0
        found.append(dict(np.load(out)))
    parts, whole = found
    assert len(whole["score"]) == ROWS
    np.testing.assert_allclose(parts["score"], whole["score"], rtol=1e-12)
    np.testing.assert_array_equal(parts["p_value"], whole["p_value"])
    np.testing.assert_array_equal(parts["outlier"], whole["outlier"])


def test_columns_are_found_by_name(models: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    lines = [f"{a!r},text {k},{c!r},{b!r}" for k, (a, b, c) in enumerate(TABLE.tolist())]
    other.write_text("a,id,c,b\n" + "\n".join(lines) + "\n")
    assert run("score", models / "named", other, "--out", tmp_path / "s.npz") == 0
    found = np.load(tmp_path / "s.npz")["score"]
    np.testing.assert_array_equal(found, load(models / "named").score_samples(FRAME))


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
    refused(
        "needs at least 99 calibration points; there are 24", *command, "--false-alarm-rate", 0.01
    )


# Settings


CONFIG = """
out = "{out}"
drop = ["b"]
rows = 110
method = "importance"
centres = 40
max-updates = 0
patience = 2
learning-rate = 1
batch-size = 10
calibration = 0.3
false-alarm-rate = 0.1
seed = 3
json = true
"""
FLAGS = (
    *("--drop", "b", "--rows", "110", "--method", "importance", "--centres", "40"),
    *("--max-updates", "0", "--patience", "2", "--learning-rate", "1.0", "--batch-size", "10"),
    *("--calibration", "0.3", "--false-alarm-rate", "0.1", "--seed", "3"),
)


def test_a_file_of_settings_equals_the_flags(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "fit.toml"
    config.write_text(CONFIG.format(out=tmp_path / "one"))
    assert run("fit", models / "x.csv", "--config", config) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 110
    assert run("fit", models / "x.csv", "--out", tmp_path / "two", *FLAGS) == 0
    assert content(tmp_path / "one") == content(tmp_path / "two")
    own = (f"--config={config}", "--seed=4", "--out", tmp_path / "three", "--drop", "c")
    assert run("fit", models / "x.csv", *own) == 0
    about = json.loads((tmp_path / "three" / "model.json").read_text())
    assert about["settings"]["random_state"] == 4
    assert about["settings"]["patience"] == 2
    assert about["columns"] == ["a", "b"]


SETTINGS = {
    "unknown": ("epochs = 3", "'epochs' is no setting; there are out, drop, rows"),
    "prefix": ("max = 3", "'max' is no setting"),
    "itself": ("config = 'x'", "'config' is no setting"),
    "section": ("[fit]\nseed = 3", "'fit' is no setting"),
    "text for a number": ("seed = '3'", "seed = '3' should be a whole number"),
    "fraction": ("rows = 10.5", "rows = 10.5 should be a whole number"),
    "text for a fraction": ("calibration = 'a'", "calibration = 'a' should be a number"),
    "bool for a number": ("seed = true", "seed = True should be a whole number"),
    "number for text": ("out = 3", "out = 3 should be text"),
    "number for a flag": ("json = 1", "json = 1 should be true or false"),
    "list": ("seed = [1, 2]", "seed = [1, 2] should be a whole number"),
    "list of numbers": ("drop = ['a', 1]", "drop = 1 should be text, or a list of such"),
    "choice": ("method = 'mcmc'", "method = 'mcmc' should be one of importance, ps-usp, srlmc"),
    "too small": ("centres = 0", "centres: 0 must be a whole number, at least 1"),
    "no share": ("calibration = 1.5", "calibration: 1.5 must lie between 0 and 1"),
    "not TOML": ("seed 3", "is no TOML file"),
}


@pytest.mark.parametrize("case", SETTINGS, ids=list(SETTINGS))
def test_settings_that_are_refused(
    models: Path, tmp_path: Path, refused: Callable[..., None], case: str
) -> None:
    text, message = SETTINGS[case]
    config = tmp_path / "fit.toml"
    config.write_text(text)
    command = ("fit", models / "x.csv", "--out", tmp_path / "new", "--config", config)
    refused([message, str(config)], *command)
    refused("no-such.toml", *command[:-1], tmp_path / "no-such.toml")


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        ("fit", ["--rows INT", "(default: 200000)", "--learning-rate FLOAT", "(default: 0.001)"]),
        ("score", ["--false-alarm-rate FLOAT", "(default: the model's own threshold)"]),
        ("evaluate", ["--ood NAME=DATA"]),
        ("export", ["--onnx FILE"]),
        ("info", ["MODEL"]),
        ("compare", ["--seeds INT", "(default: 1)", "(default: runs/compare)"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_help_states_types_and_defaults(
    capsys: pytest.CaptureFixture[str], command: str, wanted: list[str]
) -> None:
    assert run(command, "--help") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert all(words in text for words in wanted), text
    assert "None" not in text


# What is wrong with the data


def with_value(row: int, column: int, value: float) -> NDArray[Any]:
    table = TABLE.copy()
    table[row, column] = value
    return table


def mixed_images(path: Path) -> None:
    write_images(path)
    Image.new("L", (9, 9)).save(path / "050.png")


def truncated_image(path: Path) -> None:
    write_images(path)
    whole = (path / "050.png").read_bytes()
    (path / "050.png").write_bytes(whole[: len(whole) // 2])


def text_column(path: Path) -> None:
    table = {"a": TABLE[:, 0], "kind of": ["x"] * ROWS}
    pq.write_table(pa.table(table), path)


BAD: dict[str, tuple[str, Callable[[Path], object], list[str]]] = {
    "empty": ("x.csv", lambda p: p.write_text(""), ["is empty"]),
    "nan": ("x.csv", lambda p: write_csv(p, with_value(6, 1, np.nan)), ["'b'", "data row 7 "]),
    "infinity": ("x.npy", lambda p: np.save(p, with_value(6, 1, np.inf)), ["row 7 "]),
    "text": (
        "x.csv",
        lambda p: p.write_text("a,b\n" + "1,x\n" * 200),
        ["column 'b' holds 'x' in data row 1", "--drop 'b'"],
    ),
    "text in Parquet": ("x.parquet", text_column, ["'kind of' holds string", "--drop 'kind of'"]),
    "constant": (
        "x.csv",
        lambda p: write_csv(p, TABLE * [1, 0, 1] + [0, 7, 0]),
        ["column 'b' is 7 in all rows", "--drop 'b'"],
    ),
    "constant, no name": ("x.npy", lambda p: np.save(p, TABLE * [1, 1, 0]), ["column 3 is 0 in"]),
    "huge": (
        "x.csv",
        lambda p: write_csv(p, TABLE * [1, 1, 1e200]),
        ["column 'c' has values beyond 1e+150", "--drop 'c'"],
    ),
    "one row": ("x.csv", lambda p: write_csv(p, TABLE[:1]), ["1 row,", "needs at least 93"]),
    "one row of an array": ("x.npy", lambda p: np.save(p, TABLE[:1]), ["1 row,"]),
    "too few rows": (
        "x.csv",
        lambda p: write_csv(p, TABLE[:92]),
        ["x.csv: 92 rows, but a false-alarm rate of 0.05 needs at least 93"],
    ),
    "mixed sizes": ("images", mixed_images, ["mixes images", "000.png", "050.png is 9 × 9"]),
    "truncated image": ("images", truncated_image, ["050.png is no whole image"]),
    "missing": ("x.csv", lambda p: None, ["does not exist"]),
    "unknown ending": ("x.xlsx", lambda p: p.write_text("x"), ["is of no known kind"]),
}


@pytest.mark.parametrize("case", BAD, ids=list(BAD))
def test_data_that_cannot_be_learned_from(
    model: Path, tmp_path: Path, refused: Callable[..., None], case: str
) -> None:
    name, write, messages = BAD[case]
    data = tmp_path / name
    write(data)
    refused([str(data), *messages], "fit", data, "--out", tmp_path / "new", *QUICK)
    refused([str(data), *messages], "fit", data, "--out", model, *QUICK)  # which stays


@pytest.mark.parametrize("case", ["empty", "nan", "infinity", "missing", "unknown ending"])
def test_data_that_cannot_be_scored(
    models: Path, tmp_path: Path, refused: Callable[..., None], case: str
) -> None:
    name, write, messages = BAD[case]
    data, out = tmp_path / name, tmp_path / "scores.csv"
    write(data)
    out.write_text("older scores")
    refused([str(data), *messages], "score", models / "named", data, "--out", out)
    good = models / "x.csv"
    refused(messages, "evaluate", models / "named", "--id", data, "--ood", f"far={good}")
    refused(messages, "evaluate", models / "named", "--id", good, "--ood", f"far={data}")


def test_a_late_mistake_leaves_the_older_scores(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Callable[..., None]
) -> None:
    monkeypatch.setattr(actions, "CHUNK", 10)
    np.save(tmp_path / "x.npy", with_value(100, 1, np.nan))
    for ending in ("csv", "parquet", "npz", "jsonl"):
        out = tmp_path / f"scores.{ending}"
        out.write_text("older scores")
        refused("row 101 ", "score", models / "nameless", tmp_path / "x.npy", "--out", out)


SHAPES: dict[str, tuple[str, Callable[[Path], object], str, list[str]]] = {
    "fewer columns": (
        "x.npy",
        lambda p: np.save(p, TABLE[:, :2]),
        "named",
        ["has points of 2 columns, but the model is of points of 3 columns"],
    ),
    "a missing column": (
        "x.csv",
        lambda p: write_csv(p, TABLE, "a,B,d"),
        "named",
        ["has no column 'b', 'c'; it has 'a', 'B', 'd'"],
    ),
    "more columns": (
        "x.csv",
        lambda p: write_csv(p, np.hstack([TABLE, TABLE]), "a,b,c,d,e,f"),
        "nameless",
        ["points of 6 columns", "3 columns"],
    ),
    "text in the model's column": (
        "x.csv",
        lambda p: p.write_text("a,b,c\n1,x,2\n"),
        "named",
        ["column 'b' holds 'x'"],
    ),
    "larger images": (
        "images",
        lambda p: write_images(p, np.zeros((3, 8, 9), np.uint8)),
        "pixels",
        ["points of 8 × 9 pixels, but the model is of points of 4 × 5 pixels"],
    ),
    "colour": (
        "images",
        lambda p: write_images(p, np.zeros((3, 4, 5, 3), np.uint8)),
        "pixels",
        ["4 × 5 pixels of 3 channels", "4 × 5 pixels"],
    ),
    "floats for bytes": (
        "x.npy",
        lambda p: np.save(p, IMAGES / 255),
        "pixels",
        ["fitted to images of bytes; these are other numbers"],
    ),
    "images for a table": (
        "x.npy",
        lambda p: np.save(p, IMAGES),
        "named",
        ["4 × 5 pixels", "3 columns"],
    ),
    "a table for images": ("x.csv", write_csv, "pixels", ["3 columns", "4 × 5 pixels"]),
    "five axes": ("x.npy", lambda p: np.save(p, np.zeros((2, 3, 4, 5, 6))), "pixels", ["shape"]),
}


@pytest.mark.parametrize("case", SHAPES, ids=list(SHAPES))
def test_data_that_are_not_the_model_s(
    models: Path, tmp_path: Path, refused: Callable[..., None], case: str
) -> None:
    name, write, kind, messages = SHAPES[case]
    data = tmp_path / name
    write(data)
    refused([str(data), *messages], "score", models / kind, data, "--out", tmp_path / "s.csv")


# What is wrong with the place, the model or the flags: known before any work


FLAG_MISTAKES: dict[str, tuple[str, list[str]]] = {
    "rate of zero": ("argument --false-alarm-rate: 0 must lie", ["--false-alarm-rate", "0"]),
    "rate of one": ("1 must lie between 0 and 1", ["--false-alarm-rate", "1"]),
    "rate in words": ("five must lie between 0 and 1", ["--false-alarm-rate", "five"]),
    "rate of nan": ("nan must lie between 0 and 1", ["--calibration", "nan"]),
    "no rows": ("0 must be a whole number, at least 2", ["--rows", "0"]),
    "few rows": ("--rows 50: 50 rows, but a false-alarm rate of", ["--rows", "50"]),
    "rare alarms": (
        "needs at least 4999993, a share of 0.2",
        ["--false-alarm-rate", "0.000001"],
    ),
    "seed": ("between 0 and 4294967295", ["--seed", "-1"]),
    "updates": ("--max-updates: 1.5 must be a whole", ["--max-updates", "1.5"]),
    "rate of learning": ("inf must be a positive number", ["--learning-rate", "inf"]),
    "method": ("invalid choice: 'mcmc'", ["--method", "mcmc"]),
    "abbreviation": ("unrecognized arguments: --max 3", ["--max", "3"]),
}


@pytest.mark.parametrize("case", FLAG_MISTAKES, ids=list(FLAG_MISTAKES))
def test_flags_that_are_refused_before_reading(
    models: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    refused: Callable[..., None],
    case: str,
) -> None:
    no_work(monkeypatch, "open_source", "some_rows")
    message, flags = FLAG_MISTAKES[case]
    refused(message, "fit", models / "x.csv", "--out", tmp_path / "new", *flags)


def test_too_few_rows_are_seen_before_reading_where_the_file_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Callable[..., None]
) -> None:
    no_work(monkeypatch, "some_rows")
    np.save(tmp_path / "x.npy", TABLE[:92])
    refused("needs at least 93", "fit", tmp_path / "x.npy", "--out", tmp_path / "new")


@pytest.mark.parametrize("share", [0.05, 0.2, 0.25, 0.5, 0.9])
@pytest.mark.parametrize("rate", [0.01, 0.05, 0.3, 0.6])
def test_the_rows_asked_for_are_just_enough(share: float, rate: float) -> None:
    """By what a detector really keeps."""

    def allowed(rows: int) -> bool:
        kept = len(split(torch.zeros(rows, 1), share, 0).calibration)
        return kept >= 1 and math.floor(rate * (kept + 1) + 1e-9) >= 1

    wanted = next(rows for rows in range(2, 10_000) if allowed(rows))
    actions._refuse_too_few(wanted, "x", share, rate)
    with pytest.raises(ValueError, match=f"{rate} needs at least {wanted},"):
        actions._refuse_too_few(wanted - 1, "x", share, rate)


PLACES = {
    "a file": ("{}/file", "is a file: choose a folder"),
    "below a file": ("{}/file/model", "cannot be written: Not a directory"),
    "far below a file": ("{}/file/a/b", "cannot be written: Not a directory"),
    "in /proc": ("/proc/model", "cannot be written"),
    "a device": ("/dev/null", "is a file"),
    "a folder of other things": ("{}/photos", "exists and is no model"),
}


@pytest.mark.parametrize("case", PLACES, ids=list(PLACES))
def test_places_for_a_model_that_are_refused_before_reading(
    models: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    refused: Callable[..., None],
    case: str,
) -> None:
    no_work(monkeypatch, "open_source")
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "holiday.txt").write_text("mine")
    place, message = PLACES[case][0].format(tmp_path), PLACES[case][1]
    refused([place, message], "fit", models / "x.csv", "--out", place)


def test_a_model_with_other_things_beside_it_is_not_replaced(
    models: Path, model: Path, refused: Callable[..., None]
) -> None:
    (model / "data.csv").write_text("mine")
    refused("also holds 'data.csv'", "fit", models / "x.csv", "--out", model)


def test_a_model_is_replaced_by_a_model(models: Path, model: Path) -> None:
    before = content(model)
    assert run("fit", models / "x.csv", "--out", model, *QUICK, "--seed", "7") == 0
    assert content(model)["model.json"] != before["model.json"]
    assert content(model).keys() == before.keys()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("s.xlsx", "files ending in .csv, .jsonl, .npy, .npz, .parquet"),
        ("s", "files ending in .csv"),
        ("s.npy", ".npy holds one column, not score, p_value, outlier; use .npz"),
        ("file/s.csv", "cannot be written: Not a directory"),
        ("folder.csv", "is a folder: name a file"),
    ],
    ids=["unknown", "none", "npy", "below a file", "a folder"],
)
def test_places_for_scores_that_are_refused_before_reading(
    models: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    refused: Callable[..., None],
    name: str,
    message: str,
) -> None:
    no_work(monkeypatch, "open_source")
    monkeypatch.setattr(modelfile, "load", None)
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "folder.csv").mkdir()
    out = tmp_path / name
    refused([str(out), message], "score", models / "named", models / "x.csv", "--out", out)


def test_the_data_are_not_overwritten_with_their_scores(
    models: Path, tmp_path: Path, refused: Callable[..., None]
) -> None:
    data = write_csv(tmp_path / "x.csv")
    refused("is the data", "score", models / "named", data, "--out", data)
    (tmp_path / "link.csv").symlink_to(data)
    refused("is the data", "score", models / "named", data, "--out", tmp_path / "link.csv")


def test_models_are_looked_at_before_the_data(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Callable[..., None]
) -> None:
    no_work(monkeypatch, "open_source")
    about = json.loads((model / "model.json").read_text())
    (model / "model.json").write_text(json.dumps(about | {"format": 99}))
    for name, message in (
        ("nowhere", "nowhere is no model's folder"),
        ("model", "is of format 99; this version of uspebm reads formats up to 1"),
        (".", "it has no model.json"),
    ):
        folder = tmp_path / name
        refused(message, "score", folder, "x.csv", "--out", tmp_path / "s.csv")
        refused(message, "evaluate", folder, "--id", "x.csv", "--ood", "a=x.csv")
        refused(message, "export", folder, "--onnx", tmp_path / "m.onnx")
        refused(message, "info", folder)


@pytest.mark.parametrize("text", ["far", "=x.csv", "far=", "="])
def test_outliers_need_a_name_and_a_file(
    models: Path, refused: Callable[..., None], text: str
) -> None:
    command = ("evaluate", models / "named", "--id", models / "x.csv")
    refused(f"{text} should be NAME=DATA", *command, f"--ood={text}")


def test_a_column_that_numbers_the_rows_is_pointed_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = np.arange(len(TABLE))[:, None]
    data = write_csv(tmp_path / "x.csv", np.hstack([TABLE[:, :2], rows]), "a,b,row")
    assert run("fit", data, "--out", tmp_path / "m", *QUICK) == 0
    err = capsys.readouterr().err
    assert "column 'row' rises" in err
    assert "--drop 'row'" in err
    assert "column 'a'" not in err
    assert run("fit", data, "--out", tmp_path / "n", *QUICK, "--drop", "row") == 0
    assert "rises" not in capsys.readouterr().err


def test_outliers_need_different_names(models: Path, refused: Callable[..., None]) -> None:
    ood = ("--ood", f"far={models / 'x.csv'}") * 2
    refused("different names", "evaluate", models / "named", "--id", models / "x.csv", *ood)


def test_what_the_parser_refuses_is_one_line_too(refused: Callable[..., None]) -> None:
    refused("invalid choice: 'learn'", "learn")
    refused("the following arguments are required: --out; 'uspebm fit --help'", "fit", "x.csv")


# Full disks and interrupts


def test_a_full_disk_leaves_the_older_model(
    models: Path, model: Path, monkeypatch: pytest.MonkeyPatch, refused: Callable[..., None]
) -> None:
    written = Path.write_text

    def full(path: Path, text: str, *rest: Any, **more: Any) -> int:
        if path.name == "README.md":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return written(path, text, *rest, **more)

    monkeypatch.setattr(Path, "write_text", full)
    message = ["No space left on device", str(model)]
    refused(message, "fit", models / "x.csv", "--out", model, *QUICK)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("ending", ["csv", "parquet", "npz", "jsonl"])
def test_a_full_disk_leaves_the_older_scores(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], ending: str
) -> None:
    out = tmp_path / f"s.{ending}"
    out.write_text("older scores")
    # Where the unfinished file goes, the disk is full.
    (tmp_path / f".s.{ending}.{os.getpid()}.unfinished").symlink_to("/dev/full")
    assert run("score", models / "named", models / "x.csv", "--out", out) == 2
    error = capsys.readouterr().err
    assert error.startswith("uspebm: ")
    assert "No space left on device" in error
    assert error.count("\n") == 1
    assert content(tmp_path) == {f"s.{ending}": b"older scores"}


LIMITED = """
import resource, sys
from uspebm.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
sys.exit(main(sys.argv[1:]))
"""


def test_a_limit_on_file_sizes_leaves_the_older_model(models: Path, model: Path) -> None:
    before = content(model.parent)
    run_ = [
        sys.executable,
        "-c",
        LIMITED,
        "fit",
        str(models / "x.csv"),
        "--out",
        str(model),
        *QUICK,
    ]
    done = subprocess.run(run_, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == f"uspebm: [Errno 27] File too large: '{model}'\n"
    assert content(model.parent) == before


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("when", ["learning", "saving"])
def test_an_interrupt_is_130_and_leaves_the_older_model(
    models: Path, model: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    before = content(model.parent)
    if when == "learning":
        monkeypatch.setattr(EnergyDetector, "fit", interrupt)
    else:
        monkeypatch.setattr(modelfile, "card", interrupt)
    assert run("fit", models / "x.csv", "--out", model, *QUICK) == 130
    assert content(model.parent) == before


def test_an_interrupt_while_scoring_is_130(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibration, "p_values", interrupt)
    assert run("score", models / "named", models / "x.csv", "--out", tmp_path / "s.csv") == 130
    assert content(tmp_path) == {}


# Comparing


class Mean:
    """A detector that is done at once."""

    def fit(self, X: Points) -> None:
        self.mean = X.reshape(len(X), -1).mean(0)

    def score_samples(self, X: Points) -> NDArray[Any]:
        return np.asarray(-np.linalg.norm(X.reshape(len(X), -1) - self.mean, axis=1))


@pytest.fixture
def quick_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "classical", lambda: {"mean": lambda seed: Mean()})
    monkeypatch.setattr(actions, "EnergyDetector", lambda random_state: Mean())


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
    problem = compare.user_problem(TABLE, 0)[0]
    monkeypatch.setattr(
        compare, "standard_problems", lambda seed: [replace(problem, name="standard")]
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
    monkeypatch.setattr(compare, "standard_problems", None)
    refused("is a file; choose a folder", "compare", "--out", tmp_path / "file")


# Exporting


def test_an_export_says_what_is_missing(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Callable[..., None]
) -> None:
    monkeypatch.setattr(modelfile, "load", None)
    (tmp_path / "file").write_text("in the way")
    below = tmp_path / "file" / "m.onnx"
    refused("cannot be written", "export", models / "named", "--onnx", below)
    refused("is a folder: name a file", "export", models / "named", "--onnx", tmp_path)
    importing = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name == "onnxscript":
            raise ImportError(name)
        return importing(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    command = ("export", models / "named", "--onnx", tmp_path / "m.onnx")
    refused("pip install 'uspebm[onnx]'", *command)


# As a process


PEAK = """
import sys
from pathlib import Path
from uspebm.cli import main

def peak():
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024

folder, small, big = sys.argv[1:]
assert main(["score", folder, small, "--out", small + ".parquet"]) == 0
before = peak()
assert main(["score", folder, big, "--out", big + ".parquet"]) == 0
print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="peaks are read from /proc")
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """30,000 rows of 500 float32: 57 MiB, and twice that as the float64 that scores come from."""
    small, big = tmp_path / "small.npy", tmp_path / "big.npy"
    values = np.random.default_rng(0).random((30_000, 500), np.float32)
    np.save(small, values[:2000])
    np.save(big, values)
    settings = ("--rows", "200", "--max-updates", "0")
    assert run("fit", small, "--out", tmp_path / "m", *settings) == 0
    command = [sys.executable, "-c", PEAK, str(tmp_path / "m"), str(small), str(big)]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    # A chunk takes 16 MiB as it is read, again when chunks are cut, and 32 MiB as float64; the
    # whole file would take 230 MiB.
    assert float(done.stdout.splitlines()[-1]) < 140


def test_ctrl_c_is_130_and_leaves_no_litter(models: Path, tmp_path: Path) -> None:
    long = ("--max-updates", "1000000", "--patience", "1000000", "--centres", "40")
    data, out = str(models / "x.csv"), str(tmp_path / "model")
    command = [sys.executable, "-m", "uspebm", "fit", data, "--out", out, *long]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.readline().startswith("importance ")
        child.send_signal(signal.SIGINT)
        error = child.stderr.read()
    assert child.returncode == 130
    assert error == ""
    assert content(tmp_path) == {}
