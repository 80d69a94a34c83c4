r"""Distance to the nearest rows of a table, in several units at once.

Nobody can know in which units the columns of a table are to be compared: in those they have, if all
have the same; in each column's own spread; in what neighbours differ by, where columns depend on
each other; or by ranks, where a few large values would hide all else. Each is right on some tables
and wrong on others. So all are asked, and what they say is made comparable: not by how far away a
point is but by how many of the data are as far from each other.

References:
    Livernoche, Jain, Hezaveh, Ravanbakhsh (2023), *On diffusion modeling for anomaly detection*
    (whose DTE-NP is the mean distance to the k nearest).
    Vovk, Wang (2020), *Combining p-values via averaging*.
"""

import math
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from ..support.checks import at_least
from ..support.randomness import generator
from .gaps import filled, filled_table
from .monotone import PiecewiseLinear
from .nearest import TINY, Nearest, SearchMixin, log_scales
from .ranks import tail_curves
from .scaling import Scaling
from .table_units import units_of

FARTHEST_UNIT = 1e4
"""No coordinate is farther from the middle, in any units: squares in float32 have an end."""
ZERO = 1.5 * math.sqrt(TINY)
"""A distance that stands for none."""
MOST_IN_VIEW = 20_000_000
"""Numbers in the centres of one view."""
MANY_ROWS, CENTRES_OF_MANY = 10_000, 2500
"""Of more rows, fewer are kept: who has so many scores them by the million."""
UNITS_FROM = 100_000
"""Rows that decide about units, at most."""


READINGS = 3
"""Of a point in a view."""


class View(SearchMixin, nn.Module):
    """Rows in certain units, the centres in them, and what is usual of distances to these.

    Three readings of a point: the logarithm of its distance to the nearest centre, that of its mean
    distance to the k nearest, and the latter less half the logarithm of how far those are from
    their own. Each becomes :math:`-\\log` of the share of the data with a reading as large. A row
    that equals a centre is taken for that training row, and judged by the others: no row is its own
    witness.

    Arguments:
        units: From rows ``(N, d)`` in float64 to coordinates, the same number of them.
        centres: ``(n, d)`` in those units, float32.
        log_scale: ``(n,)``: log of each centre's mean distance to its k nearest others.
        tails: From the readings to minus the logarithms of their tail probabilities.
        neighbours: k.
    """

    centres: Tensor
    log_scale: Tensor

    def __init__(
        self,
        units: nn.Module,
        centres: Tensor,
        log_scale: Tensor,
        tails: PiecewiseLinear,
        neighbours: int,
    ) -> None:
        super().__init__()
        if centres.dim() != 2 or len(centres) < 2 or log_scale.shape != centres.shape[:1]:
            raise ValueError(
                f"centres {tuple(centres.shape)} must be two or more, with one scale for each, "
                f"not {tuple(log_scale.shape)}"
            )
        if any(p.dtype != torch.float32 or not p.isfinite().all() for p in (centres, log_scale)):
            raise ValueError("centres and scales must be finite numbers in float32")
        self.units = units
        self.tails = tails
        self.neighbours = neighbours
        self.register_buffer("centres", centres)
        self.register_buffer("log_scale", log_scale)

    def forward(self, x: Tensor) -> Tensor:
        """Minus the logarithms of tail probabilities, ``(N, 3)``."""
        k = min(self.neighbours, len(self.centres) - 1)
        found, centres = self._nearest()(_single(self.units(x)), k + 1)
        found, order = found.sort(1)
        centres = centres.gather(1, order)
        itself = found[:, :1] <= ZERO
        distances = torch.where(itself, found[:, 1:], found[:, :-1])
        which = torch.where(itself, centres[:, 1:], centres[:, :-1])
        tails: Tensor = self.tails(_readings(distances, self.log_scale[which]))
        return tails


