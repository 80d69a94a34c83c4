"""Files of every kind, and how the commands are run on them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from PIL import Image

from uspebm.cli import user_data
from uspebm.cli.main import main
from uspebm.data import readers

ROWS = 120
NUMBERS = np.random.default_rng(0)
# Columns in very different units.
TABLE = NUMBERS.normal(size=(ROWS, 3)) * [1.0, 1e4, 1e-3] + [0.0, 1e5, 0.0]
FRAME = pd.DataFrame(TABLE, columns=list("abc"))
IMAGES = NUMBERS.integers(0, 256, (ROWS, 4, 5), dtype=np.uint8)
IDX = bytes([0, 0, 8, 3, 0, 0, 0, ROWS, 0, 0, 0, 4, 0, 0, 0, 5]) + IMAGES.tobytes()
QUICK = ("--max-updates", "0")


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


def model_content(place: Path) -> dict[str, bytes | None]:
    """A model's files, but for those that tell the command and how long it took."""
    found = content(place)
    assert found.pop("report.html")
    assert found.pop("evidence.json")
    return found


def no_work(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """From now on, the reading that is named fails the test."""

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("worked before it looked")

    for name in names:
        monkeypatch.setattr(readers, name, fail)
        monkeypatch.setattr(user_data, name, fail, raising=False)
