"""Damaged versions of a file: what disks, programs and people with bad intentions make of it."""

import re
import struct
from collections.abc import Callable, Sequence
from random import Random

EXTREMES = (0, 1, 2, -1, 127, 255, 32767, 65535, 2**31 - 1, 2**32 - 1, 2**62, 2**63 - 1, 2**64 - 1)
FORMATS = ("<B", "<H", ">H", "<I", ">I", "<Q", ">Q")
NUMBERS = (b"0", b"-1", b"1e999", b"nan", b"99999999999999999999", b"2147483648", b"1e-400", b"")
LARGEST = 1 << 16
"""Bytes; small inputs are quick, and reach as far."""
Mutation = Callable[[bytearray, Random, Sequence[bytes]], bytearray]


def flip(content: bytearray, draws: Random, others: Sequence[bytes]) -> bytearray:
    """One bit."""
    content[draws.randrange(len(content))] ^= 1 << draws.randrange(8)
    return content


def set_bytes(content: bytearray, draws: Random, others: Sequence[bytes]) -> bytearray:
    """A few bytes, at random."""
    at = draws.randrange(len(content))
    content[at : at + draws.choice((1, 2, 4, 8))] = draws.randbytes(draws.choice((1, 2, 4, 8)))
    return content


def extreme(content: bytearray, draws: Random, others: Sequence[bytes]) -> bytearray:
    """A number, in any of the ways that files hold them."""
    kind = draws.choice(FORMATS)
    size = struct.calcsize(kind)
    at = draws.randrange(max(1, len(content) - size + 1))
    if draws.random() < 0.7:  # headers come first
        at = min(at, draws.randrange(128))
    value = draws.choice(EXTREMES) % (1 << 8 * size)
    content[at : at + size] = struct.pack(kind, value)
    return content


def text_number(content: bytearray, draws: Random, others: Sequence[bytes]) -> bytearray:
    """A number in words."""
    found = list(re.finditer(rb"\d+", content[:4096]))
    if not found:
        return flip(content, draws, others)
    chosen = draws.choice(found)
    content[chosen.start() : chosen.end()] = draws.choice(NUMBERS)
    return content


def truncate(content: bytearray, draws: Random, others: Sequence[bytes]) -> bytearray:
    """The beginning alone."""
    return content[: draws.randrange(len(content))]


def cut(content: bytearray, draws: Random, others: Sequence[bytes]) -> bytearray:
    """A piece less."""
    at = draws.randrange(len(content))
    del content[at : at + draws.choice((1, 2, 4, 16, 256))]
    return content


def repeat(content: bytearray, draws: Random, others: Sequence[bytes]) -> bytearray:
    """A piece several times."""
    at = draws.randrange(len(content))
    piece = content[at : at + draws.choice((1, 2, 8, 64))]
    content[at:at] = piece * draws.choice((1, 2, 8, 64))
    return content


def splice(content: bytearray, draws: Random, others: Sequence[bytes]) -> bytearray:
    """The beginning of this and the end of another."""
    other = draws.choice(others)
    return content[: draws.randrange(len(content))] + other[draws.randrange(len(other)) :]


def insert(content: bytearray, draws: Random, others: Sequence[bytes]) -> bytearray:
    """Bytes that mean something somewhere."""
    at = draws.randrange(len(content) + 1)
    strange = (
        b"\0",
        b"\xff" * 4,
        b"[" * 64,
        b'"',
        b"\n",
        b",",
        b"{",
        b"\x1b[2J",
        draws.randbytes(16),
    )
    content[at:at] = draws.choice(strange)
    return content


def anything(content: bytearray, draws: Random, others: Sequence[bytes]) -> bytearray:
    """Nothing of what was there."""
    return bytearray(draws.randbytes(draws.choice((1, 8, 64, 512))))


MUTATIONS: tuple[Mutation, ...] = (
    *(flip, set_bytes, extreme, extreme, text_number, truncate),
    *(cut, repeat, splice, insert),
)


def mutated(content: bytes, draws: Random, others: Sequence[bytes]) -> bytes:
    """``content`` with one to four changes; a hundredth of all is noise."""
    if draws.random() < 0.01:
        return bytes(anything(bytearray(content), draws, others))
    changed = bytearray(content)
    for _ in range(draws.choice((1, 1, 1, 2, 3, 4))):
        if changed:
            changed = draws.choice(MUTATIONS)(changed, draws, others)
    return bytes(changed[:LARGEST])
