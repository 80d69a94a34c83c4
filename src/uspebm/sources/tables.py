"""Tables with named columns: CSV and Parquet."""

import csv
import gzip
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from reprlib import repr as shown
from typing import Any, final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.csv  # type: ignore[import-untyped]
import pyarrow.parquet  # type: ignore[import-untyped]
from numpy.typing import DTypeLike

from .source import Rows, Source, one_line, refuse_rows

CSV_BLOCK = 1 << 20  # bytes; longer rows are refused
PARQUET_BUFFER = 1 << 16  # bytes; without one, pyarrow reads a row group's columns whole
NO_VALUE = ["", "NA", "N/A", "n/a", "#N/A", "NULL", "null", "None"]
# How pyarrow words the mistakes that it finds.
NOT_A_NUMBER = re.compile(
    r"In CSV column #(\d+): Row #(\d+): .* error to (\w+): invalid value '(.*)'", re.DOTALL
)
WRONG_LENGTH = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")


@final
class CSVFile(Source):
    """Comma- or tab-separated values in UTF-8, gzipped or not, with names in the first line.

    Where each cell of the first line is a number, it is data, and the columns are called "0", "1",
    … Numbers are read as float64, true and false as 1 and 0. Blank lines do not count.
    """

    def __init__(self, path: Path, columns: Sequence[str] | None, drop: Sequence[str]) -> None:
        name = path.name.lower()
        self.path = path
        self._gzipped = name.endswith(".gz")
        self._delimiter = "\t" if name.removesuffix(".gz").endswith(".tsv") else ","
        self._of_a_model = columns is not None
        first = self._first_line()
        # A first line of numbers and gaps is data too, and the gaps are refused as such.
        self._header = not all(_is_number(cell) or cell in NO_VALUE for cell in first) or not any(
            map(_is_number, first)
        )
        self._names = first if self._header else [str(k) for k in range(len(first))]
        self.columns = _chosen(path, self._names, columns, drop)
        if strange := [name for name in self.columns if "\ufffd" in name]:
            raise ValueError(f"{path} is not in UTF-8, as column {strange[0]!r} shows: save it so")
        self.event_shape = (len(self.columns),)
        self._types: dict[str, Any] = {}
        with self._reader() as reader:
            inferred = reader.schema
        # Inferred from the first block only, where 1 may come before 1.5: all numbers are floats.
        self._types = {
            name: pa.bool_() if pa.types.is_boolean(inferred.field(name).type) else pa.float64()
            for name in self.columns
        }
        with self._reader():  # so that text in the first block shows now
            pass

    def _blocks(self, size: int) -> Iterator[Rows]:
        before = 0
        with self._reader() as reader:
            for batch in reader:
                yield _numbers(self, batch, np.float64, before, "data row")
                before += len(batch)

    def _first_line(self) -> list[str]:
        opened = gzip.open if self._gzipped else open
        try:
            # Wrong bytes matter in names and numbers only; in numbers pyarrow finds them.
            with opened(
                self.path, "rt", encoding="utf-8-sig", errors="replace", newline=""
            ) as file:
                lines = filter(None, csv.reader(file, delimiter=self._delimiter))
                first, second = next(lines, None), next(lines, None)
        except (OSError, EOFError, zlib.error, csv.Error) as error:
            raise ValueError(f"{self.path} cannot be read: {one_line(error)}") from error
        if first is None:
            raise ValueError(f"{self.path} is empty")
        if len(first) == 1 and ";" in first[0]:
            raise ValueError(
                f"{self.path} looks separated by semicolons: save it with commas, and with points "
                "in the numbers, or as .tsv with tabs"
            )
        if second is None and not all(map(_is_number, first)):
            raise ValueError(f"{self.path} has a line of names, but no rows")
        return first

    @contextmanager
    def _reader(self) -> Iterator[Any]:
        try:
            with (
                pa.input_stream(self.path, "gzip" if self._gzipped else None) as stream,
                pa.csv.open_csv(
                    stream,
                    pa.csv.ReadOptions(
                        use_threads=False,  # no faster with them
                        block_size=CSV_BLOCK,
                        column_names=None if self._header else self._names,
                    ),
                    # Text in columns left out may well have line breaks.
                    pa.csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True),
                    pa.csv.ConvertOptions(
                        include_columns=self.columns,
                        column_types=self._types,
                        null_values=NO_VALUE,
                    ),
                ) as reader,
            ):
                yield reader
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise ValueError(f"{self.path}: {self._explained(error)}") from error

    def _explained(self, error: Exception) -> str:
        if found := NOT_A_NUMBER.search(str(error)):
            column, row, kind, value = found.groups()
            wanted = "true or false" if kind == "bool" else "a number"
            return (
                f"column {self._names[int(column)]!r} holds {shown(value)} in data row "
                f"{int(row) - self._header}, not {wanted}; "
                f"{_remedy(self._names[int(column)], self._of_a_model)}"
            )
        if found := WRONG_LENGTH.search(str(error)):
            row, expected, got = map(int, found.groups())
            return f"data row {row - self._header} has {got} cells; there are {expected} columns"
        return f"cannot be read as CSV: {one_line(error)}"


