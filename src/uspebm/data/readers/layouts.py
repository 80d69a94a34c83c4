"""Where the numbers of an array lie in a file, known and checked before one of them is read."""

import io
import math
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ...support.reading import UnreadableError, reading, refuse_bomb
from ..idx import idx_shape, wrong_length
from ..unpacking import DEFLATED, is_gzipped, unzipped_stream

NPZ_NAMES = ("X", "x")
NPY_HEADER = 10_000  # bytes; numpy's own bound, and arrays of numbers need about a hundred
MOST_AXES = 32  # numpy's arrays had no more for long, and rows have three at most
READERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


@dataclass(frozen=True)
class Layout:
    """An array's ``shape``, ``dtype`` and order, and after how many bytes its values ``begin``."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    by_columns: bool
    begin: int

    def __post_init__(self) -> None:
        if len(self.shape) > MOST_AXES or any(length < 0 for length in self.shape):
            raise ValueError(f"its shape is {str(self.shape)[:200]}")

    @property
    def size(self) -> int:
        """Bytes in all."""
        return self.begin + math.prod(self.shape) * self.dtype.itemsize


@contextmanager
def opened_array(path: Path) -> Iterator[tuple[Layout, IO[bytes]]]:
    """The layout of the array in a ``.npy``, ``.npz`` or IDX file, and a stream of its values.

    The layout's size is that of the stream, or at least one that its compressed content may have.
    """
    ending = path.suffix.lower()
    if ending in (".npy", ".npz"):
        with reading(path, f"cannot be read as {ending}"), path.open("rb") as file:
            if ending == ".npz":
                with _member(file, path) as (layout, stream):
                    yield layout, stream
            else:
                layout = _npy_layout(file, path)
                _refuse_other_size(layout, path.stat().st_size, path)
                yield layout, file
    elif is_gzipped(path):
        with reading(path, "cannot be read as IDX"), unzipped_stream(path) as stream:
            layout, packed = _idx_layout(stream, path), path.stat().st_size
            if layout.size > DEFLATED * packed:
                raise wrong_length(path, layout.shape, f"at most {DEFLATED * packed}")
            refuse_bomb(path, packed, layout.size)
            yield layout, stream
    else:
        with reading(path, "cannot be read as IDX"), path.open("rb") as file:
            layout = _idx_layout(file, path)
            if layout.size != (size := path.stat().st_size):
                raise wrong_length(path, layout.shape, size)
            yield layout, file


def npy_content(content: bytes, path: Path) -> NDArray[Any]:
    """The array of a ``.npy`` file that is in memory, read-only; ``path`` is for the message."""
    with reading(path, "cannot be read as .npy"):
        layout = _npy_layout(io.BytesIO(content), path)
        _refuse_other_size(layout, len(content), path)
        values = np.frombuffer(content, layout.dtype, offset=layout.begin)
        return values.reshape(layout.shape, order="F" if layout.by_columns else "C")


def _idx_layout(stream: IO[bytes], path: Path) -> Layout:
    shape = idx_shape(stream, path)
    return Layout(shape, np.dtype(np.uint8), by_columns=False, begin=4 + 4 * len(shape))


def _npy_layout(stream: IO[bytes], path: Path) -> Layout:
    magic = stream.read(8)
    count = stream.read(2 if magic[6:7] == b"\x01" else 4)
    if (length := int.from_bytes(count, "little")) > NPY_HEADER:
        raise UnreadableError(f"{path} has a header of {length} bytes, which no array needs")
    header = io.BytesIO(magic + count + stream.read(length))
    version = np.lib.format.read_magic(header)
    if version not in READERS:
        raise UnreadableError(f"{path} is of version {version} of .npy, not 1.0 or 2.0")
    shape, by_columns, dtype = READERS[version](header)
    if dtype.kind not in "biuf":
        raise UnreadableError(f"{path} holds values of type {str(dtype)[:50]}, not real numbers")
    return Layout(tuple(map(int, shape)), dtype, bool(by_columns), header.tell())


@contextmanager
def _member(file: IO[bytes], path: Path) -> Iterator[tuple[Layout, IO[bytes]]]:
    """The only array of an archive, or the one called X."""
    with zipfile.ZipFile(file) as archive:
        names = [name[:-4] for name in archive.namelist() if name.endswith(".npy")]
        wanted = names if len(names) == 1 else [name for name in NPZ_NAMES if name in names]
        if len(wanted) != 1:
            listed = ", ".join(map(repr, names[:10])) + (", …" if len(names) > 10 else "")
            raise UnreadableError(
                f"{path} holds {listed or 'no array'}, and needs one array, or one called 'X' or "
                "'x'"
            )
        info = archive.getinfo(f"{wanted[0]}.npy")
        if info.flag_bits & 1 or info.compress_type not in (
            zipfile.ZIP_STORED,
            zipfile.ZIP_DEFLATED,
        ):
            raise UnreadableError(f"{path} is encrypted or packed unlike numpy's own archives")
        with archive.open(info) as stream:
            layout = _npy_layout(stream, path)
            _refuse_other_size(layout, info.file_size, path)
            if info.file_size > DEFLATED * path.stat().st_size:
                raise UnreadableError(f"{path} says that it holds more than it can: it is damaged")
            refuse_bomb(path, info.compress_size, info.file_size)
            yield layout, stream


def _refuse_other_size(layout: Layout, found: int, path: Path) -> None:
    if layout.size == found:
        return
    what = "it is truncated or damaged"
    if layout.size < found:
        what = "it may hold more than one array, or is damaged"
    raise UnreadableError(
        f"{path} should hold {' × '.join(map(str, layout.shape))} values of {layout.dtype} in "
        f"{layout.size} bytes, but has {found}: {what}"
    )
