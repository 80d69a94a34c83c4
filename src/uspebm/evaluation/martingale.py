r"""Whether a stream is still drawn like a reference: exact ranks, and bets against them.

**Ranks.** m reference values, cut at some of their order statistics into cells of
:math:`a_1, \dots, a_B` places, :math:`\sum a_b = m + 1`. If all values are exchangeable and differ,
the next one lies in cell b with probability

.. math:: \frac{a_b + n_b}{m + 1 + t},

with :math:`n_b` of the t values before it in that cell (Pólya's urn: the cells' masses are
Dirichlet). A uniform place within its cell makes a p-value of it; these p-values are independent
and uniform, however many follow, and all that has to be kept are B counts. Equal values get an
order by lot.

**Bets.** Capital :math:`S_t = \prod (1 + \varepsilon_t (p_t - \tfrac12))` with
:math:`\varepsilon \in \{-1, 0, 1\}`, where a share J of the capital changes sides before every bet
(the *simple jumper*): it grows where p-values lean to a side, from whenever on. While the stream is
exchangeable, S is a martingale that begins with one, and by Ville's inequality

.. math:: P(\sup_t S_t \ge 1 / \alpha) \le \alpha.

A mean of such capitals is one, too. What is not guaranteed: that a drift is seen, or when; and of a
reference that is not exchangeable with the stream, anything.

References:
    Vovk, Petej, Nouretdinov, Ahlberg, Carlsson, Gammerman (2021), *Retrain or not retrain:
    conformal test martingales for change-point detection*.
"""

import numpy as np
from numpy.typing import NDArray

from .calibration import Reals

CELLS = 50
"""That a reference is cut into, at most."""
JUMPS = 0.01
"""J."""
LEANINGS = np.array([-1.0, 0.0, 1.0])
CHANGING_SIDES = (1 - JUMPS) * np.eye(3) + JUMPS / 3
BETS_AT_ONCE = 128
"""Bets before capitals are scaled: none halves a capital more than once, or adds more than half."""
SNAP = 1e-5
"""Of a reference's spread: values that are nearer than that are the same but for rounding."""
HELD = 2 * float(np.finfo(np.float32).eps)
"""Of a value's distance from the mean: what models that hold rows in float32 change it by."""
RANKED_AT_ONCE = 1024
"""Values ranked together."""


class Order:
    """The order of values among a reference's, where those that differ by rounding are equal.

    >>> order = Order(np.array([1.0, 2.0]))
    >>> order(np.array([0.0, 1.0 + 1e-9, 1.5, 2.0]), 0.5).tolist()
    [0.0, 0.5, 1.0, 1.5]
    """

    def __init__(self, reference: Reals) -> None:
        values = np.sort(reference)
        if not len(values) or not np.isfinite(values).all():
            raise ValueError("a reference must be finite numbers, one at least")
        self._mean, self._ends = float(values.mean()), values[[0, -1]]
        self._snap = SNAP * _spread(values)
        # Each farther from the last that was kept, not from the one before it: along a chain of
        # near ones the ends differ, and each value must have a known one that it is the same as.
        kept = [float(values[0])]
        for value, near in zip(values.tolist(), self._near(values).tolist(), strict=True):
            if value - kept[-1] > near:
                kept.append(value)
        self._known = np.array(kept)

    def __call__(self, values: Reals, lot: Reals | float) -> Reals:
        """Keys in the order of the values; equal ones are apart by their ``lot`` in (0, 1)."""
        after = np.searchsorted(self._known, values, side="left")
        nearest = np.clip(after, 0, len(self._known) - 1)
        before = np.clip(after - 1, 0, len(self._known) - 1)
        closer = np.abs(values - self._known[before]) < np.abs(values - self._known[nearest])
        nearest = np.where(closer, before, nearest)
        same = np.abs(values - self._known[nearest]) <= self._near(values)
        # Between the lots of two neighbours, k + (0, 1) and k + 1 + (0, 1), lies k + 1.
        return np.where(same, nearest + lot, after.astype(np.float64))

    def _near(self, values: Reals) -> Reals:
        far = np.abs(np.clip(values, *self._ends) - self._mean)
        return np.maximum(self._snap, HELD * far)