@final
class ParquetFile(Source):
    """A Parquet file: float32 if all chosen columns are, or float16; otherwise float64.

    Read page by page: a file of one huge row group takes no more memory than one of many.
    """

    def __init__(self, path: Path, columns: Sequence[str] | None, drop: Sequence[str]) -> None:
        self.path = path
        with self._file() as file:
            schema = file.schema_arrow
            self.rows = file.metadata.num_rows
        if not self.rows:
            raise ValueError(f"{path} has no rows")
        self.columns = _chosen(path, schema.names, columns, drop)
        self.event_shape = (len(self.columns),)
        types = [schema.field(name).type for name in self.columns]
        for name, kind in zip(self.columns, types, strict=True):
            if not _is_numeric(kind):
                raise ValueError(
                    f"{path}: column {name!r} holds {kind}, such as {shown(self._example(name))}, "
                    f"not numbers; {_remedy(name, columns is not None)}"
                )
        single = all(pa.types.is_floating(kind) and kind.bit_width <= 32 for kind in types)
        self._type = np.float32 if single else np.float64

    def _blocks(self, size: int) -> Iterator[Rows]:
        before = 0
        with self._file() as file:
            for batch in file.iter_batches(size, columns=self.columns, use_threads=False):
                yield _numbers(self, batch, self._type, before, "row")
                before += len(batch)

    def _example(self, name: str) -> object:
        with self._file() as file:
            batch = next(file.iter_batches(100, columns=[name], use_threads=False))
        return next((value for value in batch[name].to_pylist() if value is not None), None)

    @contextmanager
    def _file(self) -> Iterator[Any]:
        try:
            with pa.parquet.ParquetFile(
                self.path, pre_buffer=False, buffer_size=PARQUET_BUFFER
            ) as file:
                yield file
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"{self.path} cannot be read as Parquet: {one_line(error)}") from error


def _chosen(
    path: Path, names: Sequence[str], columns: Sequence[str] | None, drop: Sequence[str]
) -> tuple[str, ...]:
    """``columns`` in their order, or all that the file has, without those to ``drop``."""
    if twice := [name for name, times in Counter(names).items() if times > 1]:
        raise ValueError(f"{path} has more than one column called {_listed(twice)}: rename them")
    if unknown := [name for name in (*(columns or ()), *drop) if name not in names]:
        raise ValueError(f"{path} has no column {_listed(unknown)}; it has {_listed(names)}")
    chosen = tuple(name for name in (names if columns is None else columns) if name not in drop)
    if not chosen:
        raise ValueError(f"{path}: no columns are left of {_listed(names)}")
    for name in chosen:
        if not name or name.startswith("__index_level_"):
            raise ValueError(
                f"{path}: column {name!r} looks like the row numbers that pandas adds; drop it, or "
                "give it a name"
            )
    return chosen


def _remedy(column: str, of_a_model: bool) -> str:
    """What to do about a cell that is no number."""
    if of_a_model:
        return "the model needs the column: put numbers in it, or leave the row out"
    return f"put numbers in it, or leave out the row or the column (--drop {column!r})"


def _listed(names: Sequence[str]) -> str:
    more = f", … ({len(names)} in all)" if len(names) > 10 else ""
    return ", ".join(map(repr, names[:10])) + more


def _numbers(source: Source, batch: Any, dtype: DTypeLike, before: int, row: str) -> Rows:
    """The columns of a pyarrow batch, checked, side by side."""
    names = source.columns or ()
    block = np.empty((len(batch), len(names)), dtype)
    for k, name in enumerate(names):
        column = batch.column(name)
        if column.null_count:
            missing = column.is_null().to_numpy(zero_copy_only=False)
            refuse_rows(source.path, missing, before, f"no value in column {name!r}", row)
        block[:, k] = column.to_numpy(zero_copy_only=False)
        bad = ~np.isfinite(block[:, k])
        refuse_rows(source.path, bad, before, f"NaN or infinity in column {name!r}", row)
    return block


def _is_numeric(kind: Any) -> bool:
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
    return any(test(kind) for test in tests)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
