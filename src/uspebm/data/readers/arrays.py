"""Arrays: ``.npy``, ``.npz`` and IDX."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, final

import numpy as np

from ...support.reading import UnreadableError, reading
from ...support.words import point_word
from .layouts import opened_array
from .source import READ_BYTES, Rows, Source, refuse_rows


@final
class ArrayFile(Source):
    """One array whose first axis counts the rows.

    Read in blocks, and takes memory for one of them only; a ``.npz`` file whose array lies column
    by column is read whole. Three or more axes of whole numbers are images, and stay whole numbers;
    all else becomes floats: float32 for float32 and float16, float64 for any other number.
    """

    def __init__(self, path: Path) -> None:
        with opened_array(path) as (layout, _):
            shape, dtype = layout.shape, layout.dtype
        if len(shape) < 2:
            raise UnreadableError(
                f"{path} has shape {shape}, but rows and columns are needed: "
                "reshape one number per row to (N, 1)"
            )
        if not math.prod(shape):
            raise UnreadableError(f"{path} has no values: its shape is {shape}")
        self.path = path
        self.event_shape = shape[1:]
        self.rows = shape[0]
        self._layout = layout
        self._type: np.dtype[Any] = np.dtype(np.float64)
        if dtype.kind in "iu" and len(shape) > 2:
            self._type = dtype.newbyteorder("=")
        elif dtype.kind == "f" and dtype.itemsize <= 4:
            self._type = np.dtype(np.float32)

    def _blocks(self, size: int) -> Iterator[Rows]:
        before, word = 0, point_word(len(self.event_shape) > 1)
        for block in self._found(size):
            for begin in range(0, len(block), size):  # a whole array may be one block
                some = block[begin : begin + size].reshape(-1, math.prod(self.event_shape))
                bad = np.asarray(~np.isfinite(some).all(1))
                refuse_rows(self.path, bad, before, "NaN or infinite values", word)
                before += len(some)
            yield block

    def _found(self, size: int) -> Iterator[Rows]:
        layout = self._layout
        if layout.by_columns and self.path.suffix.lower() == ".npy":
            yield from self._mapped(size)
            return
        with opened_array(self.path) as (now, stream):
            if now != layout:
                raise UnreadableError(f"{self.path} was changed while it was read")
            if layout.by_columns:
                yield self._turned(stream)
            else:
                for begin in range(0, layout.shape[0], size):
                    rows = min(size, layout.shape[0] - begin)
                    yield self._values(stream, (rows, *self.event_shape)).astype(self._type)
            if stream.read(1):
                raise UnreadableError(f"{self.path} holds more than its header says: it is damaged")

    def _mapped(self, size: int) -> Iterator[Rows]:
        shape, dtype = self._layout.shape, self._layout.dtype
        for begin in range(0, shape[0], size):
            # Mapped anew for each block: what was read of a map takes memory until it is closed.
            with reading(self.path):
                array = np.memmap(self.path, dtype, "r", self._layout.begin, shape, "F")
                block = array[begin : begin + size].astype(self._type, order="C")
            yield block

    def _turned(self, stream: IO[bytes]) -> Rows:
        """All rows of an array that lies column by column."""
        rows, columns = self._layout.shape[0], math.prod(self.event_shape)
        array = np.empty((rows, columns), self._type)
        some = max(1, READ_BYTES // (rows * self._layout.dtype.itemsize))
        for begin in range(0, columns, some):
            part = array[:, begin : begin + some]
            part[:] = self._values(stream, part.shape[::-1]).T
        # The last axis of a row comes first.
        turned = array.reshape(rows, *self.event_shape[::-1])
        return turned.transpose(0, *range(len(self.event_shape), 0, -1))

    def _values(self, stream: IO[bytes], shape: tuple[int, ...]) -> Rows:
        dtype = self._layout.dtype
        wanted = math.prod(shape) * dtype.itemsize
        content = stream.read(wanted)
        if len(content) < wanted:
            raise UnreadableError(f"{self.path} ends too early: it is truncated or damaged")
        return np.frombuffer(content, dtype).reshape(shape)
