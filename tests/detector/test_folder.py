"""Model folders: what is saved comes back to the bit, and says who made it."""

import json
import math
import pickle
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Self

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import uspebm
from tests.detector.models import CASES, OWN_ENERGIES, OWN_RECIPES, TABLE, fresh, made
from tests.detector.signing import about, signed
from uspebm import EnergyDetector, load, save_model
from uspebm.detector import folder as model_folder
from uspebm.detector.folder import ModelFileError, describe, pretrained
from uspebm.energies.features import FeatureEnergy, FeatureRule
from uspebm.energies.nearest import Nearest, log_scales
from uspebm.energies.reading import Reading
from uspebm.energies.rules import ConvRule
from uspebm.energies.turning import Turning
from uspebm.recipes.held_out import Look
from uspebm.recipes.plain import as_plain
from uspebm.support.randomness import generator


def content(place: Path) -> dict[str, bytes | None]:
    found = {str(p.relative_to(place)): p for p in place.rglob("*")}
    return {name: p.read_bytes() if p.is_file() else None for name, p in sorted(found.items())}


@pytest.mark.parametrize("case", CASES, ids=list(CASES))
def test_what_is_saved_comes_back_to_the_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    X = CASES[case][0]
    before = made(case)
    save_model(before, tmp_path / "model")
    given = {"energy": fresh(case).scorer_.energy} if case in OWN_ENERGIES else {}

    def unsafe(*_: object, **__: object) -> None:
        raise AssertionError("loading may run no code")

    for module, name in ((torch, "load"), (pickle, "load"), (pickle, "loads")):
        monkeypatch.setattr(module, name, unsafe)
    state = torch.get_rng_state()
    after = load(tmp_path / "model", **given)
    assert torch.equal(torch.get_rng_state(), state)
    monkeypatch.undo()

    for method in ("score_samples", "p_values", "predict", "decision_function"):
        np.testing.assert_array_equal(getattr(after, method)(X), getattr(before, method)(X), method)
    np.testing.assert_array_equal(after.calibration_scores_, before.calibration_scores_)
    after.calibration_scores_[0] += 0  # may be written to
    same = ("offset_", "curve_", "event_shape_", "n_features_in_", "of_bytes_", "log_z_error_")
    for name in (*same, "seed_", "dropped_columns_", "calibration", "false_alarm_rate", "verbose"):
        assert getattr(after, name) == getattr(before, name), name
    assert after.resized_
    assert list(getattr(after, "feature_names_in_", [])) == list(
        getattr(before, "feature_names_in_", [])
    )
    assert after.recipe_ == (None if case in OWN_RECIPES else before.recipe_)
    states = before.scorer_.state_dict(), after.scorer_.state_dict()
    assert states[0].keys() == states[1].keys()
    for key, value in states[0].items():
        assert value.dtype == states[1][key].dtype
        assert torch.equal(value, states[1][key]), key
    assert not any(module.training for module in after.scorer_.modules())


def test_models_of_one_distance_in_two_networks_score_as_they_did(tmp_path: Path) -> None:
    """As they were until each network had its own: no widths, and a reading without a cap."""
    images = torch.rand(60, 1, 8, 8, generator=generator(0)) * 2 - 1
    rule = FeatureRule(beside=ConvRule((2, 3), width=4), reading=Reading(3, 7, 0.4))
    new = rule.over(ConvRule((3, 4), width=5).build(images, 0), images, seed=0)
    assert new.shift is not None
    assert new.turn is not None
    scale = log_scales(Nearest(new.centres).among_themselves(5)[0])
    joint = Turning(new.shift, new.turn)
    old = FeatureEnergy(new.network, new.centres, scale, joint, reading=new.reading)
    before = EnergyDetector.from_energy(old, images.numpy())
    folder = tmp_path / "model"
    save_model(before, folder)
    said = about(folder)["energy"]
    assert "widths" not in said
    assert said["reading"].pop("cap") == 1.0
    signed(folder, energy=said)
    after = load(folder).score_samples(images.numpy())
    np.testing.assert_array_equal(after, before.score_samples(images.numpy()))
    by_two = EnergyDetector.from_energy(new, images.numpy()).score_samples(images.numpy())
    assert (by_two.argsort() != after.argsort()).any()


@pytest.mark.parametrize("case", sorted(CASES.keys() - OWN_RECIPES))
def test_a_copy_of_a_loaded_detector_repeats_its_training(tmp_path: Path, case: str) -> None:
    X = CASES[case][0]
    save_model(made(case), tmp_path / "model")
    again = clone(load(tmp_path / "model")).fit(X)
    np.testing.assert_array_equal(again.score_samples(X), fresh(case).score_samples(X))
    np.testing.assert_array_equal(again.calibration_scores_, fresh(case).calibration_scores_)
    assert again.recipe_ == fresh(case).recipe_


