"""Bytes with a checksum before them: a bit that changed on disk is noticed."""

import hashlib

SEAL = b"uspebm sealed 1\n"
DIGEST = 32


class DamagedError(ValueError):
    """Content is not what was sealed."""


def sealed(content: bytes | memoryview) -> list[bytes | memoryview]:
    """What to write, in parts: the seal, and ``content`` itself, which is not copied."""
    return [SEAL + _digest(content), content]


def unsealed(content: bytes) -> memoryview:
    """What was sealed, without a copy; an error where a single bit of it is another one."""
    body = memoryview(content)[len(SEAL) + DIGEST :]
    if not content.startswith(SEAL):
        raise DamagedError("it does not begin as such files do: it is damaged, or something else")
    if content[len(SEAL) : len(SEAL) + DIGEST] != _digest(body):
        raise DamagedError("its checksum is not that of its content: it is damaged or cut short")
    return body


def _digest(content: bytes | memoryview) -> bytes:
    return hashlib.blake2b(content, digest_size=DIGEST).digest()
