"""Bytes with a checksum before them: a bit that changed on disk is noticed.

Both ways go through the content part by part: it need never be in memory as a whole.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

SEAL = b"uspebm sealed 1\n"
DIGEST = 32
PART = 1 << 20
"""Bytes that are read at once."""


class DamagedError(ValueError):
    """Content is not what was sealed."""


class SealedWriter:
    """Passes on to a file what it is given, and knows its checksum."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._checksum = file, _new_checksum()

    def write(self, content: bytes | memoryview) -> int:
        """Write all of it, after what was written before."""
        self._checksum.update(content)
        self._file.write(content)
        return memoryview(content).nbytes

    def digest(self) -> bytes:
        """Of what was written so far."""
        return self._checksum.digest()


@contextmanager
def sealing(file: BinaryIO) -> Iterator[SealedWriter]:
    """What is written in this block, to a file that is empty, is sealed when it ends."""
    file.write(SEAL + bytes(DIGEST))
    writer = SealedWriter(file)
    yield writer
    file.seek(len(SEAL))
    file.write(writer.digest())


def unseal(file: BinaryIO) -> None:
    """Go to where the content begins; an error where a single bit of it is another one."""
    if file.read(len(SEAL)) != SEAL:
        raise DamagedError("it does not begin as such files do: it is damaged, or something else")
    said, checksum = file.read(DIGEST), _new_checksum()
    while part := file.read(PART):
        checksum.update(part)
    if checksum.digest() != said:
        raise DamagedError("its checksum is not that of its content: it is damaged or cut short")
    file.seek(len(SEAL) + DIGEST)


def _new_checksum() -> "hashlib.blake2b":
    return hashlib.blake2b(digest_size=DIGEST)
