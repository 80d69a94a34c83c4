"""Data files of every kind, and what reading one that is refused must say."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from PIL import Image

from uspebm.data.readers import open_source

ROWS = 23
NUMBERS = np.random.default_rng(0)
TABLE = NUMBERS.normal(size=(ROWS, 3))
BYTES = NUMBERS.integers(0, 256, (ROWS, 4, 5), dtype=np.uint8)
COLOURS = NUMBERS.integers(0, 256, (ROWS, 4, 5, 3), dtype=np.uint8)
IDX = bytes([0, 0, 8, 3, 0, 0, 0, ROWS, 0, 0, 0, 4, 0, 0, 0, 5]) + BYTES.tobytes()


def csv_text(table: NDArray[Any], names: str = "a,b,c\n", comma: str = ",") -> bytes:
    lines = [comma.join(map(repr, row)) + "\n" for row in table.tolist()]
    return (names.replace(",", comma) + "".join(lines)).encode()


def write_parquet(path: Path, **columns: Any) -> None:
    pq.write_table(pa.table(columns), path, row_group_size=7)


def write_images(folder: Path, images: NDArray[Any]) -> None:
    folder.mkdir()
    (folder / ".hidden").write_text("not an image")
    for k, image in enumerate(images):
        Image.fromarray(image).save(folder / f"{k:03}.png")


def as_columns(table: NDArray[Any]) -> dict[str, NDArray[Any]]:
    return dict(zip("abc", table.T, strict=True))


Writer = Callable[[Path], object]
FILES: dict[str, tuple[Writer, NDArray[Any]]] = {
    "x.csv": (lambda path: path.write_bytes(csv_text(TABLE)), TABLE),
    "X.CSV": (lambda path: path.write_bytes(b"\xef\xbb\xbf" + csv_text(TABLE)), TABLE),
    "x.csv.gz": (lambda path: path.write_bytes(gzip.compress(csv_text(TABLE))), TABLE),
    "x.tsv": (lambda path: path.write_bytes(csv_text(TABLE, comma="\t")), TABLE),
    "x.parquet": (lambda path: write_parquet(path, **as_columns(TABLE)), TABLE),
    "x.npy": (lambda path: np.save(path, TABLE), TABLE),
    "fortran.npy": (lambda path: np.save(path, np.asfortranarray(TABLE)), TABLE),
    "big-endian.npy": (lambda path: np.save(path, TABLE.astype(">f8")), TABLE),
    "images.npy": (lambda path: np.save(path, COLOURS), COLOURS),
    "x.npz": (lambda path: np.savez_compressed(path, TABLE), TABLE),
    "several.npz": (lambda path: np.savez(path, y=BYTES, X=TABLE), TABLE),
    "x.idx": (lambda path: path.write_bytes(IDX), BYTES),
    "x.idx.gz": (lambda path: path.write_bytes(gzip.compress(IDX)), BYTES),
    "images-idx3-ubyte": (lambda path: path.write_bytes(IDX), BYTES),
    "images-idx3-ubyte.gz": (lambda path: path.write_bytes(gzip.compress(IDX)), BYTES),
    "grey": (lambda path: write_images(path, BYTES), BYTES),
    "colour": (lambda path: write_images(path, COLOURS), COLOURS),
}


def refused(path: Path, message: str, **choice: Any) -> None:
    with pytest.raises((ValueError, FileNotFoundError)) as error:
        open_source(path, **choice).read()
    text = str(error.value)
    assert text.startswith(str(path))
    assert "\n" not in text
    assert message in text
