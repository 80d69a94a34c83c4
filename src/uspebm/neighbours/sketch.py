r"""A few coordinates per point whose distances never exceed the true ones.

With an orthonormal basis B of k principal directions and a centre c,

.. math:: s(x) = \bigl((x - c) B,\ \|(x - c) - (x - c) B B^\top\|\bigr) \in \mathbb{R}^{k+1}

has :math:`\|s(a) - s(b)\| \le \|a - b\|`: the directions in B contribute exactly, and the rest at
least the difference of its lengths. So a pair whose sketches are ε apart is at least ε apart, and
most pairs are ruled out by k + 1 numbers instead of d.
"""

import torch
from torch import Tensor

from ..types import Workspace

DIRECTIONS = 63
"""Principal directions; of Fashion-MNIST's variance they hold nine tenths."""
SAMPLE = 2000
"""Points that the directions are computed from."""
MANY_DIMENSIONS = 1000
"""Up to here the covariance of coordinates is small enough to be taken apart."""
FEW = 500
"""Points that are combined beyond that."""
SKETCHED = 512
"""Points sketched at a time; bounds the memory that takes."""


def fixed_sample(n: int, k: int) -> Tensor:
    """About ``k`` of ``n`` rows, always the same, and in no step with an order of the data."""
    return torch.randint(n, (min(n, k),), generator=torch.Generator().manual_seed(0))


class Sketch:
    """Sketches of all ``points``, ``(n, d)``, along ``directions`` principal directions.

    Where that saves little (few dimensions, or none asked for) they are the points themselves.

    Attributes:
        coordinates: ``(n, k + 1)``.
        square: Squared norms of the points, ``(n,)``.
        shortened: Whether they are shorter than the points, the last coordinate being a length.
        version: Torch's count of writes into the points, when they were sketched.
    """

    def __init__(self, points: Tensor, directions: int = DIRECTIONS) -> None:
        self._basis: Tensor | None = None
        self.square = points.new_empty(len(points))
        if len(points) and 0 < 2 * directions < points.shape[1]:
            sample = points[fixed_sample(len(points), SAMPLE)]
            self._centre = sample.mean(0)
            basis = _principal_directions((sample - self._centre).double(), directions)
            self._basis = basis.to(points.dtype)
            self.coordinates = points.new_empty(len(points), basis.shape[1] + 1)
        else:
            self.coordinates = points
        for rows in torch.arange(len(points), device=points.device).split(SKETCHED):
            self.renew(points, rows)

    @property
    def shortened(self) -> bool:
        return self._basis is not None

    def renew(self, points: Tensor, rows: Tensor) -> None:
        """Take note that these rows of ``points`` have changed."""
        changed = points[rows].flatten(1)
        self.square[rows] = changed.square().sum(1)
        if self._basis is not None:
            self.coordinates[rows] = self.of(changed)
        self.version = writes(points)

    def of(self, x: Tensor) -> Tensor:
        """The sketch of other points, ``(m, k + 1)``."""
        if self._basis is None:
            return x
        along, across = self._split(x - self._centre)
        return torch.cat([along, across.unsqueeze(1)], dim=1)

    def length_across(self, step: Tensor) -> Tensor:
        """How far points that move by ``step`` move across the sketched directions, ``(m,)``."""
        return step.new_zeros(len(step)) if self._basis is None else self._split(step)[1]

    def _split(self, offset: Tensor) -> tuple[Tensor, Tensor]:
        """Coordinates along the directions, and the length of the rest."""
        assert self._basis is not None
        along = offset @ self._basis
        return along, torch.addmm(offset, along, self._basis.T, alpha=-1.0).norm(dim=1)


def _principal_directions(centred: Tensor, count: int) -> Tensor:
    """An orthonormal basis of the directions in which points vary most, ``(d, count)`` or fewer."""
    n, d = centred.shape
    directions: Tensor
    if d <= max(n, MANY_DIMENSIONS):
        directions = torch.linalg.eigh(centred.T @ centred).eigenvectors[:, -count:]
    else:  # more dimensions than points: they are combinations of the points
        some = centred[:FEW]
        combined = some.T @ torch.linalg.eigh(some @ some.T).eigenvectors[:, -count:]
        directions = torch.linalg.qr(combined).Q
    return directions


def sketch_of(points: Tensor, workspace: Workspace) -> Sketch:
    """The sketch of ``points`` ``(n, *event)``, kept in ``workspace`` from update to update.

    A persistent set of points changes by a few rows per update; sketching all of it anew every
    time would cost more than the search. Writes by others are noticed by torch's own count, unless
    they go past it, through ``.data`` or a numpy view.
    """
    known, sketch = workspace.scratch.get("sketch", (None, None))
    if known is not points or sketch.version != writes(points) or points.is_inference():
        sketch = Sketch(points.flatten(1))
        workspace.scratch["sketch"] = (points, sketch)
    kept: Sketch = sketch
    return kept


def writes(points: Tensor) -> int:
    """Torch's count of writes; inference tensors have none, and are not remembered."""
    return -1 if points.is_inference() else points._version
