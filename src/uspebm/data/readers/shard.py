"""A part of the rows of a file: one of several, which together are the file."""

from collections.abc import Iterator
from typing import final

from .source import Rows, Source, at_a_time


@final
class Shard(Source):
    """Shard ``number`` (from 1 on) of ``shards``: a contiguous range of a source's rows.

    Shards one after the other have all rows in the source's order, each once; they differ in length
    by one row at most. A source that does not know how many rows it has is read once to count them.
    Rows before the shard are read and left; of very many shards, each reads the most of a file.
    """

    def __init__(self, whole: Source, number: int, shards: int) -> None:
        self.path, self.columns, self.encoding = whole.path, whole.columns, whole.encoding
        self.event_shape = whole.event_shape
        self._whole = whole
        total = _counted(whole) if whole.rows is None else whole.rows
        if total < shards:
            raise ValueError(
                f"{whole.path} has {total} rows, too few for {shards} shards: take at most {total}"
            )
        self.begin, self._end = (k * total // shards for k in (number - 1, number))
        self.rows = self._end - self.begin

    def _blocks(self, size: int) -> Iterator[Rows]:
        at = 0
        for block in self._whole.chunks(size):
            part = block[max(0, self.begin - at) : max(0, self._end - at)]
            if len(part):
                yield part
            at += len(block)
            if at >= self._end:
                return


def _counted(source: Source) -> int:
    return sum(len(chunk) for chunk in source.chunks(at_a_time(source.event_shape)))
