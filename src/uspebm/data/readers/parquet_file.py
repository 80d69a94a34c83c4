"""Parquet, read by pyarrow."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from reprlib import repr as shortened
from typing import Any, final

import numpy as np

from ...support.reading import UnreadableError, reading, refuse_bomb
from ..encoding import Cells, Hints
from .cells import Wish, cells_of, encoded, encoding_of, texts_of
from .columns import arrow, chosen_columns, quoted, remedy, side_by_side
from .pages import refuse_large_pages, row_groups
from .source import READ_BYTES, READ_ROWS, Rows, Source, at_a_time

PARQUET_BUFFER = 1 << 16  # bytes; without one, pyarrow reads a row group's columns whole
STRIP = 2000  # columns
TEXT_ROWS = 4096  # taken at a time, of texts that may be long
LISTS = 1_000_000  # entries of a list in the metadata, at most; one for each byte of the file
TEXTS = 100_000_000  # bytes of text there, at most


@final
class ParquetFile(Source):
    """A Parquet file: float32 if all chosen columns are, or float16; otherwise float64.

    Read page by page: a file of one huge row group takes no more memory than one of many.
    """

    def __init__(
        self,
        path: Path,
        columns: Sequence[str] | None,
        drop: Sequence[str],
        wish: Wish = None,
    ) -> None:
        pa = arrow()
        self.path = path
        self._names = wish.categorical if isinstance(wish, Hints) else ()
        with self._file() as file:
            schema = file.schema_arrow
            self.rows = file.metadata.num_rows
            if self.rows <= 0:
                raise UnreadableError(f"{path} has no rows")
            self.columns = chosen_columns(path, schema.names, columns, drop)
            self.event_shape = (len(self.columns),)
            # Repeated values take no room: a row that is there may be one of as many as one likes.
            refuse_bomb(path, path.stat().st_size, 8 * self.rows * len(self.columns))
            groups = row_groups(path)
            refuse_large_pages(path, groups, set(self.columns))
            self._groups = [group.rows for group in groups]
        types = [schema.field(name).type for name in self.columns]
        self._type: type = np.float64
        if isinstance(wish, str):
            return
        if wish is not None:
            self.encoding = encoding_of(path, self.cells(READ_ROWS), wish)
            self.event_shape = (len(self.encoding.names),)
            return
        for name, kind in zip(self.columns, types, strict=True):
            if not _is_numeric(pa.types, kind):
                raise UnreadableError(
                    f"{path}: column {quoted(name)} holds {str(kind)[:50]}, such as "
                    f"{shortened(self._example(name))}, not numbers; "
                    f"{remedy(name, columns is not None)}"
                )
        single = all(pa.types.is_floating(kind) and kind.bit_width <= 32 for kind in types)
        self._type = np.float32 if single else np.float64

    def cells(self, size: int = READ_ROWS) -> Iterator[dict[str, Cells]]:
        before = 0
        with self._file() as file:
            for batch in file.iter_batches(size, columns=self.columns, use_threads=False):
                chosen = self._with_names(batch.select(self.columns))
                yield cells_of(self.path, chosen, before, "row")
                before += len(batch)

    def texts(self) -> Iterator[dict[str, list[str]]]:
        """Columns as text; what is missing is empty."""
        with self._file() as file:
            for batch in file.iter_batches(TEXT_ROWS, columns=self.columns, use_threads=False):
                yield texts_of(batch.select(self.columns))

    def _with_names(self, batch: Any) -> Any:
        """Whole numbers that are names as text: floats, which they would become, have an end."""
        types = arrow().types
        for k, field in enumerate(batch.schema):
            if field.name in self._names and types.is_integer(field.type):
                text = batch.column(k).cast(arrow().string())
                batch = batch.set_column(k, field.name, text)
        return batch

    def _blocks(self, size: int) -> Iterator[Rows]:
        if self.encoding is not None:
            yield from (encoded(self.path, self.encoding, cells) for cells in self.cells(size))
            return
        names = self.columns or ()
        size = min(size, max(1, at_a_time(self.event_shape) // 4))  # pyarrow holds it four times
        before = 0
        with self._file() as file:
            for group, rows in enumerate(self._groups):
                if len(names) > STRIP and 8 * rows * len(names) <= READ_BYTES:
                    yield self._in_strips(file, group, before)
                    before += rows
                    continue
                for batch in file.iter_batches(
                    size, row_groups=[group], columns=names, use_threads=False
                ):
                    yield self._rows(batch.select(names), before)
                    before += len(batch)

    def _in_strips(self, file: Any, group: int, before: int) -> Rows:
        """A row group, some columns at a time: pyarrow takes six kilobytes for each of them."""
        names = self.columns or ()
        strips = [names[k : k + STRIP] for k in range(0, len(names), STRIP)]
        tables = (file.read_row_group(group, strip, use_threads=False) for strip in strips)
        blocks = [
            self._rows(table.select(strip).combine_chunks().to_batches()[0], before)
            for table, strip in zip(tables, strips, strict=True)
        ]
        return np.concatenate(blocks, axis=1)

    def _rows(self, batch: Any, before: int) -> Rows:
        return side_by_side(self.path, batch, self._type, before, "row")

    def _example(self, name: str) -> object:
        with self._file() as file:
            batch = next(file.iter_batches(100, columns=[name], use_threads=False))
            return next((value for value in batch[name].to_pylist() if value is not None), None)

    @contextmanager
    def _file(self) -> Iterator[Any]:
        pa, size = arrow(), self.path.stat().st_size
        with (
            reading(self.path, "cannot be read as Parquet"),
            pa.parquet.ParquetFile(
                self.path,
                pre_buffer=False,
                buffer_size=PARQUET_BUFFER,
                thrift_container_size_limit=min(LISTS, size),
                thrift_string_size_limit=min(TEXTS, size),
            ) as file,
        ):
            yield file


def _is_numeric(types: Any, kind: Any) -> bool:
    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    return any(test(kind) for test in tests)
