"""Score files, written in chunks, that are either whole or not there."""

import csv
import io
import json
import math
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ..support.extras import need
from ..support.files import whole_file

Columns = Mapping[str, NDArray[Any]]
Append = Callable[[Columns], None]
SCORE_COLUMNS = ("score", "p_value", "outlier")
"""What is said of every row."""
WRITING = ("writing Parquet", "tables")
"""What needs pyarrow, and the extra that has it."""


class Sink:
    """Takes chunks of named columns; all chunks have the same names."""

    def __init__(self, path: Path, append: Append) -> None:
        self.path = path
        self.names: tuple[str, ...] = ()
        self._append = append

    def write(self, columns: Columns) -> None:
        """Add a chunk: one array ``(N,)`` per name."""
        lengths = {len(values) for values in columns.values()}
        if len(lengths) != 1:
            raise ValueError(f"{self.path}: columns of one length are needed, not {lengths}")
        self.names = self.names or tuple(columns)
        if tuple(columns) != self.names:
            raise ValueError(f"{self.path} has columns {self.names}, not {tuple(columns)}")
        self._append(columns)


def check_sink(path: Path, names: Sequence[str] = ()) -> None:
    """An error if ``path`` cannot be a file of scores, of columns with these ``names``."""
    ending = path.suffix.lower()
    if ending not in FORMATS:
        raise ValueError(f"{path}: scores are written to files ending in {', '.join(FORMATS)}")
    if ending == ".npy" and len(names) > 1:
        raise ValueError(f"{path}: .npy holds one column, not {', '.join(names)}; use .npz")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: name a file")
    if ending == ".parquet":
        need("pyarrow.parquet", *WRITING)


@contextmanager
def open_sink(path: Path) -> Iterator[Sink]:
    """A file of scores to write, of the kind that ``path``'s ending tells.

    What was at ``path`` before stays until the block ends without an error; nothing unfinished
    remains. ``.csv``, ``.jsonl`` and ``.parquet`` files are written chunk by chunk; ``.npy`` (a
    single column) and ``.npz`` files at the end, from memory. Floats keep all of their digits;
    JSON has no NaN and no infinity, and null stands for both.
    """
    check_sink(path)
    with whole_file(path) as file, FORMATS[path.suffix.lower()](file, path) as append:
        sink = Sink(path, append)
        yield sink
        if not sink.names:
            raise ValueError(f"{path}: there is nothing to write")


@contextmanager
def _parquet(file: BinaryIO, path: Path) -> Iterator[Append]:
    pa, parquet = need("pyarrow", *WRITING), need("pyarrow.parquet", *WRITING)
    with ExitStack() as stack:
        writer = None  # until the first chunk tells the types

        def append(columns: Columns) -> None:
            nonlocal writer
            table = pa.table(dict(columns))
            if writer is None:
                writer = stack.enter_context(parquet.ParquetWriter(file, table.schema))
            writer.write_table(table)

        yield append


@contextmanager
def _csv(file: BinaryIO, path: Path) -> Iterator[Append]:
    def append(columns: Columns) -> None:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if not file.tell():
            writer.writerow(columns)
        writer.writerows(_records({n: _without_nan(v) for n, v in columns.items()}))
        file.write(text.getvalue().encode())

    yield append


@contextmanager
def _jsonl(file: BinaryIO, path: Path) -> Iterator[Append]:
    def append(columns: Columns) -> None:
        for values in _records(columns):
            record = dict(zip(columns, map(_in_json, values), strict=True))
            file.write(f"{json.dumps(record, allow_nan=False)}\n".encode())

    yield append


@contextmanager
def _npy(file: BinaryIO, path: Path) -> Iterator[Append]:
    chunks: list[NDArray[Any]] = []

    def append(columns: Columns) -> None:
        check_sink(path, tuple(columns))
        chunks.extend(columns.values())

    yield append
    # By way of memory: numpy's own writing does not say why a file could not be written.
    content = io.BytesIO()
    np.save(content, _joined(chunks), allow_pickle=False)
    file.write(content.getbuffer())


@contextmanager
def _npz(file: BinaryIO, path: Path) -> Iterator[Append]:
    chunks: list[Columns] = []
    yield chunks.append
    # np.savez takes no column called "file".
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in chunks[0]:
            values = _joined([chunk[name] for chunk in chunks])
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, values, allow_pickle=False)


def _joined(chunks: list[NDArray[Any]]) -> NDArray[Any]:
    """All chunks of a column; texts of one width, for numpy's files hold no objects."""
    values = np.concatenate(chunks)
    return values.astype(str) if values.dtype == object else values


def _in_json(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _without_nan(values: NDArray[Any]) -> NDArray[Any]:
    """An empty cell for what is no number, as for texts that are not there."""
    if values.dtype.kind != "f" or not (gaps := np.isnan(values)).any():
        return values
    cells = values.astype(object)
    cells[gaps] = ""
    return cells


def _records(columns: Columns) -> Iterator[tuple[Any, ...]]:
    # Python's own numbers, which csv and json write with all of their digits.
    return zip(*(values.tolist() for values in columns.values()), strict=True)


FORMATS = {".csv": _csv, ".jsonl": _jsonl, ".npy": _npy, ".npz": _npz, ".parquet": _parquet}
