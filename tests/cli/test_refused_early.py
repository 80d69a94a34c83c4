"""What is wrong with the place, the model or the flags is known before any work."""

import json
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from uspebm.cli import fit, user_data
from uspebm.detector import energy_detector, fitting, folder
from uspebm.recipes.named import RECIPE_NAMES

from .common import IMAGES, QUICK, TABLE, content, no_work, run, write_csv, write_images

FLAG_MISTAKES: dict[str, tuple[str, list[str]]] = {
    "rate of zero": ("argument --false-alarm-rate: 0 must lie", ["--false-alarm-rate", "0"]),
    "rate of one": ("1 must lie between 0 and 1", ["--false-alarm-rate", "1"]),
    "rate in words": ("five must lie between 0 and 1", ["--false-alarm-rate", "five"]),
    "rate of nan": ("nan must lie between 0 and 1", ["--calibration", "nan"]),
    "no rows": ("0 must be a whole number, at least 2", ["--rows", "0"]),
    "few rows": ("--rows 18: 18 rows, but a false-alarm rate of", ["--rows", "18"]),
    "few rows, split": (
        "--rows 50: 50 rows, but a false-alarm rate of",
        ["--rows", "50", "--calibration", "0.2"],
    ),
    "rare alarms": (
        "needs at least 4999993, a share of 0.2",
        ["--false-alarm-rate", "0.000001"],
    ),
    "seed": ("between 0 and 4294967295", ["--seed", "-1"]),
    "updates": ("--max-updates: 1.5 must be a whole", ["--max-updates", "1.5"]),
    "recipe": ("invalid choice: 'mcmc'", ["--recipe", "mcmc"]),
    "what a recipe decides": ("unrecognized arguments: --patience 3", ["--patience", "3"]),
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


def test_the_recipes_are_the_library_s() -> None:
    assert fit.RECIPES == RECIPE_NAMES


def test_a_recipe_for_other_data(
    models: Path, tmp_path: Path, refused: Callable[..., None]
) -> None:
    command = ("fit", models / "x.csv", "--out", tmp_path / "new", "--recipe", "images")
    refused("the images recipe takes images", *command)


def test_too_few_rows_are_seen_before_reading_where_the_file_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Callable[..., None]
) -> None:
    no_work(monkeypatch, "some_rows")
    np.save(tmp_path / "x.npy", TABLE[:18])
    refused("needs at least 19", "fit", tmp_path / "x.npy", "--out", tmp_path / "new")


@pytest.mark.parametrize("name", ["x.npy", "folder"])
def test_too_few_images_are_called_images(
    tmp_path: Path, refused: Callable[..., None], name: str
) -> None:
    path = tmp_path / name
    if name == "folder":
        write_images(path, IMAGES[:18])
        fewer = [*("fit", path, "--out", tmp_path / "new", "--rows"), "3"]
        refused("--rows 3: 3 images, but a false-alarm rate of", *fewer)
    else:
        np.save(path, IMAGES[:18])
    said = [f"{path}: 18 images, but ", "needs at least 19; give more images, or a higher rate"]
    refused(said, "fit", path, "--out", tmp_path / "new")


class LearningError(Exception):
    """Instead of learning."""


@pytest.mark.parametrize("share", [0.05, 0.2, 0.25, 0.5, 0.9])
@pytest.mark.parametrize("rate", [0.01, 0.05, 0.3, 0.6])
def test_the_rows_asked_for_are_just_enough(
    monkeypatch: pytest.MonkeyPatch, share: float, rate: float
) -> None:
    """By what a detector takes: more rows never keep fewer for calibration."""

    def learn(*_: object, **__: object) -> None:
        raise LearningError

    monkeypatch.setattr(fitting, "learn", learn)
    asked = Namespace(calibration=share, false_alarm_rate=rate, recipe="auto")
    with pytest.raises(ValueError, match=f"{rate} needs at least") as refusal:
        user_data.refuse_too_few(asked, 1, "x")
    wanted = int(str(refusal.value).split("needs at least ")[1].split(",")[0])
    user_data.refuse_too_few(asked, wanted, "x")
    with pytest.raises(ValueError, match=f"{rate} needs at least {wanted},"):
        user_data.refuse_too_few(asked, wanted - 1, "x")
    detector = energy_detector.EnergyDetector(calibration=share, false_alarm_rate=rate)
    X = np.random.default_rng(0).normal(size=(wanted, 1))
    with pytest.raises(LearningError):
        detector.fit(X)
    with pytest.raises(ValueError, match=r"calibration points|minimum of 2"):
        detector.fit(X[:-1])


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
    monkeypatch.setattr(folder, "load", None)
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
        ("model", "is of format 99; this version of uspebm reads format 2: install a newer one"),
        (".", "it has no model.json"),
    ):
        place = tmp_path / name
        refused(message, "score", place, "x.csv", "--out", tmp_path / "s.csv")
        refused(message, "evaluate", place, "--id", "x.csv", "--ood", "a=x.csv")
        refused(message, "export", place, "--onnx", tmp_path / "m.onnx")
        refused(message, "info", place)


@pytest.mark.parametrize("text", ["far", "=x.csv", "far=", "="])
def test_outliers_need_a_name_and_a_file(
    models: Path, refused: Callable[..., None], text: str
) -> None:
    command = ("evaluate", models / "named", "--id", models / "x.csv")
    refused(f"{text} should be NAME=DATA", *command, f"--ood={text}")


def test_outliers_need_different_names(models: Path, refused: Callable[..., None]) -> None:
    ood = ("--ood", f"far={models / 'x.csv'}") * 2
    refused("different names", "evaluate", models / "named", "--id", models / "x.csv", *ood)


def test_what_the_parser_refuses_is_one_line_too(refused: Callable[..., None]) -> None:
    refused("invalid choice: 'learn'", "learn")
    refused("the following arguments are required: --out; 'uspebm fit --help'", "fit", "x.csv")
