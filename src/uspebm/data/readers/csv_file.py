"""Comma- and tab-separated values, read by pyarrow."""

import csv
import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from reprlib import repr as shortened
from typing import IO, Any, final

import numpy as np

from ...support.reading import UnreadableError, one_line, reading, refuse_bomb
from ..encoding import Cells, Encoding, Hints
from ..said_numbers import as_number, is_measured, is_number
from ..unpacking import unzipped_size, unzipped_stream
from .cells import Wish, cells_of, encoded, encoding_of, texts_of, type_to_read
from .columns import arrow, chosen_columns, quoted, remedy, side_by_side
from .foreign_text import refuse_foreign_text, refuse_wide_letters
from .source import Rows, Source, refuse_rows

WANTED = {
    "bool": ("true or false", "one of these"),
    "timestamp": ("a date", "dates, written 2026-01-31 12:30,"),
}
"""By pyarrow's name of a type: what a cell should be, and what to put into its column."""
CSV_BLOCK = 1 << 20  # bytes; longer rows are refused
PACKED_TEXT, FREE_TEXT = 30, 1 << 28
"""Times its size, and bytes, that a gzipped table may unpack to; text takes long to read."""
WIDE_TABLE = 2000
"""Columns from which on pyarrow, which takes kilobytes for each of a block, reads no numbers."""
TRUTHS = {"true": 1.0, "True": 1.0, "TRUE": 1.0, "false": 0.0, "False": 0.0, "FALSE": 0.0}
NO_VALUE = ["", "NA", "N/A", "n/a", "#N/A", "NULL", "null", "None"]
# How pyarrow words the mistakes that it finds.
NOT_A_NUMBER = re.compile(
    r"In CSV column #(\d+): Row #(\d+): .* error to (\w+)(?:\[.*?\])?: invalid value '(.*)'",
    re.DOTALL,
)
WRONG_LENGTH = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+)")


