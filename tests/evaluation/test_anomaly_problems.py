"""The problems of the comparison: what is held out, and from whom."""

import numpy as np
import pytest

from uspebm.evaluation.anomaly_problems import (
    AnomalyProblem,
    class_held_out,
    standard_problems,
    user_problem,
)


@pytest.fixture(scope="module")
def problems() -> list[AnomalyProblem]:
    return standard_problems(0)


def test_the_standard_problems_are_these(problems: list[AnomalyProblem]) -> None:
    families = [p.family for p in problems]
    held_out = {"breast cancer": 1, "wine": 3, "iris": 3, "digits": 10}
    kinds = ("local", "cluster", "global", "dependency")
    made = {
        f"{name}, {kind}": 1
        for name in ("benign", "diabetes", "moons", "rings", "mixture")
        for kind in kinds
    }
    assert {f: families.count(f) for f in families} == held_out | made
    assert len({p.name for p in problems}) == len(problems)


def test_a_problem_holds_out_three_tenths_and_mixes_nothing(problems: list[AnomalyProblem]) -> None:
    for p in problems:
        assert len({x.shape[1:] for x in (p.train, p.inside, p.outside)}) == 1
        assert len(p.inside) == round(0.3 * (len(p.train) + len(p.inside)))
        seen = [{x.tobytes() for x in part} for part in (p.train, p.inside, p.outside)]
        assert not seen[2] & (seen[0] | seen[1])
        assert len(seen[0] & seen[1]) <= 1  # iris has one flower twice
    sizes = {p.name: (len(p.train), len(p.inside), len(p.outside)) for p in problems}
    assert sizes["breast cancer"] == (250, 107, 212)
    assert sizes["wine without 1"] == (75, 32, 71)
    assert sizes["moons, local"] == (700, 300, 300)
    assert {p.train.shape[1:] for p in problems if p.family == "digits"} == {(8, 8)}


def test_every_row_of_a_table_is_used_once_and_the_seed_decides_where() -> None:
    x = np.random.default_rng(0).normal(size=(101, 3))
    for p in user_problem(x, 0):
        both = np.concatenate([p.train, p.inside])
        assert np.array_equal(np.sort(both, axis=0), np.sort(x, axis=0))
        assert (len(p.inside), len(p.outside)) == (30, 30)
    first, again, other = (user_problem(x, seed)[0] for seed in (0, 0, 1))
    assert np.array_equal(first.inside, again.inside)
    assert np.array_equal(first.outside, again.outside)
    assert not np.array_equal(first.inside, other.inside)


def test_a_users_table_meets_every_kind_it_can() -> None:
    x = np.random.default_rng(0).normal(size=(30, 2))
    kinds = ["data, local", "data, cluster", "data, global", "data, dependency"]
    assert [p.family for p in user_problem(x, 0)] == kinds
    assert [p.family for p in user_problem(x[:, :1], 0)] == kinds[:3]
    with pytest.raises(ValueError, match="needs at least 30 rows; there are 29"):
        user_problem(x[1:], 0)


def test_a_class_is_held_out_whole() -> None:
    x, y = np.arange(10.0).reshape(5, 2), np.array(["a", "b", "a", "c", "b"])
    inside, outside = class_held_out(x, y, "b")
    assert inside.tolist() == x[[0, 2, 3]].tolist()
    assert outside.tolist() == x[[1, 4]].tolist()
    with pytest.raises(ValueError, match=r"class z cannot be held out of \['a', 'b', 'c'\]"):
        class_held_out(x, y, "z")
