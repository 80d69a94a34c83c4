from uspebm.bench.timing import race


def test_a_race_takes_turns() -> None:
    order: list[str] = []
    timings = race({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, repeats=3)
    assert order == ["a", "b"] * 4
    assert all(t.low <= t.median <= t.high for t in timings.values())
