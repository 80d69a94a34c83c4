"""Points of the user's as tensors: tables ``(N, d)`` and images, whatever order their axes have.

Images come as ``(N, H, W)``, ``(N, H, W, C)`` or ``(N, C, H, W)``, with C at most four; inside the
package they are ``(N, C, H, W)``. Bytes (uint8) stand for 0 to 255 and are scaled to [−1, 1]; other
numbers of an image are taken as they are, so whoever fits on floats scores floats.
"""

import warnings
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

CHANNELS = 4
"""More than these are not taken for channels."""
_Values = TypeVar("_Values", Tensor, NDArray[Any])


def from_bytes(values: _Values) -> _Values:
    """Numbers from 0 to 255 scaled to [−1, 1], in the precision that they come in.

    Every score of bytes passes here, so that a model sees them as it was fitted.

    >>> from_bytes(torch.tensor([0.0, 127.5, 255.0]))
    tensor([-1.,  0.,  1.])
    """
    return values / 127.5 - 1


def points(array: NDArray[Any]) -> Tensor:
    """A checked array of two to four axes as points ``(N, *event)``.

    >>> points(np.zeros((5, 28, 28), np.uint8)).shape
    torch.Size([5, 1, 28, 28])
    >>> points(np.zeros((5, 32, 32, 3))).shape
    torch.Size([5, 3, 32, 32])
    """
    images = array.ndim != 2
    of_bytes = images and array.dtype == np.uint8
    # Bytes in the precision that image models are trained in, so that they see the same numbers.
    kind = np.float32 if of_bytes else np.float64
    # A copy: torch refuses to share memory that is read-only.
    numbers = np.array(_channels_first(array) if images else array, kind, order="C")
    return torch.from_numpy(from_bytes(numbers) if of_bytes else numbers)


def as_bytes(array: NDArray[Any]) -> NDArray[Any]:
    """Images for a model of bytes: whole numbers from 0 to 255, or floats scaled to [−1, 1].

    Whole numbers in floats are bytes, too, if one exceeds 1, however dark the images are. Other
    floats may leave [−1, 1], as noise does, but not as far as unscaled bytes. Floats of which none
    is below 0 are doubtful, those of zeros and ones alone above all: a warning says so.
    """
    low, high = array.min(), array.max()
    if np.issubdtype(array.dtype, np.integer) and low >= 0 and high <= 255:
        return array.astype(np.uint8)
    # Whole numbers that a file or a table kept as floats.
    if low >= 0 and 1 < high <= 255 and (array == np.rint(array)).all():
        return array.astype(np.uint8)
    if np.issubdtype(array.dtype, np.floating) and max(-low, high) <= (2 if low >= 0 else 20):
        if low >= 0:
            warnings.warn(
                f"the model takes floats scaled to [−1, 1], and X has values from {low:g} to "
                f"{high:g}: if they are scaled to [0, 1], give 2 * X - 1, or bytes",
                stacklevel=4,
            )
        return array
    raise ValueError(
        f"the model was fitted to bytes, but X has {array.dtype} values from {low} to {high}: give "
        "whole numbers from 0 to 255, or floats scaled to [−1, 1]"
    )


def as_floats(array: NDArray[Any]) -> NDArray[Any]:
    """Images for a model of floats: bytes are refused, since nobody knows how they were scaled."""
    if array.dtype == np.uint8:
        raise ValueError(
            "the model was fitted to images of floats, but X has bytes: scale them as those were"
        )
    return array


def _channels_first(array: NDArray[Any]) -> NDArray[Any]:
    if array.ndim == 3:
        return array[:, None]
    if array.ndim == 4 and array.shape[3] <= CHANNELS:
        return array.transpose(0, 3, 1, 2)
    if array.ndim == 4 and array.shape[1] <= CHANNELS:
        return array
    raise ValueError(
        f"X has shape {array.shape}; it must be a table (N, columns) or images (N, height, width), "
        f"(N, height, width, channels) or (N, channels, height, width), of at most {CHANNELS} "
        "channels"
    )


def described(event_shape: tuple[int, ...]) -> str:
    """What one point is, in words.

    >>> described((3,)), described((1, 28, 28))
    ('3 columns', '28 × 28 pixels')
    """
    if len(event_shape) == 1:
        return f"{event_shape[0]} column{'s' if event_shape[0] > 1 else ''}"
    channels, height, width = event_shape
    pixels = f"{height} × {width} pixels"
    return pixels if channels == 1 else f"{pixels} of {channels} channels"
