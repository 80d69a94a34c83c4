"""``uspebm rerun``: a model or a run once more, and where it differs."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file, save

from tests.detector.signing import about, signed
from tests.recipes.test_run import LAW, RECIPE
from uspebm import train
from uspebm.cli.making import arguments_again

from .common import TABLE, run, write_csv, write_images

TRAINED = ("--recipe", "tables-density", "--max-updates", "20")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table, a model of it with a network, and one without."""
    folder = tmp_path_factory.mktemp("rerun")
    write_csv(folder / "x.csv")
    flags = ("--seed", 5, "--drop", "b", "--false-alarm-rate", 0.1)
    assert run("fit", folder / "x.csv", "--out", folder / "trained", *TRAINED, *flags) == 0
    assert run("fit", folder / "x.csv", "--out", folder / "m", "--contamination", "0.05") == 0
    return folder


def answer(capsys: pytest.CaptureFixture[str], code: int, *arguments: object) -> dict[str, Any]:
    capsys.readouterr()
    assert run("rerun", *arguments, "--json") == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert found["same"] == (code == 0)
    return found


@pytest.mark.parametrize("name", ["trained", "m"])
def test_a_model_is_made_again(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    moved = shutil.copy(place / "x.csv", tmp_path / "moved.csv")  # only the content counts
    out = tmp_path / "again"
    found = answer(capsys, 0, place / name, "--data", moved, "--out", out)
    assert found["difference"] is None
    assert found["updates"] == (20 if name == "trained" else 0)
    weights = [(folder / "weights.safetensors").read_bytes() for folder in (place / name, out)]
    assert weights[0] == weights[1]
    assert run("rerun", place / name, "--data", moved) == 0
    assert "the same bit for bit" in capsys.readouterr().out


def test_other_data_are_named_and_not_trained_on(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = write_csv(tmp_path / "x.csv", TABLE + 1e-9)
    flags = ("--data", other, "--out", tmp_path / "never")
    found = answer(capsys, 1, place / "trained", *flags)
    assert found["difference"].startswith("the data: their SHA-256 was ")
    assert not (tmp_path / "never").exists()
    assert run("rerun", place / "trained", *flags) == 1
    assert "is not repeated: it differs first in the data" in capsys.readouterr().out


def changed_model(place: Path, folder: Path, part: str, **changes: Any) -> Path:
    """A copy whose ``model.json`` says something else of how it was made, and is whole."""
    shutil.copytree(place / "trained", folder)
    made = about(folder)["made"]
    signed(folder, made=made | {part: made[part] | changes})
    return folder


def test_another_seed_gives_another_model(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = changed_model(place, tmp_path / "m", "settings", seed=6)
    found = answer(capsys, 1, model, "--data", place / "x.csv")
    assert found["difference"].startswith("model.json, seed: was 5, is 6")


def test_other_weights_are_named(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = Path(shutil.copytree(place / "trained", tmp_path / "m"))
    weights = load_file(model / "weights.safetensors")
    weights["scaling.shift"] += 1e-6
    (model / "weights.safetensors").write_bytes(save(weights))
    signed(model)
    found = answer(capsys, 1, model, "--data", place / "x.csv")
    assert found["difference"] == "weights.safetensors, scaling.shift: by up to 1e-06"


def test_other_versions_are_told(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = changed_model(place, tmp_path / "m", "environment", numpy="1.0")
    found = answer(capsys, 0, model, "--data", place / "x.csv")
    assert found["changed"] == [f"numpy was 1.0, is {np.__version__}"]


def test_what_fitted_a_time_gets_as_many_updates(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--recipe", "tables-density", "--max-updates", "70", "--minutes", "5")
    assert run("fit", place / "x.csv", "--out", tmp_path / "m", *flags) == 0
    assert answer(capsys, 0, tmp_path / "m", "--data", place / "x.csv")["updates"] == 70


def test_a_folder_of_images_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    images = write_images(tmp_path / "images")
    flags = ("--out", tmp_path / "m", "--resize", "6x4")
    assert run("fit", images, *flags) == 0
    assert answer(capsys, 0, tmp_path / "m", "--data", images)["difference"] is None
    (images / "000.png").unlink()
    assert "SHA-256" in answer(capsys, 1, tmp_path / "m", "--data", images)["difference"]


def test_a_run_is_made_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(RECIPE, LAW, tmp_path / "run", 0, show=False)
    out = tmp_path / "again"
    assert answer(capsys, 0, tmp_path / "run", "--out", out)["updates"] == 8
    assert (out / "log.jsonl").exists()
    assert run("rerun", tmp_path / "run") == 0
    assert "8 updates, the same bit for bit" in capsys.readouterr().out


def test_settings_are_flags_again(tmp_path: Path) -> None:
    settings = {"drop": ["-a", "b c"], "resize": [6, 4], "skip_bad": True, "minutes": None}
    found = arguments_again(settings | {"out": "elsewhere", "seed": 7}, Path("x"), Path("m"))
    assert (found.drop, found.resize, found.skip_bad) == (["-a", "b c"], (6, 4), True)
    assert (found.out, found.seed, found.minutes) == (Path("m"), 7, None)


def test_what_cannot_be_repeated_is_refused(
    place: Path, tmp_path: Path, refused: Callable[..., None]
) -> None:
    (tmp_path / "empty").mkdir()
    refused("neither a run's folder nor a model's", "rerun", tmp_path / "empty")
    train(RECIPE, LAW, tmp_path / "empty" / "run", 0, show=False)
    refused(["these below it have", "empty/run"], "rerun", tmp_path / "empty")
    refused("does not exist", "rerun", tmp_path / "nowhere")
    refused("give them as --data", "rerun", place / "m")
    refused("does not exist", "rerun", place / "m", "--data", tmp_path / "gone.csv")
    data = ("--data", place / "x.csv")
    refused("is not empty", "rerun", place / "m", *data, "--out", place / "trained")
    refused("is a file", "rerun", place / "m", *data, "--out", place / "x.csv")
    copy = Path(shutil.copytree(place / "trained", tmp_path / "m"))
    signed(copy, made=None)
    refused("does not say how it was made", "rerun", copy, *data)
    bad: list[Any] = [3, {"settings": {}}]
    for made in bad:
        signed(copy, made=made)
        refused("does not say how the model was made", "rerun", copy, *data)
    strange = changed_model(place, tmp_path / "strange", "settings", rows="many")
    refused("many must be a whole number", "rerun", strange, *data)
    shutil.copy(place / "m" / "weights.safetensors", copy)
    refused("are damaged, or not of one model", "rerun", copy, *data)