def _spread(values: Reals) -> float:
    """By the quartiles, which no single value moves; where these are equal, by all."""
    low, high = np.quantile(values, (0.25, 0.75))
    return float(min(high - low, values.std()) or values.std())


class UrnRanks:
    """p-values of the values of a stream, one after the other, by their rank.

    Arguments:
        reference: ``(m,)``, values that the stream's should be like.
        draws: Decides between equal values, and places within cells.

    >>> ranks = UrnRanks(np.arange(99.0), np.random.default_rng(0))
    >>> bool((ranks(np.full(5, 200.0)) > 0.9).all())
    True
    """

    def __init__(self, reference: Reals, draws: np.random.Generator) -> None:
        self._draws, self._order = draws, Order(reference)
        keys, m = np.sort(self._keys(reference)), len(reference)
        edges = np.linspace(0, m + 1, min(CELLS, m + 1) + 1).round().astype(np.int64)
        self._cuts = keys[edges[1:-1] - 1]
        self._counts = np.diff(edges).astype(np.float64)

    def __call__(self, values: Reals) -> Reals:
        """p-values ``(N,)`` of the next values; small for small ones."""
        parts = [values[k : k + RANKED_AT_ONCE] for k in range(0, len(values), RANKED_AT_ONCE)]
        return np.concatenate([self._ranked(part) for part in parts]) if parts else np.empty(0)

    def _ranked(self, values: Reals) -> Reals:
        cell = np.searchsorted(self._cuts, self._keys(values), side="right")
        each = np.zeros((len(values), len(self._counts)))
        each[np.arange(len(values)), cell] = 1.0
        # Of every value the counts before it.
        counts = self._counts + np.cumsum(each, 0) - each
        upto = np.cumsum(counts, 1)
        row = np.arange(len(values))
        places = upto[row, cell] - counts[row, cell] * self._draws.random(len(values))
        self._counts = self._counts + each.sum(0)
        return np.asarray(places / upto[:, -1], np.float64)

    def _keys(self, values: Reals) -> Reals:
        return self._order(values, self._draws.random(len(values)))


class SimpleJumper:
    """Capitals of several streams of p-values, each begun with one."""

    def __init__(self, streams: int) -> None:
        self._log_scale = np.zeros(streams)
        self._capital = np.full((streams, len(LEANINGS)), 1 / len(LEANINGS))

    def __call__(self, p: Reals) -> Reals:
        """log10 of the capitals ``(N, streams)`` after each of the bets on ``p``, of that shape.

        Where p is NaN nothing is bet.
        """
        found = np.empty(p.shape)
        for begin in range(0, len(p), BETS_AT_ONCE):
            part = slice(begin, begin + BETS_AT_ONCE)
            found[part] = self._after(p[part])
        return found

    def _after(self, p: Reals) -> Reals:
        lean = np.where(np.isnan(p), 0.0, p - 0.5)[:, :, None] * LEANINGS
        capitals, capital = 1.0 + lean, self._capital
        for bets in capitals:  # a bet's factors are replaced by the capital after it
            np.multiply(capital @ CHANGING_SIDES, bets, out=bets)
            capital = bets
        total = capitals.sum(2)
        # Kept near one: a drift that goes on makes numbers that no computer holds.
        self._capital = capital / total[-1][:, None]
        found = self._log_scale + np.log10(total)
        self._log_scale = found[-1]
        return np.asarray(found, np.float64)


def log10_mean(logs: Reals) -> NDArray[np.float64]:
    """log10 of the mean of capitals over the last axis, from their log10."""
    most = logs.max(-1, keepdims=True)
    mean = np.log10(np.power(10.0, logs - most).mean(-1))
    return np.asarray(mean + most[..., 0], np.float64)
