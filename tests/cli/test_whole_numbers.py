"""Images of whole numbers in other types than bytes: fitted and scored as what they are."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from uspebm import load
from uspebm.data.readers import open_source

from .common import IMAGES, QUICK, run

KINDS = ["int64", "uint16", ">i4", "int16"]


def scores(model: Path, data: Path, out: Path) -> NDArray[Any]:
    assert run("score", model, data, "--out", out) == 0
    found: NDArray[Any] = np.load(out)["score"]
    return found


@pytest.mark.parametrize("ending", [".npy", ".npz"])
@pytest.mark.parametrize("kind", KINDS)
def test_whole_numbers_stay_whole(tmp_path: Path, kind: str, ending: str) -> None:
    path = tmp_path / f"x{ending}"
    (np.save if ending == ".npy" else np.savez)(path, IMAGES.astype(kind))
    rows = open_source(path).read()
    assert rows.dtype == np.dtype(kind).newbyteorder("=")
    np.testing.assert_array_equal(rows, IMAGES)


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_in_other_types_score_as_bytes(models: Path, tmp_path: Path, kind: str) -> None:
    expected = scores(models / "pixels", models / "x-idx3-ubyte", tmp_path / "s.npz")
    np.save(tmp_path / "x.npy", IMAGES.astype(kind))
    found = scores(models / "pixels", tmp_path / "x.npy", tmp_path / "t.npz")
    np.testing.assert_array_equal(found, expected)


def test_dark_images_are_bytes_too(models: Path, tmp_path: Path) -> None:
    """As floats, numbers up to 20 would pass for scaled ones."""
    np.save(tmp_path / "x.npy", (IMAGES // 20).astype(np.int64))
    np.save(tmp_path / "y.npy", IMAGES // 20)
    one, other = (
        scores(models / "pixels", tmp_path / f"{k}.npy", tmp_path / "s.npz") for k in "xy"
    )
    np.testing.assert_array_equal(one, other)


def test_numbers_that_are_no_bytes_are_refused(
    models: Path, tmp_path: Path, refused: Callable[..., None]
) -> None:
    for name, images, values in (
        ("deep.npy", IMAGES.astype(np.uint16) * 256, "uint16 values from 0 to 65280"),
        ("negative.npy", IMAGES.astype(np.int64) - 1, "int64 values from -1 to 254"),
    ):
        np.save(tmp_path / name, images)
        command = ("score", models / "pixels", tmp_path / name, "--out", tmp_path / "s.csv")
        refused([name, "the model was fitted to bytes", values], *command)


@pytest.mark.parametrize("kind", ["int64", "uint16"])
def test_whole_numbers_can_be_learned_from(
    tmp_path: Path, refused: Callable[..., None], kind: str
) -> None:
    """In their own units: the same numbers score alike in whatever type; bytes are refused."""
    deep = IMAGES.astype(kind) * 200
    for name, images in (("x.npy", deep), ("y.npy", deep.astype(np.float64)), ("z.npy", IMAGES)):
        np.save(tmp_path / name, images)
    assert run("fit", tmp_path / "x.npy", "--out", tmp_path / "model", *QUICK) == 0
    assert not load(tmp_path / "model").of_bytes_
    one, other = (
        scores(tmp_path / "model", tmp_path / f"{k}.npy", tmp_path / "s.npz") for k in "xy"
    )
    np.testing.assert_array_equal(one, other)
    command = ("score", tmp_path / "model", tmp_path / "z.npy", "--out", tmp_path / "t.csv")
    refused("fitted to images of floats, but X has bytes", *command)
