r"""The compact domain :math:`\Omega` that holds the support of the model.

The paper never states its domain. We use :math:`[-2, 2]^2` for the 2-D mixture and
:math:`[-1, 1]^d` for images; both are boxes.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from .types import Proposal

MAX_GRID = 50_000_000
"""More grid points than this are a mistake in the dimension, not a plan."""
PROJECTED_AT_ONCE = 1_000_000
"""Numbers in points; bounds the memory that takes."""


@dataclass(frozen=True)
class Box:
    """An axis-aligned box.

    ``low`` and ``high`` are numbers that hold for every coordinate (then ``shape`` says how
    many there are), or one number per coordinate.

    >>> square = Box(-2.0, 2.0, shape=(2,))
    >>> square.volume
    16.0
    >>> Box((0.0, -1.0), (1.0, 1.0)).shape
    (2,)
    >>> square.project(torch.tensor([[3.0, 0.5]]))
    tensor([[2.0000, 0.5000]])
    """

    low: float | tuple[float, ...]
    high: float | tuple[float, ...]
    shape: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            bound = getattr(self, name)
            if isinstance(bound, Sequence):
                object.__setattr__(self, name, tuple(float(b) for b in bound))
            else:
                object.__setattr__(self, name, float(bound))
        try:
            shape = tuple(int(size) for size in self.shape)
        except TypeError:
            raise ValueError(f"shape={self.shape} must be a tuple of sizes, such as (2,)") from None
        if not shape:
            sizes = {len(b) for b in (self.low, self.high) if isinstance(b, tuple)}
            if len(sizes) != 1:
                raise ValueError(
                    f"Box(low={self.low}, high={self.high}) has no dimension: "
                    "give shape=(d,), or one bound per coordinate"
                )
            shape = (sizes.pop(),)
        if any(size < 1 for size in shape):
            raise ValueError(f"shape={shape} has an empty axis")
        object.__setattr__(self, "shape", shape)
        for name in ("low", "high"):
            bound = getattr(self, name)
            if isinstance(bound, tuple) and len(bound) != self.dim:
                raise ValueError(
                    f"{name} has {len(bound)} values for shape={shape}, which has {self.dim}"
                )
        if isinstance(self.low, float) and isinstance(self.high, float):
            # Once for all coordinates: a file may ask for any number of them.
            pairs = [(self.low, self.high)]
        else:
            pairs = list(zip(self._bounds("low"), self._bounds("high"), strict=True))
        for low, high in pairs:
            if not (math.isfinite(low) and math.isfinite(high) and low < high):
                raise ValueError(
                    f"low={low} must be below high={high}, and both finite, in every coordinate"
                )

    def _bounds(self, name: str) -> tuple[float, ...]:
        bound: float | tuple[float, ...] = getattr(self, name)
        return bound if isinstance(bound, tuple) else (bound,) * self.dim

    def _edge(self, name: str, like: Tensor) -> Tensor:
        """One bound as a tensor that broadcasts against points like ``like``."""
        bound: float | tuple[float, ...] = getattr(self, name)
        edge = torch.tensor(bound, dtype=like.dtype, device=like.device)
        return edge.reshape(self.shape) if isinstance(bound, tuple) else edge

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return math.prod(self.shape)

    @property
    def log_volume(self) -> float:
        """Logarithm of the volume, which itself overflows for images."""
        pairs = zip(self._bounds("low"), self._bounds("high"), strict=True)
        return math.fsum(math.log(high - low) for low, high in pairs)

    @property
    def volume(self) -> float:
        """Product of the side lengths."""
        pairs = zip(self._bounds("low"), self._bounds("high"), strict=True)
        return math.prod(high - low for low, high in pairs)

    def project(self, x: Tensor) -> Tensor:
        """The nearest point of the box."""
        if isinstance(self.low, float) and isinstance(self.high, float):
            return x.clamp(self.low, self.high)
        return x.clamp(self._edge("low", x), self._edge("high", x))

    def reflect(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Where a straight way to ``x`` ends that bounces off the walls, and its signs there.

        The signs, shaped like ``x``, are −1 in coordinates whose direction is turned.

        >>> Box(0.0, 1.0, (1,)).reflect(torch.tensor([[0.5], [1.25], [2.25]]))
        (tensor([[0.5000],
                [0.7500],
                [0.2500]]), tensor([[ 1.],
                [-1.],
                [ 1.]]))
        """
        low = self._edge("low", x)
        side = self._edge("high", x) - low
        gone = (x - low).remainder(2 * side)
        turned = gone > side
        place = low + torch.where(turned, 2 * side - gone, gone)
        return self.project(place), 1 - 2 * turned.to(x.dtype)

    def contains(self, x: Tensor) -> Tensor:
        """Which points lie in the closed box, ``(N,)``."""
        inside = (x >= self._edge("low", x)) & (x <= self._edge("high", x))
        return inside.flatten(1).all(1)

    def log_prob(self, x: Tensor) -> Tensor:
        """Log-density of the uniform law on the box, ``(N,)``; minus infinity outside."""
        density = x.new_full((len(x),), -self.log_volume)
        return density.masked_fill(~self.contains(x), -math.inf)

    def share_outside(self, x: Tensor) -> float:
        """The share of points that lie outside."""
        return 1.0 - self.contains(x).double().mean().item()

    def sample(
        self, n: int, generator: torch.Generator, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """``n`` points uniform on the box."""
        unit = torch.rand(n, *self.shape, generator=generator, dtype=dtype, device=generator.device)
        low = self._edge("low", unit)
        # In their place: of many points there is no second copy.
        return unit.mul_(self._edge("high", unit) - low).add_(low)

    def grid(
        self,
        cells: int,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> Tensor:
        """Midpoints of a regular partition into ``cells`` per axis, last axis fastest.

        Midpoints make the Riemann sum second-order where the box cuts the density off.
        """
        if cells < 1:
            raise ValueError(f"cells={cells} must be at least 1")
        if self.dim * math.log(cells) > math.log(MAX_GRID):
            raise ValueError(
                f"cells={cells} per axis in {self.dim} dimensions make more than {MAX_GRID:,} "
                "points: a grid is for one to three dimensions"
            )
        middle = (torch.arange(cells, dtype=dtype, device=device) + 0.5) / cells
        axes = [
            low + (high - low) * middle
            for low, high in zip(self._bounds("low"), self._bounds("high"), strict=True)
        ]
        points = torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1)
        return points.reshape(-1, *self.shape)

    def cell_of(self, x: Tensor, cells: int) -> Tensor:
        """Which cell of ``grid(cells)`` points of the box lie in, ``(N,)``."""
        low = self._edge("low", x)
        side = self._edge("high", x) - low
        along = ((x - low) / side * cells).long().clamp(0, cells - 1).flatten(1)
        places = cells ** torch.arange(self.dim - 1, -1, -1, device=x.device)
        return (along * places).sum(1)


def draw(
    proposal: Proposal,
    n: int,
    generator: torch.Generator,
    dtype: torch.dtype,
    domain: Box | None = None,
) -> Tensor:
    """``n`` points of ``proposal``, projected on ``domain`` where one is given."""
    x = proposal.sample(n, generator, dtype)
    if domain is None:
        return x
    if not isinstance(proposal, Box):  # what it gives may be its own, and will be moved
        return domain.project(x)
    # Mostly they lie inside: then many points are not copied, but looked at a part at a time.
    parts = x.split(max(1, PROJECTED_AT_ONCE // domain.dim))
    inside = all(torch.equal(domain.project(part), part) for part in parts)
    return x if inside else domain.project(x)


def check_proposal(
    proposal: Proposal, generator: torch.Generator, dtype: torch.dtype, domain: Box | None
) -> None:
    """Refuse a proposal that does not fit the domain.

    A tail that sticks out by less than a hundredth is fine: ``draw`` projects it back.
    """
    if domain is None:
        return
    x = proposal.sample(max(1, min(10_000, 10_000_000 // domain.dim)), generator, dtype)
    if x.shape[1:] != domain.shape:
        raise ValueError(
            f"proposal={proposal} draws points of shape {tuple(x.shape[1:])}, "
            f"but domain={domain} has shape {domain.shape}"
        )
    outside = domain.share_outside(x)
    if outside > 0.01:
        raise ValueError(
            f"proposal={proposal} puts {outside:.0%} of its points outside domain={domain}: "
            "choose a proposal inside the domain, or a larger domain"
        )
