"""Model folders: what is saved comes back to the bit, and damage is told in one line."""

import json
import math
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from torch import Tensor, nn

from uspebm import MLP
from uspebm.card import card
from uspebm.detector import EnergyDetector
from uspebm.learning import Look
from uspebm.modelfile import ModelFileError, describe, load, pretrained, save

NUMBERS = np.random.default_rng(0)
TABLE = NUMBERS.normal(size=(120, 3)) * [1.0, 1e6, 1e-6]
BYTES = NUMBERS.integers(0, 256, (80, 8, 8), dtype=np.uint8)


class Own(nn.Module):
    """A network of a user's, with a buffer and double precision."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Linear(width, 1)).double()
        self.register_buffer("scale", torch.tensor(0.5, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        energy: Tensor = self.scale * self.net(x.double()).squeeze(1)
        return energy.float()


def detector(**settings: Any) -> EnergyDetector:
    return EnergyDetector(**{"centres": 30, "max_updates": 50, "random_state": 0} | settings)


DATA: dict[str, tuple[Any, dict[str, Any]]] = {
    "table": (TABLE, {"calibration": np.float64(0.3), "centres": np.int64(40)}),
    "data frame": (pd.DataFrame(TABLE, columns=["α", "b, c", "d|e"]), {}),
    "reference alone": (TABLE, {"max_updates": 0, "false_alarm_rate": 0.1}),
    "bytes": (BYTES, {"max_updates": 0}),
    "colour": (NUMBERS.integers(0, 256, (80, 8, 8, 3), dtype=np.uint8), {"max_updates": 0}),
    "float images": (BYTES / 255, {"max_updates": 0}),
    "own network": (
        TABLE,
        {"max_updates": 1, "network": Own(), "random_state": np.random.RandomState(0)},
    ),
    "own MLP": (TABLE, {"max_updates": 1, "network": MLP(3, 8, layers=2), "method": "srlmc"}),
}
MADE: dict[str, EnergyDetector] = {}


def made(case: str) -> EnergyDetector:
    """Fitted once, and then with numbers of its own wherever there are any: none is a default."""
    if case not in MADE:
        MADE[case] = detector(**DATA[case][1]).fit(DATA[case][0])
        draws = torch.Generator().manual_seed(0)
        scorer = MADE[case].scorer_
        with torch.no_grad():
            for value in (*scorer.parameters(), scorer.energy.strength, scorer.log_normaliser):
                value += 0.1 * torch.randn(value.shape, generator=draws).to(value.dtype)
    return MADE[case]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save(made("table"), tmp_path / "model")
    return tmp_path / "model"


def content(place: Path) -> dict[str, bytes | None]:
    found = {str(p.relative_to(place)): p for p in place.rglob("*")}
    return {name: p.read_bytes() if p.is_file() else None for name, p in sorted(found.items())}


@pytest.mark.parametrize("case", DATA, ids=list(DATA))
def test_what_is_saved_comes_back_to_the_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    X, _ = DATA[case]
    before = made(case)
    save(before, tmp_path / "model")
    own = {"network": Own()} if case == "own network" else {}

    def unsafe(*_: object, **__: object) -> None:
        raise AssertionError("loading may run no code")

    for module, name in ((torch, "load"), (pickle, "load"), (pickle, "loads")):
        monkeypatch.setattr(module, name, unsafe)
    state = torch.get_rng_state()
    after = load(tmp_path / "model", **own)
    assert torch.equal(torch.get_rng_state(), state)
    monkeypatch.undo()

    for method in ("score_samples", "p_values", "predict", "decision_function"):
        np.testing.assert_array_equal(getattr(after, method)(X), getattr(before, method)(X), method)
    np.testing.assert_array_equal(after.calibration_scores_, before.calibration_scores_)
    after.calibration_scores_[0] += 0  # may be written to
    for name in ("offset_", "curve_", "event_shape_", "n_features_in_", "of_bytes_"):
        assert getattr(after, name) == getattr(before, name), name
    assert list(getattr(after, "feature_names_in_", [])) == list(
        getattr(before, "feature_names_in_", [])
    )
    mine, theirs = before.get_params(deep=False), after.get_params(deep=False)
    assert type(theirs.pop("network")) is type(mine.pop("network"))
    if case == "own network":  # the state of a generator is not a setting
        mine["random_state"] = None
    assert mine == theirs
    states = before.scorer_.state_dict(), after.scorer_.state_dict()
    assert states[0].keys() == states[1].keys()
    for key, value in states[0].items():
        assert value.dtype == states[1][key].dtype
        assert torch.equal(value, states[1][key]), key
    assert not any(module.training for module in after.scorer_.modules())


@pytest.mark.parametrize("case", ["own MLP", "reference alone"])
def test_a_loaded_detector_can_be_fitted_again(tmp_path: Path, case: str) -> None:
    save(made(case), tmp_path / "model")
    again = clone(load(tmp_path / "model")).fit(TABLE)
    networks = (found.scorer_.energy.network for found in (again, made(case)))
    assert len({str(network) for network in networks}) == 1


def test_a_folder_holds_numbers_and_text_only(folder: Path) -> None:
    names = {path.name for path in folder.iterdir()}
    assert names == {"weights.safetensors", "model.json", "README.md", "curve.png"}
    assert not any(b"pickle" in (folder / name).read_bytes() for name in names)
    assert (folder / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert all((folder / name).stat().st_mode & 0o077 for name in names)  # for others to read too


def test_the_same_detector_is_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    save(made("table"), tmp_path / "again")
    assert content(tmp_path / "again") == content(folder)
    save(load(folder), tmp_path / "twice")
    assert content(tmp_path / "twice") == content(folder)


def test_an_own_network_has_to_be_given(tmp_path: Path) -> None:
    save(made("own network"), tmp_path)
    with pytest.raises(ModelFileError, match=r"maker's own: give it as load\(\.\.\., network="):
        load(tmp_path)
    mine = Own()
    before = {name: value.clone() for name, value in mine.state_dict().items()}
    detector = load(tmp_path, network=mine)
    assert detector.network is mine
    assert all(torch.equal(value, before[name]) for name, value in mine.state_dict().items())
    for other in (Own(width=5), Own().float(), MLP(3)):
        with pytest.raises(ModelFileError, match="or network is another one") as error:
            load(tmp_path, network=other)
        assert "\n" not in str(error.value)


def test_what_is_not_fitted_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError, match="call fit, then save"):
        save(EnergyDetector(), tmp_path / "model")
    assert content(tmp_path) == {}


def test_infinite_and_missing_likelihoods_are_valid_json(tmp_path: Path) -> None:
    odd = load_again(tmp_path, [Look(0, math.nan), Look(50, -math.inf), Look(100, 1.5)])
    assert math.isnan(odd.curve_[0].log_likelihood)
    assert odd.curve_[1:] == [(50, -math.inf), (100, 1.5)]

    def constant(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    json.loads((tmp_path / "model" / "model.json").read_text(), parse_constant=constant)
    assert not (tmp_path / "model" / "curve.png").exists()
    text = (tmp_path / "model" / "README.md").read_text()
    assert "Held-out" not in text
    assert "curve.png" not in text
    load_again(tmp_path, [Look(0, 1.0), Look(50, -math.inf), Look(100, 1.5)])
    text = (tmp_path / "model" / "README.md").read_text()
    assert "1.5 after 100 updates, which are kept" in text
    assert "](curve.png)" in text
    odd.offset_ = -math.inf
    save(odd, tmp_path / "model")
    assert load(tmp_path / "model").offset_ == -math.inf
    load_again(tmp_path, [Look(0, 1.0), Look(50, 0.5)])
    assert "which is kept" in (tmp_path / "model" / "README.md").read_text()


def load_again(tmp_path: Path, curve: list[Look]) -> EnergyDetector:
    save(made("table"), tmp_path / "model")
    changed = load(tmp_path / "model")
    changed.curve_ = curve
    save(changed, tmp_path / "model")
    return load(tmp_path / "model")


def test_the_card_says_what_one_should_know() -> None:
    detector = made("data frame")
    text = card(detector, "Pumps", "120 rows of pumps.csv")
    assert text.startswith("# Pumps\n\n## Data\n\n- Fitted to 120 rows of pumps.csv.\n")
    assert "3 columns" in text
    assert f"{len(detector.calibration_scores_)} points kept for calibration" in text
    mean = detector.scorer_.scaling.shift
    assert f"| α | {mean[0]:.6g} | " in text
    assert f"| d\\|e | {mean[2]:.6g} | " in text
    row = next(line for line in text.splitlines() if line.startswith("| b, c |"))
    low, high = map(float, row.split("|")[3:5])
    assert TABLE[:, 1].min() * 1.000001 <= low < high <= TABLE[:, 1].max() * 1.000001
    best = max(detector.curve_, key=lambda look: look.log_likelihood)
    assert f"{detector.curve_[0].log_likelihood:.4g} of the reference alone" in text
    assert f"{best.log_likelihood:.4g} after {best.update} updates" in text or best.update == 0
    assert f"| 5.0% | {detector.offset_:.6g} |" in text
    assert "| 0.1% | needs more calibration points |" in text
    assert "8 × 8 pixels of 3 channels" in card(made("colour"), "Pictures")
    assert "| number 1 | " in card(made("table"), "Nameless")


def test_a_card_lists_thirty_columns() -> None:
    wide = detector(max_updates=0).fit(NUMBERS.normal(size=(60, 33)))
    text = card(wide, "Wide")
    assert "| number 30 |" in text
    assert "| number 31 |" not in text
    assert "And 3 more columns." in text


# Damage


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flipped(path: Path, where: int) -> None:
    content = bytearray(path.read_bytes())
    content[where] ^= 1
    path.write_bytes(content)


def edited(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def others(path: Path) -> None:
    save(detector(max_updates=0).fit(TABLE + 1), path.parent.parent / "other")
    path.write_bytes((path.parent.parent / "other" / path.name).read_bytes())


WEIGHTS, ABOUT = "weights.safetensors", "model.json"
DAMAGE: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "truncated weights": (WEIGHTS, truncated, "weights.safetensors cannot be read"),
    "empty weights": (WEIGHTS, lambda p: p.write_bytes(b""), "weights.safetensors cannot be read"),
    "no weights": (WEIGHTS, Path.unlink, "weights.safetensors cannot be read"),
    "header's length": (WEIGHTS, lambda p: flipped(p, 0), "weights.safetensors"),
    "header's length, high": (WEIGHTS, lambda p: flipped(p, 7), "cannot be read"),
    "header": (WEIGHTS, lambda p: flipped(p, 12), "weights.safetensors"),
    "a weight": (WEIGHTS, lambda p: flipped(p, -1), "damaged or another model's"),
    "another's weights": (WEIGHTS, others, "damaged or another model's"),
    "truncated JSON": (ABOUT, truncated, "model.json cannot be read"),
    "no JSON": (ABOUT, Path.unlink, "is no model's folder: it has no model.json"),
    "JSON of another kind": (ABOUT, lambda p: p.write_text("[1]"), "model.json cannot be read"),
    "JSON of something": (ABOUT, lambda p: p.write_text("{}"), "model.json has no 'format'"),
    "deep JSON": (ABOUT, lambda p: p.write_text("[" * 100_000), "model.json cannot be read"),
    "bytes": (ABOUT, lambda p: p.write_bytes(b"\xff\xfe{}"), "model.json cannot be read"),
    "later": (ABOUT, lambda p: edited(p, format=2), "of format 2; this version of uspebm reads"),
    "format in words": (ABOUT, lambda p: edited(p, format="new"), "model.json cannot be read"),
    "a key too few": (ABOUT, lambda p: edited(p, network={}), "do not fit together"),
    "a network": (ABOUT, lambda p: edited(p, network={"kind": "GPT"}), "do not fit together"),
    "width": (
        ABOUT,
        lambda p: edited(p, network={"kind": "MLP", "settings": {"width": 7}}),
        "do not fit together",
    ),
    "shape": (ABOUT, lambda p: edited(p, event_shape=[4]), "do not fit together"),
    "huge shape": (ABOUT, lambda p: edited(p, event_shape=[10**18]), "do not fit together"),
    "shape in words": (ABOUT, lambda p: edited(p, event_shape="x"), "do not fit together"),
    "settings": (ABOUT, lambda p: edited(p, settings={"depth": 3}), "do not fit together"),
    "curve": (ABOUT, lambda p: edited(p, curve=[[1]]), "do not fit together"),
    "offset": (ABOUT, lambda p: edited(p, offset="low"), "do not fit together"),
    "null": (ABOUT, lambda p: edited(p, offset=None), "do not fit together"),
    "no reference": (ABOUT, lambda p: edited(p, reference=False), "do not fit together"),
}


@pytest.mark.parametrize("case", DAMAGE, ids=list(DAMAGE))
def test_damage_is_told_in_one_line(folder: Path, case: str) -> None:
    name, harm, message = DAMAGE[case]
    harm(folder / name)
    with pytest.raises(ModelFileError, match=message) as error:
        load(folder)
    text = str(error.value)
    assert text.startswith(str(folder))
    assert "\n" not in text
    assert len(text) < 500


def test_every_flip_in_the_weights_is_seen(folder: Path) -> None:
    path = folder / WEIGHTS
    whole = path.read_bytes()
    for where in range(0, len(whole), len(whole) // 50):
        flipped(path, where)
        with pytest.raises(ModelFileError, match=r"weights\.safetensors"):
            load(folder)
        path.write_bytes(whole)
    load(folder)


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


@pytest.mark.parametrize("name", pretrained())
def test_models_of_the_package_load(name: str) -> None:
    assert np.isfinite(load(name).offset_)


# Unfinished saving


def test_a_folder_of_data_does_not_hide_a_model_of_the_package(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fashion-mnist").mkdir()
    assert load("fashion-mnist").event_shape_ == (1, 28, 28)
    (tmp_path / "fashion-mnist").rmdir()
    folder.rename(tmp_path / "fashion-mnist")  # but another model does
    assert load("fashion-mnist").event_shape_ != (1, 28, 28)


def test_an_error_while_saving_leaves_the_former_model(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = content(folder.parent)

    def broken(*_: object) -> str:
        raise RuntimeError("no card")

    monkeypatch.setattr("uspebm.modelfile.card", broken)
    with pytest.raises(RuntimeError, match="no card"):
        save(made("reference alone"), folder)
    assert content(folder.parent) == before


KILLED = """
import os, signal, sys
from uspebm import modelfile

detector = modelfile.load(sys.argv[1])
detector.offset_ = 0.0
def killed(*_): os.kill(os.getpid(), signal.SIGKILL)
modelfile.card = killed
modelfile.save(detector, sys.argv[1])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no such signal")
def test_being_killed_while_saving_leaves_the_former_model(folder: Path) -> None:
    before = content(folder)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", KILLED, str(folder)]
    assert subprocess.run(command, env=environment).returncode == -signal.SIGKILL
    assert content(folder) == before
    assert len(list(folder.parent.iterdir())) == 2  # what was unfinished ...
    save(made("table"), folder)
    assert list(folder.parent.iterdir()) == [folder]  # ... is cleared away by the next
