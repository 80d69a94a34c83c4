"""Arrays: what is refused."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .common import TABLE, refused

ARRAYS: dict[str, tuple[Any, str]] = {
    "nan": ([[1.0], [np.nan], [np.inf]], "NaN or infinite values in at least 2 rows: 2, 3 ("),
    "one axis": ([1.0, 2.0], "has shape (2,), but rows and columns are needed: reshape"),
    "no rows": (np.zeros((0, 3)), "has no values: its shape is (0, 3)"),
    "no columns": (np.zeros((3, 0)), "has no values: its shape is (3, 0)"),
    "complex": ([[1j]], "holds values of type complex128, not real numbers"),
    "text": ([["a"]], "holds values of type <U1, not real numbers"),
    "objects": (np.array([[None]]), "holds values of type object, not real numbers"),
}


@pytest.mark.parametrize("case", ARRAYS, ids=list(ARRAYS))
@pytest.mark.parametrize("ending", [".npy", ".npz"], ids=["npy", "npz"])
def test_arrays_that_are_refused(tmp_path: Path, case: str, ending: str) -> None:
    values, message = ARRAYS[case]
    save = np.save if ending == ".npy" else np.savez
    save(tmp_path / f"x{ending}", np.asarray(values))
    refused(tmp_path / f"x{ending}", message)


def test_images_with_gaps_are_called_images(tmp_path: Path) -> None:
    images = np.zeros((9, 4, 5))
    images[2, 1, 1] = np.nan
    np.save(tmp_path / "x.npy", images)
    refused(tmp_path / "x.npy", "in image 3 (counted from 1); fill in or leave out such images")
    images[7] = np.inf
    np.save(tmp_path / "x.npy", images)
    refused(tmp_path / "x.npy", "in at least 2 images: 3, 8 (counted from 1)")


def test_archives_of_several_arrays(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", a=TABLE, b=TABLE)
    refused(tmp_path / "x.npz", "holds 'a', 'b', and needs one array, or one called 'X' or 'x'")
    np.savez(tmp_path / "x.npz", X=TABLE, x=TABLE)
    refused(tmp_path / "x.npz", "holds 'X', 'x', and needs one array")
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("readme.txt", "nothing here")
    refused(tmp_path / "x.npz", "holds no array")


def test_idx_labels_are_no_rows(tmp_path: Path) -> None:
    (tmp_path / "labels-idx1-ubyte").write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9]))
    refused(tmp_path / "labels-idx1-ubyte", "reshape one number per row to (N, 1)")
