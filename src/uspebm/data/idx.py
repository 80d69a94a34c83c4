"""IDX, the file format of MNIST and its relatives.

Two zero bytes, a type (8: uint8), the number of axes, each axis' length as a big-endian 32-bit
number, and the values in row-major order; usually gzipped.
"""

import io
import math
from pathlib import Path
from typing import IO

import torch
from torch import Tensor

from ..support.reading import UnreadableError

UINT8 = 8


def idx_shape(stream: IO[bytes], path: Path) -> tuple[int, ...]:
    """The shape that a stream's header tells; what follows in it are values.

    ``path`` is for the message, here and below.
    """
    begin = stream.read(4)
    if len(begin) < 4 or begin[:2] != b"\0\0":
        raise UnreadableError(
            f"{path} is not an IDX file: it begins with {begin.hex() or 'nothing'}"
        )
    kind, axes = begin[2], begin[3]
    if kind != UINT8:
        raise UnreadableError(
            f"{path} holds IDX type {kind:#04x}; only unsigned bytes (0x08) are read"
        )
    lengths = stream.read(4 * axes)
    if len(lengths) < 4 * axes:
        raise UnreadableError(f"{path} ends within its header: it is truncated or damaged")
    return tuple(int.from_bytes(lengths[k : k + 4], "big") for k in range(0, 4 * axes, 4))


def wrong_length(path: Path, shape: tuple[int, ...], found: int | str) -> UnreadableError:
    """A file that has not as many bytes as its header says."""
    size = 4 + 4 * len(shape) + math.prod(shape)
    return UnreadableError(
        f"{path} should hold {' × '.join(map(str, shape[:10]))} values in {size} bytes, but has "
        f"{found}: it is truncated or damaged"
    )


def parse_idx(content: bytes, path: Path) -> Tensor:
    """The values of an IDX file's ``content``."""
    stream = io.BytesIO(content)
    shape = idx_shape(stream, path)
    begin, count = stream.tell(), math.prod(shape)
    if len(content) != begin + count:
        raise wrong_length(path, shape, len(content))
    values = torch.zeros(0, dtype=torch.uint8)
    if count:  # torch reads no empty buffers
        values = torch.frombuffer(bytearray(content[begin:]), dtype=torch.uint8)
    return values.view(shape)
