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


@pytest.mark.parametrize("kind", ["heavy tail", "one huge value", "many huge values"])
def test_far_values_raise_no_alarms_and_hide_no_drift(kind: str) -> None:
    """At 5 %, over 40 streams; what the spread of all values is large by must not blur the rest."""
    alarms, noticed = np.zeros(40), np.zeros(40)
    for seed in range(40):
        draws = np.random.default_rng(seed)
        values = draws.normal(size=4000)
        values[3000:] += 0.5  # the drift
        if kind == "heavy tail":
            values = np.exp(3 * values)
        elif kind == "one huge value":
            values[seed] = 99999.0 if seed % 2 else 1e9
        else:
            values[draws.random(4000) < 0.1] = 99999.1
        reference = values[:1000]
        held = ((reference - reference.mean()) / reference.std()).astype(np.float32)
        known = held.astype(np.float64) * reference.std() + reference.mean()
        ranks, jumper = UrnRanks(known, draws), SimpleJumper(1)
        alarms[seed] = jumper(ranks(values[1000:3000])[:, None]).max() > math.log10(20)
        noticed[seed] = SimpleJumper(1)(ranks(values[3000:])[:, None]).max() > math.log10(20)
    assert alarms.sum() <= 40 * 0.05 + 3 * math.sqrt(40 * 0.05 * 0.95)
    assert noticed.sum() >= 36


def test_every_value_of_a_reference_is_the_same_as_a_known_one() -> None:
    """Along a chain of near values, too: two lots give each two keys."""
    chain = np.concatenate([np.arange(1000) * 1e-6, np.linspace(0, 1, 1000)])
    order = Order(chain)
    assert (order(chain, 0.75) - order(chain, 0.25) == 0.5).all()
    assert order(np.array([1e-4]), 0.5) > order(np.array([0.0]), 0.5)
