"""What ``fit`` learns from: points in memory, whatever they came as, or a law to draw from.

Processes that train together hold the points in shares: each keeps the rows that
:meth:`~uspebm.support.group.Group.span` gives it, and takes part in a batch with those of its rows
that are in it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from ..support.group import current_group
from ..support.randomness import generator, global_seed
from ..types import Domain, Proposal


@dataclass(frozen=True, eq=False)
class Share:
    """This process's rows of ``count`` points that all processes have between them.

    Alone it has them all. Whose rows are whose follows from ranks: see
    :meth:`~uspebm.support.group.Group.span`.
    """

    points: Tensor
    """``(n, *event)``."""
    count: int

    def __post_init__(self) -> None:
        own = current_group().share(self.count)
        if len(self.points) != own:
            raise ValueError(
                f"the share has {len(self.points)} of count={self.count} points: this process's "
                f"are {own}"
            )

    @classmethod
    def of(cls, points: Tensor) -> "Share":
        """Of points all of which are here; of several processes each copies its rows, no more."""
        group = current_group()
        own = group.rows(points)
        return cls(own if group.size == 1 else own.clone(), len(points))

    def own(self, numbers: Tensor) -> Tensor:
        """Those of the points with these numbers that are this process's."""
        _, rows = current_group().mine(numbers.to(self.points.device), self.count)
        return self.points[rows]

    def all_of(self, numbers: Tensor) -> Tensor:
        """The points with these numbers, whoever has them: they are sent, so all must ask."""
        group = current_group()
        found, rows = group.mine(numbers.to(self.points.device), self.count)
        x = self.points.new_zeros(len(numbers), *self.points.shape[1:])
        x[found] = self.points[rows]
        return group.add(x)


Data = Tensor | NDArray[Any] | Dataset[Any] | Share | Proposal
"""Points ``(N, *event)``, a map-style data set of points or (point, label), or a law."""
TORCH_FLOATS = (np.float16, np.float32, np.float64)


def as_points(data: Data, seed: int) -> Share | Proposal:
    """This process's share of ``data``; a law stays one.

    Arrays are not copied where torch can share them. A data set is read once, item by item: what it
    draws from torch at random is drawn then, for good, and follows from ``seed``.
    """
    if isinstance(data, Share):
        return data
    if isinstance(data, np.ndarray):
        data = _shared(data)
    if isinstance(data, Tensor):
        if data.dim() < 2:
            raise ValueError(_not_points(data.dtype, tuple(data.shape)))
        return Share.of(data)
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


def _read(items: Dataset[Any], count: int) -> Share:
    """All items, whose draws follow each other; of several processes each keeps its own."""
    if not count:
        raise ValueError("data has no items")
    begin, end = current_group().span(count)
    first = _point(items[0], 0)
    points = torch.empty(end - begin, *first.shape, dtype=first.dtype)
    for k in range(count):
        point = _point(items[k], k) if k else first
        if point.shape != first.shape:
            raise ValueError(
                f"item {k} of data has shape {tuple(point.shape)}, item 0 has "
                f"{tuple(first.shape)}: all points must be of one shape"
            )
        if begin <= k < end:
            points[k - begin] = point
    return Share(points, count)


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
    data: Share | Proposal, domain: Domain | None, batch_size: int, like: Tensor
) -> None:
    """Refuse what cannot be learned from: wrong numbers, too few points, points outside Ω.

    What is wrong in one process's share is refused by all.
    """
    group = current_group()
    if not isinstance(data, Share):
        drawn = data.sample(batch_size, generator(0, "check", device=like.device), like.dtype)
        data = Share.of(drawn)
    group.agree(data.count, "how many data points there are")
    points, count = data.points, data.count
    if not points.is_floating_point() or points.dim() < 2:
        raise ValueError(_not_points(points.dtype, (count, *points.shape[1:])))
    if batch_size > count:
        raise ValueError(f"batch_size={batch_size} is more than the {count} data points")
    if group.any(not torch.isfinite(points).all())[0]:
        raise ValueError("data holds NaN or infinite values; remove or replace them first")
    if domain is None:
        return
    if points.shape[1:] != domain.shape:
        raise ValueError(
            f"data has points of shape {tuple(points.shape[1:])}, but domain={domain} "
            f"has shape {domain.shape}"
        )
    own_outside = torch.tensor(domain.share_outside(points) * len(points), dtype=torch.float64)
    if (outside := group.add(own_outside).item() / count) > 0.01:
        raise ValueError(
            f"{outside:.0%} of the data lies outside domain={domain}, where the model has no mass: "
            "scale the data, or choose a larger domain"
        )


def _not_points(dtype: object, shape: tuple[int, ...]) -> str:
    return (
        f"data is {dtype} of shape {shape}; it must be floating-point, (N, *event): convert and "
        "scale it first"
    )