def test_a_folder_says_who_made_the_model(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Once(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Self:
            assert tz is not None
            return cls(2031, 2, 3, tzinfo=tz)

    monkeypatch.setattr(model_folder, "datetime", Once)
    detector = made("data frame")
    save_model(detector, tmp_path / "pumps", title="Pumps", data="120 rows")
    said, text = describe(tmp_path / "pumps")
    assert said["format"] == 2
    assert said["uspebm"] == uspebm.__version__
    assert said["date"] == "2031-02-03"
    assert said["recipe"] == json.loads(json.dumps(as_plain(detector.recipe_)))
    assert said["recipe"]["schedule"]["updates"] == 50
    assert said["seed"] == 0
    assert said["columns"] == ["α", "b, c", "d|e"]
    assert said["dropped_columns"] == ["id", "größe"]
    assert said["resized"] is True
    assert (said["title"], said["data"]) == ("Pumps", "120 rows")
    assert said["log_z"] == [detector.scorer_.log_normaliser.item(), detector.log_z_error_]
    assert text.startswith("# Pumps\n")
    drawn = made("own energy")
    save_model(drawn, tmp_path / "drawn")
    assert about(tmp_path / "drawn")["seed"] == drawn.seed_ is not None
    assert about(tmp_path / "drawn")["log_z"] is None


def test_a_folder_holds_numbers_and_text_only(folder: Path) -> None:
    names = {path.name for path in folder.iterdir()}
    assert names == {"weights.safetensors", "model.json", "README.md", "curve.png"}
    assert not any(b"pickle" in (folder / name).read_bytes() for name in names)
    assert (folder / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert all((folder / name).stat().st_mode & 0o077 for name in names)  # for others to read too


def test_the_same_detector_is_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    said = json.dumps(about(folder)["date"]).encode()
    save_model(made("table"), tmp_path / "again")
    save_model(load(folder), tmp_path / "twice")
    for other in ("again", "twice"):
        found = content(tmp_path / other)
        assert found.keys() == content(folder).keys()
        if said in (found["model.json"] or b""):  # unless midnight lies between them
            assert found == content(folder)


def test_what_is_not_fitted_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError, match="call fit, then save"):
        save_model(EnergyDetector(), tmp_path / "model")
    assert content(tmp_path) == {}


def test_infinite_and_missing_likelihoods_are_valid_json(tmp_path: Path) -> None:
    save_model(made("table"), tmp_path / "model")
    changed = load(tmp_path / "model")
    changed.curve_ = [Look(0, math.nan), Look(50, -math.inf), Look(100, 1.5)]
    save_model(changed, tmp_path / "model")
    odd = load(tmp_path / "model")
    assert math.isnan(odd.curve_[0].log_likelihood)
    assert odd.curve_[1:] == [(50, -math.inf), (100, 1.5)]

    def constant(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    json.loads((tmp_path / "model" / "model.json").read_text(), parse_constant=constant)


# Names and places


def test_folders_that_are_no_models(tmp_path: Path) -> None:
    for read in (load, describe):
        with pytest.raises(ModelFileError, match=r"has no model\.json"):
            read(tmp_path)
        with pytest.raises(ModelFileError, match="is no model's folder, nor the name of a model"):
            read(tmp_path / "nowhere")
        with pytest.raises(ModelFileError, match="is no model's folder"):
            read("no-such-model")


def test_a_card_that_cannot_be_read(folder: Path) -> None:
    (folder / "README.md").unlink()
    with pytest.raises(ModelFileError, match=r"README\.md cannot be read"):
        describe(folder)
    load(folder)  # people's reading, not ours


def test_a_folder_of_data_does_not_hide_a_model_of_the_package(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fashion-mnist").mkdir()
    assert load("fashion-mnist").event_shape_ == (1, 28, 28)
    (tmp_path / "fashion-mnist").rmdir()
    folder.rename(tmp_path / "fashion-mnist")  # but another model does
    assert load("fashion-mnist").event_shape_ != (1, 28, 28)


@pytest.mark.parametrize("name", pretrained())
def test_models_of_the_package_load(name: str) -> None:
    assert np.isfinite(load(name).offset_)
    assert load(name).recipe_ is not None


def test_what_else_lies_in_a_folder_is_not_replaced(folder: Path, tmp_path: Path) -> None:
    save_model(made("reference alone"), folder)  # a model is
    assert load(folder).score_samples(TABLE).tolist() == (
        made("reference alone").score_samples(TABLE).tolist()
    )
    (folder / "notes.txt").write_text("mine")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "rows.csv").write_text("1,2")
    (tmp_path / "file").write_text("x")
    before = content(tmp_path)
    for place, message in (
        (folder, r"also holds 'notes\.txt': choose another folder, or move that"),
        (tmp_path / "data", "exists and is no model: choose another folder, or empty it"),
        (tmp_path / "file", "is a file: choose a folder"),
    ):
        with pytest.raises(ModelFileError, match=message):
            save_model(made("table"), place)
    assert content(tmp_path) == before