@final
class CSVFile(Source):
    """Comma- or tab-separated values in UTF-8, gzipped or not, with names in the first line.

    Where each cell of the first line is a number, it is data, and the columns are called "0", "1",
    … Numbers are read as float64, true and false as 1 and 0. Blank lines do not count.
    """

    def __init__(
        self,
        path: Path,
        columns: Sequence[str] | None,
        drop: Sequence[str],
        wish: Wish = None,
    ) -> None:
        name = path.name.lower()
        pa = arrow()
        self.path = path
        self._gzipped = name.endswith(".gz")
        self._delimiter = "\t" if name.removesuffix(".gz").endswith(".tsv") else ","
        self._of_a_model = columns is not None
        if self._gzipped:
            most = max(FREE_TEXT, PACKED_TEXT * path.stat().st_size)
            unpacked = unzipped_size(path, most)
            refuse_bomb(path, path.stat().st_size, unpacked, FREE_TEXT, PACKED_TEXT)
        first, second = self._first_lines()
        self._header = self._has_names(first, second)
        self._names = first if self._header else [str(k) for k in range(len(first))]
        self._refuse_foreign_names(self._names if columns is None else columns, drop)
        self.columns = chosen_columns(path, self._names, columns, drop)
        self.event_shape = (len(self.columns),)
        self._types: dict[str, Any] = {}
        self._as_they_are, self._wide = isinstance(wish, str), False
        if isinstance(wish, str):
            self._types = dict.fromkeys(self.columns, pa.string())
            return
        if len(self.columns) > WIDE_TABLE:
            self._read_lines_by(wish)
            return
        if wish is not None:
            self._encode_by(wish)
            return
        with self._reader() as reader:
            inferred = reader.schema
            # From the first block only, where 1 may come before 1.5: all numbers are floats.
            self._types = {
                name: pa.bool_() if pa.types.is_boolean(inferred.field(name).type) else pa.float64()
                for name in self.columns
            }
        with self._reader():  # so that text in the first block shows now
            pass

    def _encode_by(self, wish: Encoding | Hints) -> None:
        with self._reader() as reader:
            seen = reader.schema
            self._types = {
                name: type_to_read(name, seen.field(name).type, wish) for name in self.columns or ()
            }
        self.encoding = encoding_of(self.path, self.cells(), wish)
        self.event_shape = (len(self.encoding.names),)

    def _read_lines_by(self, wish: Encoding | Hints | None) -> None:
        """Very many columns, as numbers; ids are left out."""
        self._wide, columns = True, self.columns or ()
        words: tuple[str, ...] = ()
        if isinstance(wish, Encoding):
            words = tuple(c.name for c in wish.columns if c.kind in ("category", "date"))
        elif wish is not None:
            words, known = wish.categorical, set(columns)
            for name in (*words, *wish.numeric):
                if name not in known:
                    raise UnreadableError(f"{self.path} has no column {quoted(name)}")
            self.columns = chosen_columns(self.path, columns, None, wish.ids)
            self.event_shape = (len(self.columns),)
        if words:
            raise UnreadableError(
                f"{self.path}: of more than {WIDE_TABLE:,} columns all are read as numbers, and "
                f"{quoted(words[0])} would be none; drop columns, or save the table as Parquet"
            )
        next(self._lines())  # so that text in the first row shows now

    def cells(self) -> Iterator[dict[str, Cells]]:
        before = 0
        with self._reader() as reader:
            for batch in reader:
                yield cells_of(self.path, batch, before, "data row")
                before += len(batch)

    def texts(self) -> Iterator[dict[str, list[str]]]:
        """Columns as they stand there, NA and all."""
        with self._reader() as reader:
            yield from map(texts_of, reader)

    def _blocks(self, size: int) -> Iterator[Rows]:
        if self._wide:
            yield from self._lines()
            return
        if self.encoding is not None:
            yield from (encoded(self.path, self.encoding, cells) for cells in self.cells())
            return
        before = 0
        with self._reader() as reader:
            for batch in reader:
                yield side_by_side(self.path, batch, np.float64, before, "data row")
                before += len(batch)

    def _lines(self) -> Iterator[Rows]:
        """Row by row, each a block."""
        at = {name: k for k, name in enumerate(self._names)}
        wanted = [at[name] for name in self.columns or ()]
        with reading(self.path, "cannot be read as CSV"), self._stream() as stream:
            text = io.TextIOWrapper(stream, "utf-8-sig", errors="replace", newline="")
            lines = csv.reader(self._short_lines(text), delimiter=self._delimiter)
            for number, cells in enumerate(filter(None, lines), start=1 - self._header):
                if number == 0:
                    continue
                if len(cells) != len(self._names):
                    raise UnreadableError(
                        f"{self.path}: data row {number} has {len(cells)} cells; there are "
                        f"{len(self._names)} columns"
                    )
                yield self._row([cells[k] for k in wanted], number)

    def _short_lines(self, text: IO[str]) -> Iterator[str]:
        while line := text.readline(CSV_BLOCK):
            if len(line) == CSV_BLOCK:
                raise UnreadableError(f"{self.path} has a line of more than {CSV_BLOCK:,} bytes")
            yield line

    def _row(self, cells: list[str], number: int) -> Rows:
        names = self.columns or ()
        try:
            values = np.array([[as_number(cell) for cell in cells]])
        except ValueError:
            pairs = zip(names, cells, strict=True)
            values = np.array([[self._value(name, cell, number) for name, cell in pairs]])
        if len(bad := np.flatnonzero(~np.isfinite(values))):
            self._refuse_cell(f"NaN or infinity in column {quoted(names[bad[0]])}", number)
        return values

    def _value(self, name: str, cell: str, number: int) -> float:
        if cell in NO_VALUE:
            self._refuse_cell(f"no value in column {quoted(name)}", number)
        if not is_number(cell) and cell not in TRUTHS:
            raise UnreadableError(f"{self.path}: {self._no_number(name, cell, number)}")
        return TRUTHS[cell] if cell in TRUTHS else as_number(cell)

    def _refuse_cell(self, what: str, number: int) -> None:
        refuse_rows(self.path, np.ones(1, np.bool_), number - 1, what, "data row")

    def _no_number(self, name: str, cell: str, row: int, kind: str = "double") -> str:
        one, many = WANTED.get(kind, ("a number", "numbers"))
        return (
            f"column {quoted(name)} holds {shortened(cell)} in data row {row}, not {one}; "
            f"{remedy(name, self._of_a_model, many)}"
        )

    def _has_names(self, first: list[str], second: list[str] | None) -> bool:
        """Whether the first line is of names: one of numbers and NA is data."""
        if len(first) > 1 and first == ["", *map(str, range(len(first) - 1))]:
            return True  # pandas' own, of columns without names
        if not all(is_number(cell) or cell in NO_VALUE for cell in first):
            if like := next(filter(is_measured, first), None):
                warnings.warn(
                    f"{self.path}: its first line is taken for names, but {like!r} looks like a "
                    "value: if it is a row, put a line of names before it",
                    stacklevel=2,
                )
            return True
        if not any(map(is_number, first)):
            return True
        for k, (cell, below) in enumerate(zip(first, second or (), strict=False)):
            if not cell and below not in NO_VALUE:
                raise UnreadableError(
                    f"{self.path}: its first line has numbers, but none in column {k + 1}, where "
                    f"the second has {shortened(below)}: if these are names, name that column; if "
                    "they are a row, write NA for what is missing"
                )
        return False

    def _first_lines(self) -> tuple[list[str], list[str] | None]:
        with reading(self.path), self._stream() as stream:
            begin = stream.read(CSV_BLOCK)
            refuse_wide_letters(self.path, begin)
            # Wrong bytes matter in names and numbers only; in numbers pyarrow finds them.
            text = io.StringIO(begin.decode("utf-8-sig", errors="replace"), newline="")
            lines = filter(None, csv.reader(text, delimiter=self._delimiter))
            first, second = next(lines, None), next(lines, None)
        if second is None and len(begin) == CSV_BLOCK:
            raise UnreadableError(f"{self.path} has a first line of more than {CSV_BLOCK:,} bytes")
        if first is None:
            raise UnreadableError(f"{self.path} is empty")
        if len(first) == 1 and ";" in first[0]:
            raise UnreadableError(
                f"{self.path} looks separated by semicolons: save it with commas, and with points "
                "in the numbers, or as .tsv with tabs"
            )
        if len(first) == 1 and "\t" in first[0]:
            raise UnreadableError(f"{self.path} looks separated by tabs: call it .tsv")
        if second is None and not all(map(is_number, first)):
            raise UnreadableError(f"{self.path} has a line of names, but no rows")
        return first, second

    def _refuse_foreign_names(self, wanted: Sequence[str], drop: Sequence[str]) -> None:
        """Wrong bytes in a name matter where it is taken, or may be one that is missed."""
        strange = {name for name in self._names if "\ufffd" in name}
        if strange and (strange & {*wanted} - {*drop} or {*wanted, *drop} - {*self._names}):
            self._find_foreign_text()

    def _find_foreign_text(self) -> None:
        """An error that says where the file is not in UTF-8, if it is not."""
        with reading(self.path), self._stream() as stream:
            refuse_foreign_text(self.path, stream)

    @contextmanager
    def _stream(self) -> Iterator[IO[bytes]]:
        with unzipped_stream(self.path) if self._gzipped else self.path.open("rb") as stream:
            yield stream

    @contextmanager
    def _reader(self) -> Iterator[Any]:
        pa = arrow()
        with reading(self.path, "cannot be read as CSV"):
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
                            strings_can_be_null=not self._as_they_are,
                        ),
                    ) as reader,
                ):
                    yield reader
            except pa.ArrowException as error:
                if "invalid UTF8" in str(error):
                    self._find_foreign_text()
                raise UnreadableError(f"{self.path}: {self._explained(error)}") from error

    def _explained(self, error: Exception) -> str:
        if found := NOT_A_NUMBER.search(str(error)):
            column, row, kind, value = found.groups()
            return self._no_number(self._names[int(column)], value, int(row) - self._header, kind)
        if found := WRONG_LENGTH.search(str(error)):
            row, expected, got = map(int, found.groups())
            return f"data row {row - self._header} has {got} cells; there are {expected} columns"
        return f"cannot be read as CSV: {one_line(error)}"
