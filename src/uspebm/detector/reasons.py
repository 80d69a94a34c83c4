r"""Why a row has the score it has: what it would gain if a column were as expected.

For a column j of a row x, with :math:`\hat x_j` the mean of the five rows of the data that are most
alike by all *other* columns (for a category, the value that most of them have):

.. math:: \mathrm{gain}_j(x) = s(x_1, \dots, \hat x_j, \dots, x_d) - s(x).

A large gain says that this value, beside the others, makes the row unlikely; gains of all columns
near zero say that no single one does. It is no cause: of two columns that contradict each other,
the one is named that fewer others agree with. Where two columns are wrong together, each may hide
the other.

References:
    Robnik-Šikonja, Kononenko (2008), *Explaining classifications for individual instances* (the
    difference that a value makes).
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import one_hot

from ..data.encoding import EncodedColumn, Encoding
from ..energies.kernel import TiltedEnergy
from ..energies.nearest import Nearest
from ..energies.neighbour import FARTHEST_UNIT, NeighbourEnergy
from .scorer import Scorer

ALIKE_ROWS = 5
"""Whose mean is expected."""
NUMBERS_HELD = 20_000_000
"""In rows with one column as expected, at a time."""
EQUAL = 1.5e-6
"""A distance that stands for none."""


class Reasons(NamedTuple):
    """Of N rows and the user's c columns.

    >>> from uspebm import EnergyDetector
    >>> x = np.random.default_rng(0).normal(size=(300, 1))
    >>> found = EnergyDetector(random_state=0).fit(np.hstack([x, 2 * x, -x]))
    >>> why = found.explain([[1.0, 2.0, 1.0]])  # the third should be −1
    >>> why.first(1), round(why.expected[0, 2])
    (array([[2]]), -1)
    """

    columns: tuple[str, ...]
    gain: NDArray[np.float64]
    """Score that a row would gain if the column were as expected, ``(N, c)``."""
    value: NDArray[np.object_]
    """What is there, ``(N, c)``: a number or text, None for a gap."""
    expected: NDArray[np.object_]
    """What was expected given the rest, ``(N, c)``."""

    def first(self, k: int) -> NDArray[np.int64]:
        """Of each row, the k columns of the largest gain, ``(N, k)``."""
        return np.argsort(-self.gain, axis=1, kind="stable")[:, :k]


def held_rows(scorer: Scorer) -> Tensor:
    """Rows of the data that a model holds, in the user's own units."""
    energy = scorer.energy
    if isinstance(energy, NeighbourEnergy):
        return _noise_is_zero(scorer.scaling.inverse(energy.held_rows()))
    if isinstance(energy, TiltedEnergy):
        return _noise_is_zero(scorer.scaling.inverse(energy.reference.centres))
    raise ValueError(
        f"a model of {type(energy).__name__} holds no rows of the data: there is nothing to tell "
        "what was expected; recipes tables and tables-density have some"
    )


def _noise_is_zero(rows: Tensor) -> Tensor:
    """What is left of a zero that was scaled, kept in single precision and scaled back, is zero."""
    usual = rows.mean(0).abs() + rows.std(0, correction=0)
    return torch.where(rows.abs() <= torch.finfo(torch.float32).eps * usual, 0.0, rows)


def reasons(scorer: Scorer, x: Tensor, columns: Encoding) -> Reasons:
    """Of rows ``x`` ``(N, d)`` of numbers that ``columns`` became."""
    used = columns.parts
    expect = Expectations(held_rows(scorer), used)
    gains, values, expectations = [], [], []
    for part in x.split(max(1, NUMBERS_HELD // (x.shape[1] * len(used)))):
        expected = expect(part, without_gaps(scorer, part))
        gains.append(_gains(scorer, part, expected, [g for _, g in used]))
        pairs = list(zip(used, expected.unbind(1), strict=True))
        values.append(_table([c.decode(part[:, g].numpy()) for (c, g), _ in pairs]))
        expectations.append(_table([c.decode(e[:, g].numpy()) for (c, g), e in pairs]))
    return Reasons(
        tuple(c.name for c, _ in used),
        torch.cat(gains).numpy(),
        np.concatenate(values),
        np.concatenate(expectations),
    )


class Expectations:
    """What the rows of the data that are most alike by other columns have in a column.

    Arguments:
        known: Rows of the data, ``(n, d)``, in the user's units.
        used: Columns, and which of the d numbers are theirs.
    """

    def __init__(self, known: Tensor, used: list[tuple[EncodedColumn, slice]]) -> None:
        self._known, self._used = known, used
        self._mean, spread = known.mean(0), known.std(0, correction=0)
        self._spread = torch.where(spread > 0, spread, 1.0)
        self._z = self._comparable(known)
        self._among_all = Nearest(self._z)

    def __call__(self, x: Tensor, full: Tensor) -> Tensor:
        """For rows and each column the row with what is expected there, ``(N, c, d)``.

        ``full``: the same rows with their gaps filled.
        """
        z, k = self._comparable(full), min(ALIKE_ROWS, len(self._known) - 1)
        apart, itself = self._among_all(z, 1)
        # A row that was learned from tells nothing of what is to be expected of it.
        itself = torch.where(apart <= EQUAL, itself, -1)
        found = x[:, None].repeat(1, len(self._used), 1)
        for number, (column, g) in enumerate(self._used):
            # Made anew and let go: kept for each column, rows would be held as often as columns.
            distances, which = Nearest(_without(self._z, g))(_without(z, g), k + 1)
            distances = torch.where(which == itself, torch.inf, distances)
            alike = which.gather(1, distances.topk(k, largest=False).indices)
            usual = self._known[:, g][alike].mean(1)
            if column.kind == "category":
                usual = one_hot(usual.argmax(1), usual.shape[1]).to(usual.dtype)
            found[:, number, g] = usual
        return found

    def _comparable(self, x: Tensor) -> Tensor:
        z = (x - self._mean) / self._spread
        return z.clamp(-FARTHEST_UNIT, FARTHEST_UNIT).float()


def _without(z: Tensor, g: slice) -> Tensor:
    return torch.cat([z[:, : g.start], z[:, g.stop :], torch.zeros(len(z), 1)], 1)


def without_gaps(scorer: Scorer, x: Tensor) -> Tensor:
    """Rows as the model sees them, in the user's own units."""
    energy = scorer.energy
    if not x.isnan().any() or not isinstance(energy, NeighbourEnergy):
        return x
    return scorer.scaling.inverse(energy.without_gaps(scorer.scaling(x)))


def _gains(scorer: Scorer, x: Tensor, expected: Tensor, groups: list[slice]) -> Tensor:
    now = scorer.in_parts(x)
    then = scorer.in_parts(expected.flatten(0, 1)).view(len(x), -1)
    gain = (then - now[:, None]).nan_to_num(0.0)  # of two that are minus infinity
    missing = torch.stack([x[:, g].isnan().all(1) for g in groups], 1)
    return torch.where(missing, 0.0, gain)


def _table(columns: list[list[float | str | None]]) -> NDArray[np.object_]:
    found = np.empty((len(columns[0]), len(columns)), dtype=object)
    for k, column in enumerate(columns):
        found[:, k] = column
    return found