class NeighbourEnergy(nn.Module):
    r"""How unusual a row's distances to the data are, over several views.

    .. math:: E(x) = 2 \log \frac{1}{m} \sum_{j=1}^{m} p_j(x)^{-1/2}

    with :math:`p_j` the share of training rows that are at least as far from the others as x is
    from them, in one of m readings (:class:`View`). The mean of the roots lies between that of
    logarithms, where all have to agree, and the smallest p, where one is enough.

    It is a score that orders rows: nothing is normalised, there is no Z. The p's are no guarantee
    either: that is what held-back rows are for.

    NaN stands for a gap, and is filled from the centres that are most alike (:mod:`.gaps`), as it
    was in the data.

    Arguments:
        views: Units, centres in them, and what is usual.

    >>> x = torch.randn(300, generator=generator(0))
    >>> energy = NeighbourRule().build(torch.stack([x, 2 * x], 1), seed=0)
    >>> near, odd, gap = energy(torch.tensor([[1.0, 2.0], [1.0, -2.0], [1.0, torch.nan]]).double())
    >>> bool(odd > near), bool(gap < odd)  # each value is usual, and both together are not
    (True, True)
    """

    two_valued: Tensor
    """Columns ``(d,)`` that are 0 or 1 in each centre."""
    takes = torch.float64
    fills = True
    """Gaps, that is; other energies know none."""
    at_once = 4096
    """Points that are best scored together."""

    def __init__(self, views: list[View]) -> None:
        super().__init__()
        if not views:
            raise ValueError("an energy over neighbours needs a view")
        self.views = nn.ModuleList(views)
        view, units = self._plain_view()
        # Made of the centres, so no file has it; here, so that an exported graph has it ready.
        self.register_buffer("two_valued", _two_valued(view.centres, units), persistent=False)

    @property
    def rows(self) -> int:
        """Training rows that it holds."""
        return len(self.views[0].centres)  # type: ignore[arg-type]

    def held_rows(self) -> Tensor:
        """Those rows, in the user's own units but for rounding."""
        view, units = self._plain_view()
        return units.inverse(view.centres)

    def _plain_view(self) -> tuple[View, Scaling]:
        """The view with a unit for each column, or else with one for all."""
        found = [
            (view, view.units)
            for view in self.views
            if isinstance(view, View)
            and isinstance(view.units, Scaling)
            and view.units.factor.dim() < 2
        ]
        return max(found, key=lambda pair: pair[1].factor.dim())

    def without_gaps(self, x: Tensor) -> Tensor:
        """Rows with what is missing filled in, in the user's own units."""
        view, units = self._plain_view()
        return _filled_by(x, view.centres, self.two_valued, units)

    def forward(self, x: Tensor) -> Tensor:
        if torch.compiler.is_exporting():
            view, units = self._plain_view()
            fill = partial(
                _filled_by, centres=view.centres, two_valued=self.two_valued, units=units
            )
            x = torch.cond(x.isnan().any(), fill, Tensor.clone, (x,))
        elif x.isnan().any():
            x = self.without_gaps(x)
        return _combined(torch.cat([view(x) for view in self.views], 1))


def _filled_by(x: Tensor, centres: Tensor, two_valued: Tensor, units: Scaling) -> Tensor:
    full = units.inverse(filled(_single(units(x)), centres, two_valued=two_valued).double())
    return torch.where(x.isnan(), full, x)


def _two_valued(centres: Tensor, units: Scaling) -> Tensor:
    """Columns that are 0 or 1: these have gone the same way into the centres' units."""
    zero, one = (_single(units(torch.full((1, centres.shape[1]), v))) for v in (0.0, 1.0))
    return ((centres == zero) | (centres == one)).all(0)


def _combined(tails: Tensor) -> Tensor:
    return 2 * (torch.logsumexp(0.5 * tails, 1) - math.log(tails.shape[1]))


def _single(z: Tensor) -> Tensor:
    return z.clamp(-FARTHEST_UNIT, FARTHEST_UNIT).float()


def _readings(distances: Tensor, scales: Tensor) -> Tensor:
    """Of distances ``(N, k)`` to centres and those centres' scales: ``(N, 3)``."""
    close = distances.amin(1).log()
    far = distances.mean(1).log()
    return torch.stack([close, far, far - 0.5 * scales.mean(1)], 1)


@dataclass(frozen=True)
class NeighbourRule:
    """A :class:`NeighbourEnergy` of training rows.

    Arguments:
        centres: Rows that are kept, at most; of very many columns, or rows, fewer.
        neighbours: Of those, how many nearest count.
    """

    centres: int = 5000
    neighbours: int = 5

    def __post_init__(self) -> None:
        at_least(2, centres=self.centres)
        at_least(1, neighbours=self.neighbours)

    def build(self, points: Tensor, seed: int) -> NeighbourEnergy:
        if points.dim() != 2 or not points.numel():
            raise ValueError(f"points {tuple(points.shape)} must be rows of a table")
        if len(points) == 1:
            points = points.expand(2, -1)  # a row has to have neighbours
        order = torch.randperm(len(points), generator=generator(seed, "centres"))
        points = points[order[:UNITS_FROM]].double()
        most = min(self.centres, max(2, MOST_IN_VIEW // points.shape[1]))
        if len(order) > MANY_ROWS:
            most = min(most, CENTRES_OF_MANY)
        points = filled_table(points, most)
        return NeighbourEnergy([self._view(u, points[:most]) for u in units_of(points)])

    def _view(self, units: nn.Module, rows: Tensor) -> View:
        centres = _single(units(rows))
        k = min(self.neighbours, len(centres) - 1)
        distances, which = Nearest(centres).among_themselves(k)
        scale = log_scales(distances)
        tails = tail_curves(_readings(distances, scale[which]))
        return View(units, centres, scale, tails, self.neighbours)
