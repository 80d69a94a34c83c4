"""Streams of what gzip files hold, which end before they fill the memory or the day."""

import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, final

from ..support.reading import reading, refuse_bomb

GZIP = b"\x1f\x8b"
PACKED_AT_ONCE, PLAIN_AT_ONCE = 1 << 14, 1 << 18  # bytes
DEFLATED = 1032
"""Bytes that deflate makes of one, at most."""
SMALLEST_MEMBER = 50  # bytes; of smaller ones a file may have a thousand


@final
class _Unzipped(io.RawIOBase):
    """What is in ``packed``, of ``size`` bytes, as far as it is in proportion to that."""

    def __init__(self, packed: IO[bytes], size: int, path: Path) -> None:
        self._packed, self._size, self._path = packed, size, path
        self._member, self._rest = zlib.decompressobj(31), b""  # 31: with gzip's header and sum
        self._members = 1
        self._count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with reading(self._path, "is not a whole gzip file"):
            found = self._some(len(buffer))
        buffer[: len(found)] = found
        self._count += len(found)
        refuse_bomb(self._path, self._size, self._count)
        return len(found)

    def _some(self, most: int) -> bytes:
        """Up to so many bytes; none at the end."""
        while True:
            if self._member.eof:
                # Zeros may follow, or another member.
                rest = self._member.unused_data.lstrip(b"\0")
                while not rest and (more := self._packed.read(PACKED_AT_ONCE)):
                    rest = more.lstrip(b"\0")
                if not rest:
                    return b""
                self._member, self._rest = zlib.decompressobj(31), rest
                self._members += 1
                if self._members > 1000 + self._size // SMALLEST_MEMBER:
                    raise ValueError("it consists of too many parts with hardly any content")
            packed = self._rest or self._packed.read(PACKED_AT_ONCE)
            if not packed:
                raise EOFError("it ends too early")
            found = self._member.decompress(packed, most)
            self._rest = self._member.unconsumed_tail
            if found:
                return found


@contextmanager
def unzipped_stream(path: Path) -> Iterator[IO[bytes]]:
    """What a gzip file holds."""
    with path.open("rb") as file:
        yield io.BufferedReader(_Unzipped(file, path.stat().st_size, path), PLAIN_AT_ONCE)


def unzipped_size(path: Path, most: int) -> int:
    """Bytes that a gzip file holds; beyond ``most`` they are not counted to the end."""
    size = 0
    with unzipped_stream(path) as stream:
        while size <= most and (part := stream.read(PLAIN_AT_ONCE)):
            size += len(part)
    return size


def is_gzipped(path: Path) -> bool:
    """By how it begins."""
    with path.open("rb") as file:
        return file.read(2) == GZIP


def unzipped(content: bytes, path: Path) -> bytes:
    """``content`` without its gzip wrapping, where it has one; ``path`` is for the message."""
    if not content.startswith(GZIP):
        return content
    return io.BufferedReader(_Unzipped(io.BytesIO(content), len(content), path)).read()
