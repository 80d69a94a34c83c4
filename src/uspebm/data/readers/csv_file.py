"""Comma- and tab-separated values, read by pyarrow."""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from reprlib import repr as shortened
from typing import IO, Any, final

import numpy as np

from ...support.reading import UnreadableError, one_line, reading, refuse_bomb
from ..encoding import Cells, Encoding, Hints, as_number
from ..unpacking import unzipped_size, unzipped_stream
from .cells import Wish, cells_of, encoded, encoding_of, type_to_read
from .columns import arrow, chosen_columns, quoted, remedy, side_by_side
from .source import Rows, Source, refuse_rows

CSV_BLOCK = 1 << 20  # bytes; longer rows are refused
PACKED_TEXT, FREE_TEXT = 30, 1 << 28
"""Times its size, and bytes, that a gzipped table may unpack to; text takes long to read."""
WIDE_TABLE = 2000
"""Columns from which on pyarrow, which takes kilobytes for each of a block, is not used."""
TRUTHS = {"true": 1.0, "True": 1.0, "TRUE": 1.0, "false": 0.0, "False": 0.0, "FALSE": 0.0}
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
        first = self._first_line()
        # A first line of numbers and gaps is data too, and the gaps are refused as such.
        self._header = not all(_is_number(cell) or cell in NO_VALUE for cell in first) or not any(
            map(_is_number, first)
        )
        self._names = first if self._header else [str(k) for k in range(len(first))]
        self.columns = chosen_columns(path, self._names, columns, drop)
        if strange := [name for name in self.columns if "\ufffd" in name]:
            raise UnreadableError(
                f"{path} is not in UTF-8, as column {quoted(strange[0])} shows: save it so"
            )
        self.event_shape = (len(self.columns),)
        self._types: dict[str, Any] = {}
        if len(first) > WIDE_TABLE:
            next(self._lines())  # so that text in the first row shows now
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

    def cells(self) -> Iterator[dict[str, Cells]]:
        before = 0
        with self._reader() as reader:
            for batch in reader:
                yield cells_of(self.path, batch, before, "data row")
                before += len(batch)

    def _blocks(self, size: int) -> Iterator[Rows]:
        if len(self._names) > WIDE_TABLE:
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
        if not _is_number(cell) and cell not in TRUTHS:
            raise UnreadableError(f"{self.path}: {self._no_number(name, cell, number)}")
        return TRUTHS[cell] if cell in TRUTHS else as_number(cell)

    def _refuse_cell(self, what: str, number: int) -> None:
        refuse_rows(self.path, np.ones(1, np.bool_), number - 1, what, "data row")

    def _no_number(self, name: str, cell: str, row: int, wanted: str = "a number") -> str:
        return (
            f"column {quoted(name)} holds {shortened(cell)} in data row {row}, not {wanted}; "
            f"{remedy(name, self._of_a_model)}"
        )

    def _first_line(self) -> list[str]:
        with reading(self.path), self._stream() as stream:
            begin = stream.read(CSV_BLOCK)
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
        if second is None and not all(map(_is_number, first)):
            raise UnreadableError(f"{self.path} has a line of names, but no rows")
        return first

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
                            strings_can_be_null=True,
                        ),
                    ) as reader,
                ):
                    yield reader
            except pa.ArrowException as error:
                raise UnreadableError(f"{self.path}: {self._explained(error)}") from error

    def _explained(self, error: Exception) -> str:
        if found := NOT_A_NUMBER.search(str(error)):
            column, row, kind, value = found.groups()
            wanted = "true or false" if kind == "bool" else "a number"
            return self._no_number(self._names[int(column)], value, int(row) - self._header, wanted)
        if found := WRONG_LENGTH.search(str(error)):
            row, expected, got = map(int, found.groups())
            return f"data row {row - self._header} has {got} cells; there are {expected} columns"
        return f"cannot be read as CSV: {one_line(error)}"


def _is_number(cell: str) -> bool:
    try:
        as_number(cell)
    except ValueError:
        return False
    return True
