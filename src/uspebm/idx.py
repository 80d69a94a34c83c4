"""IDX, the file format of MNIST and its relatives.

Two zero bytes, a type (8: uint8), the number of axes, each axis' length as a big-endian 32-bit
number, and the values in row-major order; usually gzipped.
"""

import gzip
import math
import zlib
from pathlib import Path

import torch
from torch import Tensor

UINT8 = 8


def unzipped(content: bytes, path: Path) -> bytes:
    """``content`` without its gzip wrapping, where it has one; ``path`` is for the message."""
    if not content.startswith(b"\x1f\x8b"):
        return content
    try:
        return gzip.decompress(content)
    except (EOFError, OSError, zlib.error) as error:
        raise ValueError(f"{path} is not a whole gzip file: {error}") from error


def parse_idx(content: bytes, path: Path) -> Tensor:
    """The values of an IDX file's ``content``; ``path`` is for the message."""
    if len(content) < 4 or content[:2] != b"\0\0":
        raise ValueError(
            f"{path} is not an IDX file: it begins with {content[:4].hex() or 'nothing'}"
        )
    kind, axes = content[2], content[3]
    if kind != UINT8:
        raise ValueError(f"{path} holds IDX type {kind:#04x}; only unsigned bytes (0x08) are read")
    begin = 4 + 4 * axes
    shape = [int.from_bytes(content[k : k + 4], "big") for k in range(4, begin, 4)]
    size = begin + math.prod(shape)
    if len(content) != size:
        raise ValueError(
            f"{path} should hold {' × '.join(map(str, shape))} values in {size} bytes, but has "
            f"{len(content)}: it is truncated or damaged"
        )
    values = torch.zeros(0, dtype=torch.uint8)
    if size > begin:  # torch reads no empty buffers
        values = torch.frombuffer(bytearray(content[begin:]), dtype=torch.uint8)
    return values.view(shape)
