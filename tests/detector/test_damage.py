"""Damaged model folders: every flip is seen, and told in one line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.detector.models import made
from tests.detector.signing import ABOUT, WEIGHTS, about, signed
from uspebm import load, save_model
from uspebm.detector.folder import ModelFileError, describe


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flipped(path: Path, where: int) -> None:
    content = bytearray(path.read_bytes())
    content[where] ^= 1
    path.write_bytes(content)


def edited(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def of_another(path: Path) -> None:
    save_model(made("reference alone"), path.parent.parent / "other")
    path.write_bytes((path.parent.parent / "other" / path.name).read_bytes())


def resigned(**changes: Any) -> Callable[[Path], None]:
    """As if whoever changed it knew how to make the checksum."""
    return lambda path: signed(path.parent, **changes)


def rescheduled(path: Path) -> None:
    recipe = about(path.parent)["recipe"]
    recipe["schedule"]["batch_size"] = 0
    signed(path.parent, recipe=recipe)


def same_value(path: Path) -> None:
    """A number whose bits changed and whose value did not: no checksum of values sees it."""
    offset = repr(about(path.parent)["offset"])
    path.write_text(path.read_text().replace(offset, offset + "0"))


FEWER = {"kind": "TiltedEnergy", "network": {"kind": "MLP", "settings": {"width": 7}}}
DAMAGE: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "truncated weights": (WEIGHTS, truncated, "weights.safetensors cannot be read"),
    "empty weights": (WEIGHTS, lambda p: p.write_bytes(b""), "weights.safetensors cannot be read"),
    "no weights": (WEIGHTS, Path.unlink, "weights.safetensors cannot be read"),
    "header's length": (WEIGHTS, lambda p: flipped(p, 0), "weights.safetensors"),
    "header's length, high": (WEIGHTS, lambda p: flipped(p, 7), "cannot be read"),
    "header": (WEIGHTS, lambda p: flipped(p, 12), "weights.safetensors"),
    "a weight": (WEIGHTS, lambda p: flipped(p, -1), "damaged, or not of one model"),
    "another's weights": (WEIGHTS, of_another, "damaged, or not of one model"),
    "another's JSON": (ABOUT, of_another, "damaged, or not of one model"),
    "truncated JSON": (ABOUT, truncated, "model.json cannot be read"),
    "a digit that does not count": (ABOUT, same_value, "model.json cannot be read"),
    "no JSON": (ABOUT, Path.unlink, "is no model's folder: it has no model.json"),
    "JSON of another kind": (ABOUT, lambda p: p.write_text("[1]"), "model.json cannot be read"),
    "JSON of something": (ABOUT, lambda p: p.write_text("{}"), "model.json has no 'format'"),
    "deep JSON": (ABOUT, lambda p: p.write_text("[" * 100_000), "model.json cannot be read"),
    "bytes": (ABOUT, lambda p: p.write_bytes(b"\xff\xfe{}"), "model.json cannot be read"),
    "format in words": (ABOUT, lambda p: edited(p, format="new"), "model.json cannot be read"),
    "an edited threshold": (ABOUT, lambda p: edited(p, offset=0.0), "damaged, or not of one model"),
    "an edited seed": (ABOUT, lambda p: edited(p, seed=1), "damaged, or not of one model"),
    "no checksum": (ABOUT, lambda p: edited(p, sha256=None), "damaged, or not of one model"),
    "an energy too little": (ABOUT, resigned(energy={}), "do not fit together"),
    "an energy": (ABOUT, resigned(energy={"kind": "GPT"}), "do not fit together"),
    "no reference": (
        ABOUT,
        resigned(energy={"kind": "MLP", "settings": {"width": 128, "layers": 3}}),
        "do not fit together",
    ),
    "width": (ABOUT, resigned(energy=FEWER), "do not fit together"),
    "own": (ABOUT, resigned(energy={"kind": "own"}), "an energy of its maker's own"),
    "shape": (ABOUT, resigned(event_shape=[4]), "do not fit together"),
    "huge shape": (ABOUT, resigned(event_shape=[10**18]), "do not fit together"),
    "shape in words": (ABOUT, resigned(event_shape="x"), "do not fit together"),
    "settings": (ABOUT, resigned(settings={"depth": 3}), "do not fit together"),
    "curve": (ABOUT, resigned(curve=[[1]]), "do not fit together"),
    "offset": (ABOUT, resigned(offset="low"), "do not fit together"),
    "null": (ABOUT, resigned(offset=None), "do not fit together"),
    "log Z": (ABOUT, resigned(log_z=[1.0]), "do not fit together"),
    "a part of a recipe": (ABOUT, resigned(recipe={"kind": "Recipe"}), "do not fit together"),
    "a setting of a recipe": (ABOUT, rescheduled, "do not fit together.*batch_size=0"),
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


def test_a_right_checksum_alone_is_no_damage(folder: Path) -> None:
    signed(folder, title="Another title")
    load(folder)


@pytest.mark.parametrize(
    ("version", "message"),
    [
        (1, r"is of format 1; this version of uspebm reads format 2: fit the model again"),
        (3, r"is of format 3; this version of uspebm reads format 2: install a newer one"),
    ],
)
def test_folders_of_other_versions_are_refused_with_what_to_do(
    folder: Path, version: int, message: str
) -> None:
    edited(folder / ABOUT, format=version)
    for read in (load, describe):
        with pytest.raises(ModelFileError, match=message) as error:
            read(folder)
        assert "\n" not in str(error.value)


def test_every_flip_in_the_weights_is_seen(folder: Path) -> None:
    path = folder / WEIGHTS
    whole = path.read_bytes()
    for where in range(0, len(whole), len(whole) // 50):
        flipped(path, where)
        with pytest.raises(ModelFileError, match=r"weights\.safetensors"):
            load(folder)
        path.write_bytes(whole)
    load(folder)


def test_every_flip_in_what_is_said_of_them_is_seen(folder: Path) -> None:
    path = folder / ABOUT
    whole = path.read_bytes()
    unseen = 0
    for where in range(0, len(whole), 7):
        flipped(path, where)
        try:
            load(folder)
        except ModelFileError as error:
            assert "\n" not in str(error)
        else:  # the last of 17 digits, say, where the number is the same
            assert json.loads(path.read_text()) == json.loads(whole)
            unseen += 1
        path.write_bytes(whole)
    assert unseen <= 2
    load(folder)
