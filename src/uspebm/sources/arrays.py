"""Arrays: ``.npy``, ``.npz`` and IDX."""

import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import final

import numpy as np

from ..idx import parse_idx, unzipped
from .source import Rows, Source, one_line, refuse_rows

NPZ_NAMES = ("X", "x")


@final
class ArrayFile(Source):
    """One array whose first axis counts the rows.

    A ``.npy`` file is mapped, and takes memory for one chunk only; ``.npz`` and IDX files are read
    whole when opened. Three or more axes of bytes are images, and stay bytes; all else becomes
    floats: float32 for float32 and float16, float64 for any other number.
    """

    def __init__(self, path: Path) -> None:
        array = _load(path)
        if array.dtype.kind not in "biuf":
            raise ValueError(f"{path} holds values of type {array.dtype}, not real numbers")
        if array.ndim < 2:
            raise ValueError(
                f"{path} has shape {array.shape}, but rows and columns are needed: "
                "reshape one number per row to (N, 1)"
            )
        if not array.size:
            raise ValueError(f"{path} has no values: its shape is {array.shape}")
        self.path = path
        self.event_shape = array.shape[1:]
        self.rows = len(array)
        self._held = None if isinstance(array, np.memmap) else array
        self._type: type[np.uint8 | np.float32 | np.float64] = np.float64
        if array.dtype == np.uint8 and array.ndim > 2:
            self._type = np.uint8
        elif array.dtype.kind == "f" and array.dtype.itemsize <= 4:
            self._type = np.float32

    def _blocks(self, size: int) -> Iterator[Rows]:
        for begin in range(0, self.rows or 0, size):
            # Mapped anew for each block: what was read of a map takes memory until it is closed.
            array = _load(self.path) if self._held is None else self._held
            block = array[begin : begin + size].astype(self._type)
            bad = ~np.isfinite(block.reshape(len(block), -1)).all(1)
            refuse_rows(self.path, bad, begin, "NaN or infinite values", "row")
            yield block


def _load(path: Path) -> Rows:
    ending = path.suffix.lower()
    if ending not in (".npy", ".npz"):
        return np.asarray(parse_idx(unzipped(path.read_bytes(), path), path).numpy())
    try:
        if ending == ".npz":
            return _only_array(path)
        return np.lib.format.open_memmap(path, mode="r")
    # A damaged archive shows in many ways, EOFError and zlib.error among them.
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path} cannot be read as {ending}: {one_line(error)}") from error


def _only_array(path: Path) -> Rows:
    with zipfile.ZipFile(path) as archive:
        names = [name[:-4] for name in archive.namelist() if name.endswith(".npy")]
        wanted = names if len(names) == 1 else [name for name in NPZ_NAMES if name in names]
        if len(wanted) != 1:
            raise ValueError(
                f"it holds {', '.join(map(repr, names)) or 'nothing'}, and needs one array, or one "
                "called 'X' or 'x'"
            )
        with archive.open(f"{wanted[0]}.npy") as member:
            return np.asarray(np.lib.format.read_array(member, allow_pickle=False))
