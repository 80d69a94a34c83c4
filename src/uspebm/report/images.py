"""Images of points as pictures that stand in the page itself."""

import base64
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..recipes.frames import Frame
from ..support.extras import need
from .html import EXTRA, PURPOSE
from .page import Gallery, Picture

MOST_POINTS_SHOWN = 24
LARGEST_SIDE = 96
"""Pixels of a picture: of larger images every n-th is shown."""


def png(image: NDArray[Any]) -> str:
    """An image of bytes, ``(C, H, W)`` or ``(H, W)``, as a ``data:`` address."""
    pixels = image if image.ndim == 2 else np.moveaxis(image, 0, -1)
    if pixels.ndim == 3 and pixels.shape[-1] == 1:
        pixels = pixels[..., 0]
    step = -(-max(pixels.shape[:2]) // LARGEST_SIDE)
    content = io.BytesIO()
    picture = need("PIL.Image", PURPOSE, EXTRA).fromarray(
        np.ascontiguousarray(pixels[::step, ::step])
    )
    picture.save(content, "PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode()}"


def heat_png(image: NDArray[Any], heat: NDArray[np.float64]) -> str:
    """An image in grey, and in red what makes it strange."""
    grey = image.mean(0) if image.ndim == 3 else image.astype(np.float64)
    high = heat.max()
    share = (heat / high).clip(0, 1) if high > 0 else np.zeros_like(heat)
    pale = 0.6 * grey + 90
    red = pale + (255 - pale) * share
    rest = pale * (1 - share)
    return png(np.stack([red, rest, rest]).clip(0, 255).astype(np.uint8))


def point_gallery(frames: Sequence[Frame]) -> Gallery | None:
    """Partition points of the last frame, if they are images."""
    last = frames[-1] if frames else None
    if last is None or last.points.ndim != 4 or last.points.dtype != np.uint8:
        return None
    shown = last.points[:: max(1, len(last.points) // MOST_POINTS_SHOWN)][:MOST_POINTS_SHOWN]
    pictures = tuple(
        Picture(png(image), f"Partition point {k + 1} of {len(shown)}")
        for k, image in enumerate(shown)
    )
    note = (
        f"After update {last.step:,}. They should look like what surrounds the data, and not all "
        "like the data themselves."
    )
    return Gallery("Some partition points", pictures, note)
