"""Ranks that are exact, bets that nobody can win: their laws, and mutants that break them."""

import math

import numpy as np
import pytest
from scipy.stats import kstest

from uspebm.evaluation.martingale import Order, SimpleJumper, UrnRanks, log10_mean

Values = np.ndarray


def ranked(reference: Values, stream: Values, seed: int) -> Values:
    return UrnRanks(reference, np.random.default_rng(seed))(stream)


@pytest.mark.parametrize("m", [1, 7, 60, 500])
@pytest.mark.parametrize("kind", ["continuous", "tied", "one value"])
def test_p_values_are_uniform_and_independent(m: int, kind: str) -> None:
    """A reference is drawn anew each time: its errors are a part of the law."""
    draws, streams, length = np.random.default_rng(m), 300, 120
    p = np.empty((streams, length))
    for k in range(streams):
        values = draws.normal(size=m + length)
        values = values if kind == "continuous" else np.round(values)
        values = values * (kind != "one value")
        p[k] = ranked(values[:m], values[m:], k)
    assert kstest(p.ravel(), "uniform").pvalue > 1e-4
    for t in (0, 1, length - 1):  # first and last alike
        assert kstest(p[:, t], "uniform").pvalue > 1e-4
    lag = np.corrcoef(p[:, :-1].ravel(), p[:, 1:].ravel())[0, 1]
    assert abs(lag) < 4 / math.sqrt(streams * (length - 1))


def test_ranks_among_the_reference_alone_are_not_independent() -> None:
    """The mutant: what came before does not count. Errors of the reference are found in the end."""
    draws, alarms = np.random.default_rng(0), 0
    for _ in range(60):
        reference = np.sort(draws.normal(size=50))
        stream = draws.normal(size=3000)
        p = (np.searchsorted(reference, stream) + draws.random(3000)) / 51
        alarms += SimpleJumper(1)(p[:, None]).max() > math.log10(20)
    assert alarms > 20


def test_the_stream_may_come_in_any_pieces() -> None:
    draws = np.random.default_rng(0)
    reference, stream = draws.normal(size=80), draws.normal(size=3000)
    whole = ranked(reference, stream, 1)
    pieces = UrnRanks(reference, np.random.default_rng(1))
    parts = [pieces(part) for part in np.split(stream, [1, 1, 40, 2000])]
    # The lots fall otherwise; the cells do not, and none has more than four of 81 places.
    assert np.abs(np.concatenate(parts) - whole).max() < 0.1


def test_capital_is_that_of_the_bets() -> None:
    """Against the recursion in plain numbers, for several streams, in any pieces."""
    p = np.random.default_rng(0).random((200, 3)) ** 1.3
    jumper = SimpleJumper(3)
    found = np.concatenate([jumper(part) for part in np.split(p, [0, 1, 77])])
    for stream in range(3):
        sides = [1 / 3, 1 / 3, 1 / 3]
        for t in range(200):
            total = sum(sides)
            sides = [
                (0.99 * side + 0.01 * total / 3) * (1 + e * (p[t, stream] - 0.5))
                for side, e in zip(sides, (-1, 0, 1), strict=True)
            ]
            assert found[t, stream] == pytest.approx(math.log10(sum(sides)), abs=1e-9)


def test_nothing_is_bet_on_gaps_and_capital_has_no_end() -> None:
    jumper = SimpleJumper(2)
    found = jumper(np.c_[np.full(50, np.nan), np.full(50, 0.0)])
    assert np.allclose(found[:, 0], 0.0)
    for _ in range(40):
        found = jumper(np.zeros((500, 2)))
    assert np.isfinite(found).all()
    assert (found[-1] > 3000).all()


@pytest.mark.parametrize("rate", [0.01, 0.05, 0.2])
def test_capital_is_seldom_won(rate: float) -> None:
    """Ville's inequality, over 3,000 streams of 400 bets at once."""
    p = np.random.default_rng(0).random((400, 3000))
    won = (SimpleJumper(3000)(p).max(0) >= -math.log10(rate)).mean()
    assert won <= rate + 4 * math.sqrt(rate / 3000)
    leaning = SimpleJumper(3000)(p**1.1).max(0) >= -math.log10(rate)
    assert leaning.mean() > 1.2 * won  # p-values that are too small, the mutant


def test_the_mean_of_capitals() -> None:
    logs = np.array([[0.0, 1.0], [500.0, 500.0]])
    assert np.allclose(log10_mean(logs), [math.log10(5.5), 500.0])


def test_equal_but_for_rounding_is_equal() -> None:
    known = np.array([1.0, 1.0, 2.0, 5.0])
    order = Order(known)
    assert order(known + 1e-9, 0.5).tolist() == order(known - 1e-9, 0.5).tolist()
    assert order(np.array([0.9, -np.inf, 9.0]), 0.5).tolist() == [0.0, 0.0, 3.0]
    for bad in (np.empty(0), np.array([np.nan])):
        with pytest.raises(ValueError, match="a reference must be finite numbers"):
            Order(bad)
