"""One image, read by Pillow."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...support.extras import need
from ...support.reading import UnreadableError, reading
from .source import Rows
from .tiff import tiff_pieces

READING = ("reading images", "images")
"""What needs Pillow, and the extra that has it."""
ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp", ".pgm", ".ppm")
# What they may hold: Pillow knows other formats by their content, and runs programs for some.
FORMATS_READ = ("PNG", "JPEG", "BMP", "TIFF", "WEBP", "PPM")
MOST_PIXELS = 25_000_000
"""Of one image: Pillow holds it in 100 MB."""
MOST_WEBP_PIXELS = 12_000_000
"""Of one in WebP, which is held three times while it is read."""
MOST_PIECES = 100_000
"""Strips or tiles of a TIFF image."""
MOST_SCANS = 100
"""Passes over a JPEG, each over all of its pixels; ten are usual."""
TILE_WIDTH, TILE_LENGTH = 322, 323  # TIFF's numbers for them
# What Pillow's modes become: bytes (H, W), bytes (H, W, 3), float32 (H, W) from 0 to 65535.
GREY, COLOUR, DEEP = "grey", "RGB", "16-bit grey"
KIND_OF_MODE = {
    "1": GREY,
    "L": GREY,
    "RGB": COLOUR,
    "P": COLOUR,
    "I": DEEP,  # a 16-bit PGM
    "I;16": DEEP,
    "I;16B": DEEP,
}


class ImageForm(NamedTuple):
    """What images must have in common: (height, width), and what a pixel is.

    >>> str(ImageForm((28, 32), GREY)), ImageForm((28, 32), COLOUR).shape
    ('28 × 32 grey', (28, 32, 3))
    """

    size: tuple[int, int]
    kind: str

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the array that it is read to."""
        return (*self.size, 3) if self.kind == COLOUR else self.size

    def __str__(self) -> str:
        return f"{self.size[0]} × {self.size[1]} {self.kind}"


def form_of(file: Path) -> ImageForm:
    """What a file's header says of its image, which may still turn out to be damaged."""
    with _opened(file) as image:
        return _form(image, file)


def read_image(file: Path, resize: tuple[int, int] | None = None) -> tuple[Rows, ImageForm]:
    """Pixels, brought to the height and width ``resize`` if there is one; and the file's own form.

    Resizing stretches an image of other proportions. A new pixel is a mean of all old ones around
    it, the nearer the more, so that nothing falls between and no value goes beyond theirs.
    """
    pillow = need("PIL.Image", *READING)
    with _opened(file) as image:
        _refuse_before_loading(image, file)
        image.load()
        form = _form(image, file)
        same = resize is None or resize == form.size
        if form.kind == DEEP:
            values = np.array(image, np.float32)
            if same:
                return values, form
            whole = pillow.fromarray(values)  # Pillow does not resize all modes of 16 bits
        else:
            mode = "L" if form.kind == GREY else "RGB"
            # Before it is resized: a palette's numbers have no means.
            whole = image if image.mode == mode else image.convert(mode)
        if resize is not None and not same:
            whole = whole.resize(resize[::-1], pillow.Resampling.BILINEAR)
        return np.asarray(whole), form  # not np.array, which would hold it twice


@contextmanager
def _opened(file: Path) -> Iterator[Any]:
    pillow = need("PIL.Image", *READING)
    try:
        with reading(file, "is no whole image"):
            if tiff_pieces(file) > MOST_PIECES:
                raise UnreadableError(
                    f"{file} is in more than {MOST_PIECES:,} pieces: save it anew"
                )
            with pillow.open(file, formats=FORMATS_READ) as image:
                yield image
    except PermissionError as error:
        raise UnreadableError(f"{file} may not be read: {error.strerror}") from error


def _form(image: Any, file: Path) -> ImageForm:
    if image.has_transparency_data:
        raise UnreadableError(f"{file} has transparency: save it without")
    kind = KIND_OF_MODE.get(image.mode)
    if kind is None:
        raise UnreadableError(
            f"{file} has pixels of mode {image.mode}: save it as 8-bit grey or RGB"
        )
    return ImageForm((image.height, image.width), kind)


def _refuse_before_loading(image: Any, file: Path) -> None:
    """What a file's header tells is wrong, before it takes memory and time."""
    if getattr(image, "is_animated", False):
        raise UnreadableError(f"{file} holds several images: save each in a file of its own")
    tags = getattr(image, "tag_v2", {})
    tile = tags.get(TILE_WIDTH, 0) * tags.get(TILE_LENGTH, 0)
    pixels = max(image.width * image.height, tile)
    most = MOST_WEBP_PIXELS if image.format == "WEBP" else MOST_PIXELS
    if pixels > most:
        raise UnreadableError(f"{file} has {pixels:,} pixels, more than {most:,}: make it smaller")
    if image.format in ("JPEG", "MPO") and file.read_bytes().count(b"\xff\xda") > MOST_SCANS:
        raise UnreadableError(f"{file} has more than {MOST_SCANS} scans: save it as a plain JPEG")
