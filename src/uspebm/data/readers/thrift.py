"""Thrift's compact protocol, in which Parquet says what it holds: as much of it as takes to look.

Nothing is kept but what is asked for, and whatever the bytes say, reading them ends where they do.
"""

from collections.abc import Iterator

# Kinds of values.
TRUE, FALSE, BYTE, SHORT, INT, LONG, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
WHOLE = (SHORT, INT, LONG)
DEEPEST = 20
"""Structs within each other; Parquet has five."""


class Compact:
    """Values one after another; an IndexError where ``content`` ends too early, or makes no sense.

    Arguments:
        content: Bytes to read.
    """

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.at = 0

    def fields(self) -> Iterator[tuple[int, int]]:
        """Number and kind of a struct's fields; the value of each is to be read before the next."""
        field = 0
        while kind := (first := self._byte()) & 15:
            field = field + (first >> 4) if first >> 4 else self.whole()
            yield field, kind

    def whole(self) -> int:
        """A whole number."""
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def binary(self) -> bytes:
        """Bytes, or text."""
        begin = self._skipped(self._varint())
        return self._content[begin : self.at]

    def items(self) -> tuple[int, int]:
        """How many items a list has, and of what kind; they follow."""
        first = self._byte()
        count = first >> 4 if first >> 4 < 15 else self._varint()
        if count > len(self._content) - self.at:  # each takes a byte, at least
            raise IndexError(f"a list of {count} items")
        return count, first & 15

    def skip(self, kind: int, depth: int = 0) -> None:
        """Pass over a value."""
        if depth > DEEPEST:
            raise IndexError(f"more than {DEEPEST} structs within each other")
        if kind in WHOLE:
            self._varint()
        elif kind == BINARY:
            self._skipped(self._varint())
        elif kind in (BYTE, DOUBLE):
            self._skipped(1 if kind == BYTE else 8)
        elif kind in (LIST, SET):
            count, inner = self.items()
            for _ in range(count):
                self.skip(BYTE if inner in (TRUE, FALSE) else inner, depth + 1)
        elif kind == STRUCT:
            for _, inner in self.fields():
                self.skip(inner, depth + 1)
        elif kind not in (TRUE, FALSE):  # those are kinds and values at once
            raise IndexError(f"a value of kind {kind}")

    def _byte(self) -> int:
        self.at += 1
        return self._content[self.at - 1]

    def _skipped(self, count: int) -> int:
        """Where the bytes began that were passed over."""
        begin = self.at
        self.at += count
        if self.at > len(self._content):
            raise IndexError(f"{count} bytes that are not there")
        return begin

    def _varint(self) -> int:
        value = shift = 0
        while shift < 70:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
        raise IndexError("a number of more than 64 bits")
