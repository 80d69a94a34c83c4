"""Pages of a Parquet file: how much memory they take, known before one is unpacked.

A column is stored in pages of usually a megabyte, and a reader unpacks one of each column at a
time. Nothing but the pages' own headers says how large they are. The file's footer, which says
where they are, is read here too: pyarrow's own ways to ask for it end the process, without an
exception, where it is damaged.
"""

from pathlib import Path
from typing import IO, NamedTuple

from ...support.reading import UnreadableError
from .thrift import BINARY, LIST, STRUCT, WHOLE, Compact

PAGES = 1 << 27
"""Bytes that the pages held at a time may take, or ten times the file's size."""
HEADER_BYTES = (1 << 12, 1 << 17)  # usually, at most
SMALLEST_PAGE = 100  # bytes; of smaller ones a column may have a thousand
UNCOMPRESSED = 0
# Numbers of fields, in the order in which they lie within each other: of the footer, a row group,
# a column, and what is said of it.
ROW_GROUPS = 4
COLUMNS, ROWS_IN_GROUP = 1, 3
COLUMN = 3
PATH, CODEC, SIZE, DATA, DICTIONARY = 3, 4, 7, 9, 11
UNPACKED_SIZE, PACKED_SIZE = 2, 3  # of a page's header


class Chunk(NamedTuple):
    """Where the pages of a column lie within a row group."""

    name: str
    packed: bool
    begin: int
    size: int


class RowGroup(NamedTuple):
    """Rows that are stored together."""

    rows: int
    chunks: list[Chunk]


def row_groups(path: Path) -> list[RowGroup]:
    """What the footer says."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(size - 8)
        length = int.from_bytes(file.read(4), "little")
        if length > size - 12:
            raise UnreadableError(f"{path} has a footer of {length} bytes: it is damaged")
        file.seek(size - 8 - length)
        footer = Compact(file.read(length))
    groups: list[RowGroup] = []
    for field, kind in footer.fields():
        if field == ROW_GROUPS and kind == LIST:
            groups += [_row_group(footer) for _ in range(footer.items()[0])]
        else:
            footer.skip(kind)
    return groups


def _row_group(footer: Compact) -> RowGroup:
    rows, chunks = 0, []
    for field, kind in footer.fields():
        if field == COLUMNS and kind == LIST:
            chunks = [_chunk(footer) for _ in range(footer.items()[0])]
        elif field == ROWS_IN_GROUP and kind in WHOLE:
            rows = footer.whole()
        else:
            footer.skip(kind)
    return RowGroup(rows, chunks)


def _chunk(footer: Compact) -> Chunk:
    said: dict[int, int] = {}
    name = b""
    for outer, outer_kind in footer.fields():
        if outer != COLUMN or outer_kind != STRUCT:
            footer.skip(outer_kind)
            continue
        for field, kind in footer.fields():
            if field == PATH and kind == LIST:
                count, inner = footer.items()
                if inner != BINARY:
                    raise IndexError("a column without a name")
                name = b".".join([footer.binary() for _ in range(count)])
            elif kind in WHOLE:
                said[field] = footer.whole()
            else:
                footer.skip(kind)
    begin = min(said[field] for field in (DATA, DICTIONARY) if said.get(field, 0) > 0)
    return Chunk(name.decode(), said[CODEC] != UNCOMPRESSED, begin, said[SIZE])


def refuse_large_pages(path: Path, groups: list[RowGroup], columns: set[str]) -> None:
    """An error where pages of these columns would not fit into the memory that is theirs."""
    with path.open("rb") as file:
        for group in groups:
            wanted = [chunk for chunk in group.chunks if chunk.packed and chunk.name in columns]
            held = sum(_largest_page(file, chunk, path) for chunk in wanted)
            if held > max(PAGES, 10 * path.stat().st_size):
                raise UnreadableError(
                    f"{path} would take {held >> 20:,} MiB for pages that are unpacked together: "
                    "write it anew with smaller ones, or give it as .npy"
                )


def _largest_page(file: IO[bytes], chunk: Chunk, path: Path) -> int:
    """Bytes of the largest page in a chunk, unpacked."""
    begin, largest, pages = chunk.begin, 0, 0
    while begin < chunk.begin + chunk.size:
        length, unpacked, packed = _page_header(file, begin, path)
        largest = max(largest, unpacked)
        begin += length + packed
        pages += 1
        if pages > 1000 + chunk.size // SMALLEST_PAGE:
            raise UnreadableError(f"{path} has too many pages of hardly any bytes: it is damaged")
    return largest


def _page_header(file: IO[bytes], begin: int, path: Path) -> tuple[int, int, int]:
    """A page header's length, and the page's size unpacked and packed."""
    for size in HEADER_BYTES:
        file.seek(begin)
        header = Compact(file.read(size))
        said: dict[int, int] = {}
        try:
            for field, kind in header.fields():
                if kind in WHOLE:
                    said[field] = header.whole()
                else:
                    header.skip(kind)
        except IndexError:
            continue
        unpacked, packed = said.get(UNPACKED_SIZE, -1), said.get(PACKED_SIZE, -1)
        if unpacked >= 0 and packed >= 0:
            return header.at, unpacked, packed
        break
    raise UnreadableError(f"{path} has a page without a header at byte {begin}: it is damaged")
