"""What ``fit`` learns from: points in memory, whatever they came as, or a law to draw from."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from ..support.randomness import generator, global_seed
from ..types import Domain, Proposal

Data = Tensor | NDArray[Any] | Dataset[Any] | Proposal
"""Points ``(N, *event)``, a map-style data set of points or (point, label), or a law."""
TORCH_FLOATS = (np.float16, np.float32, np.float64)


def as_points(data: Data, seed: int) -> Tensor | Proposal:
    """``data`` as a tensor; a law stays one.

    Arrays are not copied where torch can share them. A data set is read once, item by item: what it
    draws from torch at random is drawn then, for good, and follows from ``seed``.
    """
    if isinstance(data, Tensor):
        return data
    if isinstance(data, np.ndarray):
        return _shared(data)
    if isinstance(data, Dataset) and hasattr(data, "__len__"):
        with global_seed(generator(seed, "data set").initial_seed()):
            return _read(data, len(data))
    if hasattr(data, "sample"):
        return data
    raise ValueError(
        f"data is of type {type(data).__name__}; it must be a torch tensor or an array "
        "(N, *event), a Dataset that has a length, or have a method sample"
    )


def _shared(array: NDArray[Any]) -> Tensor:
    if array.dtype.kind != "f":
        raise ValueError(_not_points(array.dtype, array.shape))
    known = array.dtype in TORCH_FLOATS  # not those of another byte order, or longer ones
    return torch.from_numpy(np.require(array, None if known else np.float64, ["C", "W"]))


def _read(items: Dataset[Any], count: int) -> Tensor:
    if not count:
        raise ValueError("data has no items")
    first = _point(items[0], 0)
    points = torch.empty(count, *first.shape, dtype=first.dtype)
    points[0] = first
    for k in range(1, count):
        point = _point(items[k], k)
        if point.shape != first.shape:
            raise ValueError(
                f"item {k} of data has shape {tuple(point.shape)}, item 0 has "
                f"{tuple(first.shape)}: all points must be of one shape"
            )
        points[k] = point
    return points


def _point(item: object, k: int) -> Tensor:
    """The point of an item, which may come with a label."""
    point = item[0] if isinstance(item, tuple | list) and item else item
    if isinstance(point, np.ndarray):
        point = _shared(point)
    if not isinstance(point, Tensor):
        raise ValueError(
            f"item {k} of data holds a point of type {type(point).__name__}; it must be a tensor "
            "or an array: give the data set a transform that makes one"
        )
    return point.detach()


def check_points(
    data: Tensor | Proposal, domain: Domain | None, batch_size: int, like: Tensor
) -> None:
    """Refuse what cannot be learned from: wrong numbers, too few points, points outside Ω."""
    if not isinstance(data, Tensor):
        data = data.sample(batch_size, generator(0, "check", device=like.device), like.dtype)
    if not data.is_floating_point() or data.dim() < 2:
        raise ValueError(_not_points(data.dtype, tuple(data.shape)))
    if batch_size > len(data):
        raise ValueError(f"batch_size={batch_size} is more than the {len(data)} data points")
    if not torch.isfinite(data).all():
        raise ValueError("data holds NaN or infinite values; remove or replace them first")
    if domain is None:
        return
    if data.shape[1:] != domain.shape:
        raise ValueError(
            f"data has points of shape {tuple(data.shape[1:])}, but domain={domain} "
            f"has shape {domain.shape}"
        )
    if (outside := domain.share_outside(data)) > 0.01:
        raise ValueError(
            f"{outside:.0%} of the data lies outside domain={domain}, where the model has no mass: "
            "scale the data, or choose a larger domain"
        )


def _not_points(dtype: object, shape: tuple[int, ...]) -> str:
    return (
        f"data is {dtype} of shape {shape}; it must be floating-point, (N, *event): convert and "
        "scale it first"
    )
