"""Model folders that were made, checksum and all, to harm whoever loads them."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.detector.models import TABLE, made
from tests.detector.signing import ABOUT, WEIGHTS, about, signed
from uspebm import load, save_model
from uspebm.detector import folder as model_folder
from uspebm.detector.folder import ModelFileError, describe


def tilted(**changes: Any) -> dict[str, Any]:
    network = {"kind": "MLP", "settings": {"width": 128, "layers": 3, "slope": 0.2} | changes}
    return {"kind": "TiltedEnergy", "network": network}


def conv(**changes: Any) -> dict[str, Any]:
    return {"kind": "Conv", "settings": {"filters": [8], "width": 8, "slope": 0.2} | changes}


def nested(depth: int) -> dict[str, Any]:
    parts = tilted()
    for _ in range(depth):
        parts = {"kind": "TiltedEnergy", "network": parts}
    return parts


def over_features(networks: Any, **reading: Any) -> dict[str, Any]:
    joined = {"kind": "Joined", "networks": networks}
    usual = {"middle": 10, "around": 40, "locality": 0.4}
    return {
        "kind": "FeatureEnergy",
        "neighbours": 5,
        "network": joined,
        "reading": usual | reading,
    }


BOX = {"kind": "Box", "low": -1.0, "high": 1.0, "shape": [10**9]}
SAID: dict[str, dict[str, Any]] = {
    "layers": {"energy": tilted(layers=100_000)},
    "layers that are no number": {"energy": tilted(layers=1e300)},
    "a width": {"energy": tilted(width=10**12)},
    "a width beyond numbers": {"energy": tilted(width=2**70)},
    "a width of a gigabyte": {"energy": tilted(width=16_000)},
    "a slope": {"energy": tilted(slope=[1])},
    "a slope beyond numbers": {"energy": tilted(slope=10**400)},
    "a slope that is nearly": {"energy": tilted(slope=1e300)},
    "filters": {"energy": conv(filters=[10**9] * 3)},
    "many filters": {"energy": conv(filters=[1] * 100_000)},
    "settings": {"energy": {"kind": "MLP", "settings": [1]}},
    "an energy in itself": {"energy": nested(1)},
    "an energy in itself, often": {"energy": nested(100)},
    "one network": {"energy": over_features([conv()])},
    "three networks": {"energy": over_features([conv()] * 3)},
    "networks that are no list": {"energy": over_features("Conv")},
    "networks in themselves": {
        "energy": over_features([over_features([conv()] * 2)["network"]] * 2)
    },
    "a kind that is no name": {"energy": over_features([{"kind": ["Conv"]}] * 2)},
    "a middle": {"energy": over_features([conv()] * 2, middle="ten")},
    "a locality": {"energy": over_features([conv()] * 2, locality="0.4")},
    "another reading": {"energy": over_features([conv()] * 2, power=2)},
    "a score": {
        "recipe": {
            "kind": "Recipe",
            "name": "x",
            "energy": {"kind": "ConvRule"},
            "score": {"kind": "FeatureRule", "reading": 5},
        }
    },
    "shape": {"event_shape": [10**9]},
    "columns": {"columns": ["a"] * 4},
    "columns that are no list": {"columns": {"a": 1, "b": 2, "c": 3}},
    "columns that were dropped": {"dropped_columns": "abc"},
    "columns that are no names": {"columns": [["a"], ["b"], ["c"]]},
    "a format": {"format": 1e999},
    "a recipe": {"recipe": {"kind": "Recipe", "name": "x", "phase": BOX, "energy": 1}},
    "a deep recipe": {"recipe": json.loads('{"kind": "Recipe", "name": ' * 300 + "1" + "}" * 300)},
    "an offset": {"offset": float("nan")},
    "a curve": {"curve": [[1e999, 1]]},
    "a false-alarm rate": {
        "settings": {"calibration": 0.2, "false_alarm_rate": {}, "verbose": False}
    },
}


@pytest.mark.parametrize("case", SAID, ids=list(SAID))
def test_what_is_said_is_compared_before_anything_is_built(folder: Path, case: str) -> None:
    signed(folder, **SAID[case])
    began = time.monotonic()
    with pytest.raises(ModelFileError) as error:
        load(folder)
    assert time.monotonic() - began < 2
    assert str(error.value).startswith(str(folder))
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 700


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"network": {"kind": "Joined", "networks": [conv()]}}, "must be two, each one of MLP"),
        ({"network": {"kind": "Joined", "networks": [conv()] * 3}}, "must be two"),
        ({"reading": 5}, "reading=5 must have middle, around, locality"),
        ({"reading": {"power": 1}}, "must have middle, around, locality"),
        (
            {"reading": {"middle": 10, "around": 40, "locality": True}},
            "locality=True must be a number between 0 and 1",
        ),
        ({"reading": {}}, "must have middle, around, locality, cap"),
        (
            {"reading": {"middle": 10, "around": 40, "locality": 0.4, "cap": 2}},
            "cap=2 must be a number between 0 and 1",
        ),
        ({"widths": 5}, "a list of 2 widths is needed, not 5"),
        ({"widths": [1] * 100_000}, "a list of 2 widths is needed"),
        ({"widths": ["a", 1]}, "must be a whole number, at least 1"),
        ({"widths": [1, 1]}, "must add up to"),
    ],
)
def test_what_an_energy_over_features_is_not_made_of(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    save_model(made("images"), tmp_path / "model")
    signed(tmp_path / "model", energy=about(tmp_path / "model")["energy"] | change)
    with pytest.raises(ModelFileError, match=message):
        load(tmp_path / "model")


def test_a_box_of_any_dimension_is_made_at_once(folder: Path) -> None:
    """A recipe that names one with a billion coordinates is read, and is never run."""
    recipe = about(folder)["recipe"]
    nodes = {"kind": "Importance", "proposal": BOX, "nodes": 10}
    signed(folder, recipe=recipe | {"phase": nodes})
    began = time.monotonic()
    load(folder)
    assert time.monotonic() - began < 2


def rewritten(change: Callable[[dict[str, torch.Tensor]], object]) -> Callable[[Path], None]:
    def harm(folder: Path) -> None:
        tensors = safetensors.torch.load((folder / WEIGHTS).read_bytes())
        change(tensors)
        (folder / WEIGHTS).write_bytes(safetensors.torch.save(tensors))
        signed(folder)

    return harm


def put(name: str, value: torch.Tensor) -> Callable[[Path], None]:
    return rewritten(lambda tensors: tensors.update({name: value}))


CENTRES = "energy.reference.centres"
TENSORS: dict[str, Callable[[Path], None]] = {
    "no centres": put(CENTRES, torch.zeros(0, 3, dtype=torch.float64)),
    "centres of another shape": put(CENTRES, torch.zeros(5, 4, dtype=torch.float64)),
    "centres of no shape": put(CENTRES, torch.zeros((), dtype=torch.float64)),
    "a factor": put("scaling.factor", torch.ones(2, dtype=torch.float64)),
    "a factor of one row": put("scaling.factor", torch.ones(1, 3, dtype=torch.float64)),
    "scores in a square": put("calibration_scores", torch.zeros(4, 4, dtype=torch.float64)),
    "no scores": put("calibration_scores", torch.zeros(0, dtype=torch.float64)),
    "scores of halves": put("calibration_scores", torch.zeros(9, dtype=torch.bfloat16)),
    "scores of nothing": put("calibration_scores", torch.full((9,), torch.nan).double()),
    "another tensor": put("more", torch.zeros(9)),
    "one less": rewritten(lambda tensors: tensors.pop("energy.strength")),
    "weights that are no numbers": rewritten(
        lambda tensors: tensors["energy.network.net.0.weight"].fill_(torch.nan)
    ),
}


@pytest.mark.parametrize("case", TENSORS, ids=list(TENSORS))
def test_weights_that_do_not_fit_are_one_line(folder: Path, case: str) -> None:
    TENSORS[case](folder)
    with pytest.raises(ModelFileError, match="do not fit together") as error:
        load(folder)
    assert str(error.value).isprintable()


def test_text_that_is_too_long_is_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_folder, "MOST_SAID", 10_000)
    (folder / ABOUT).write_bytes(b'{"format": 2, "a": [' + b"[]," * 200_000 + b"1]}")
    for read in (load, describe):
        with pytest.raises(ModelFileError, match=r"model\.json is larger than"):
            read(folder)
    save_model(made("table"), folder.parent / "other")
    (folder.parent / "other" / "README.md").write_text("x" * 10_001)
    with pytest.raises(ModelFileError, match=r"README\.md is larger than 10,000 bytes"):
        describe(folder.parent / "other")


STRANGE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.sampled_from(["kind", "settings", "network", "x"]), st.text(max_size=5)),
)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_whatever_is_said_is_loaded_or_refused_in_one_line(
    saved: Path, tmp_path: Path, data: Any
) -> None:
    """Any place of what is said may hold anything; what is loaded can be used."""
    said = about(saved)
    holder: Any = said
    key = data.draw(st.sampled_from(sorted(said)))
    while isinstance(holder[key], dict | list) and holder[key] and data.draw(st.booleans()):
        holder = holder[key]
        key = data.draw(st.sampled_from(sorted(holder) if isinstance(holder, dict) else [0]))
    holder[key] = data.draw(STRANGE)
    folder = tmp_path / "model"
    folder.mkdir(exist_ok=True)
    (folder / WEIGHTS).write_bytes((saved / WEIGHTS).read_bytes())
    (folder / ABOUT).write_text(json.dumps(said))
    signed(folder)
    try:
        scores = load(folder).score_samples(TABLE)
    except ModelFileError as error:
        assert str(error).isprintable()
    else:
        assert not np.isnan(scores).any()
