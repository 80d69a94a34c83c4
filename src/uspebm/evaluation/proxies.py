"""OOD images made from in-distribution ones alone, to develop with.

Choices made by looking at the sets of the final table would be choices made on the test. These
stand in for them: whatever is decided, is decided on them. Each keeps part of what makes an image
an image of the data, and breaks another part.
"""

import math

import torch
from torch import Tensor
from torch.nn.functional import conv2d, pad

from ..support.randomness import generator


def proxies(images: Tensor, seed: int = 0) -> dict[str, Tensor]:
    """Sets of OOD images, each as many as ``images``, ``(N, C, H, W)`` in [−1, 1].

    Turned are a quarter, or a half where height and width differ.
    """
    draws = generator(seed, "proxies")
    quarters = 1 if images.shape[2] == images.shape[3] else 2
    return {
        "inverted": -images,
        "rotated": images.rot90(quarters, dims=(2, 3)),
        "blurred": blurred(images, 3.0),
        "shuffled": shuffled(images, 4, draws),
        "blended": 0.5 * (images + images[torch.randperm(len(images), generator=draws)]),
        "faded": faded(images, draws),
        "stretched": (4 * images).clamp(-1.0, 1.0),
        "outlined": outlined(images),
    }


def blurred(images: Tensor, width: float) -> Tensor:
    """Smoothed by a Gaussian of ``width`` pixels; edges repeat."""
    reach = math.ceil(3 * width)
    at = torch.arange(-reach, reach + 1, dtype=images.dtype)
    kernel = torch.softmax(-0.5 * (at / width).square(), dim=0)
    framed = pad(images, (reach,) * 4, mode="replicate")
    planes = framed.flatten(0, 1).unsqueeze(1)  # every channel by itself
    smooth = conv2d(conv2d(planes, kernel.view(1, 1, 1, -1)), kernel.view(1, 1, -1, 1))
    return smooth.view_as(images)


def shuffled(images: Tensor, parts: int, draws: torch.Generator) -> Tensor:
    """Cut in ``parts`` by ``parts`` tiles, which change places, differently in each image.

    What is left below and on the right, where sides are no multiples, stays where it is.
    """
    n, channels, height, width = images.shape
    h, w = height // parts, width // parts
    if not h or not w:
        raise ValueError(f"images of {height} × {width} cannot be cut in {parts} × {parts} tiles")
    tiles = images.unfold(2, h, h).unfold(3, w, w)[:, :, :parts, :parts]
    tiles = tiles.flatten(2, 3).transpose(1, 2)
    order = torch.rand(n, parts * parts, generator=draws).argsort(1)
    tiles = tiles[torch.arange(n).unsqueeze(1), order].view(n, parts, parts, channels, h, w)
    moved = images.clone()
    moved[:, :, : parts * h, : parts * w] = tiles.permute(0, 3, 1, 4, 2, 5).reshape(
        n, channels, parts * h, parts * w
    )
    return moved


def faded(images: Tensor, draws: torch.Generator) -> Tensor:
    """Contrast lowered to at most a third of what it was, about the image's own mean."""
    mean = images.mean((2, 3), keepdim=True)
    contrast = torch.rand(len(images), 1, 1, 1, generator=draws) / 3
    return mean + contrast * (images - mean)


def outlined(images: Tensor) -> Tensor:
    """Bright where the image changes, black elsewhere."""
    down = (images[:, :, 1:, :] - images[:, :, :-1, :]).abs()
    right = (images[:, :, :, 1:] - images[:, :, :, :-1]).abs()
    edges = torch.maximum(pad(down, (0, 0, 0, 1)), pad(right, (0, 1, 0, 0)))
    return (2 * edges - 1).clamp(-1.0, 1.0)
