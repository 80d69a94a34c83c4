"""A folder of images."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import final

import numpy as np
from PIL import Image

from .source import Rows, Source, one_line

ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp", ".pgm", ".ppm")
# What Pillow's modes become: bytes (H, W), bytes (H, W, 3), float32 (H, W) from 0 to 65535.
GREY, COLOUR, DEEP = "grey", "RGB", "16-bit grey"
KINDS = {
    "1": GREY,
    "L": GREY,
    "RGB": COLOUR,
    "P": COLOUR,
    "I": DEEP,  # a 16-bit PGM
    "I;16": DEEP,
    "I;16B": DEEP,
}
# What Pillow raises for a damaged file depends on the format.
DAMAGED = (
    OSError,
    SyntaxError,
    ValueError,
    EOFError,
    IndexError,
    struct.error,
    Image.DecompressionBombError,
)


@final
class ImageFolder(Source):
    """The images of a folder, sorted by name, opened one at a time.

    All have one size, and are all grey (8 or 1 bit: bytes, where 1 bit gives 0 and 255), all
    colour (RGB, or a palette: bytes), or all 16-bit grey (float32, not scaled). Transparency and
    animations are refused. Hidden files are left out; subfolders and other files are an error.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._files = sorted(file for file in path.iterdir() if not file.name.startswith("."))
        if not self._files:
            raise ValueError(f"{path} is an empty folder: it should hold images")
        for file in self._files:
            if file.suffix.lower() not in ENDINGS or not file.is_file():
                raise ValueError(
                    f"{path} should hold images only ({', '.join(ENDINGS)}), but has {file.name}"
                )
        first, self._first_kind = _image(self._files[0])
        self.event_shape = first.shape
        self.rows = len(self._files)

    def _blocks(self, size: int) -> Iterator[Rows]:
        for begin in range(0, len(self._files), size):
            yield np.stack([self._alike(file) for file in self._files[begin : begin + size]])

    def _alike(self, file: Path) -> Rows:
        image, kind = _image(file)
        if (image.shape, kind) != (self.event_shape, self._first_kind):
            raise ValueError(
                f"{self.path} mixes images: {self._files[0].name} is "
                f"{_described(self.event_shape, self._first_kind)}, {file.name} is "
                f"{_described(image.shape, kind)}; make them alike"
            )
        return image


def _described(shape: tuple[int, ...], kind: str) -> str:
    return f"{shape[1]} × {shape[0]} {kind}"


def _image(file: Path) -> tuple[Rows, str]:
    try:
        with Image.open(file) as image:
            frames = getattr(image, "n_frames", 1)
            image.load()
    except DAMAGED as error:
        raise ValueError(f"{file} is no whole image: {one_line(error)}") from error
    if frames > 1:
        raise ValueError(f"{file} holds {frames} images: save each in a file of its own")
    if image.has_transparency_data:
        raise ValueError(f"{file} has transparency: save it without")
    kind = KINDS.get(image.mode)
    if kind is None:
        raise ValueError(f"{file} has pixels of mode {image.mode}: save it as 8-bit grey or RGB")
    if kind == DEEP:
        return np.array(image, np.float32), kind
    return np.array(image.convert("L" if kind == GREY else "RGB")), kind
