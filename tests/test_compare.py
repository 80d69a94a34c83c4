"""The comparison: its problems, the detectors' signs and scales, families and ranks."""

import io
import json
import sys

import numpy as np
import pytest
from rich.console import Console

from uspebm.compare import (
    Detector,
    Problem,
    Result,
    by_family,
    class_held_out,
    classical,
    compare,
    left_out,
    markdown,
    mean_ranks,
    rows,
    standard_problems,
    table,
    user_problem,
)

SCIKIT_LEARN = ["isolation forest", "one-class SVM", "LOF", "KDE", "Gaussian mixture"]
PYOD = ["ECOD", "KNN"]
needs_pyod = pytest.mark.skipif(bool(left_out()), reason=left_out())
every_detector = pytest.mark.parametrize(
    "name", [*SCIKIT_LEARN, *(pytest.param(name, marks=needs_pyod) for name in PYOD)]
)


def easy(seed: int, shape: tuple[int, ...] = (6,)) -> Problem:
    """Anomalies eight standard deviations off in every coordinate."""
    chance = np.random.default_rng(seed)
    train, inside = (np.abs(chance.normal(20, 1, (n, *shape))) for n in (200, 60))
    return Problem("easy", "easy", train, inside, chance.normal(28, 1, (20, *shape)))


class Nearness:
    def fit(self, X: np.ndarray) -> None:
        self.mean_ = X.mean(0)

    def score_samples(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(-np.square(X - self.mean_).sum(1))


class Constant(Nearness):
    def score_samples(self, X: np.ndarray) -> np.ndarray:
        return np.zeros(len(X))


class Silent(Nearness):
    def score_samples(self, X: np.ndarray) -> np.ndarray:
        return np.full(len(X), np.nan)


def test_a_perfect_detector_is_first_and_a_constant_one_knows_nothing() -> None:
    detectors = {"constant": lambda _: Constant(), "nearness": lambda _: Nearness()}
    results = list(compare(lambda seed: [easy(seed)], detectors, [0, 1]))
    assert [(r.detector, r.seed, r.auroc, r.ap) for r in results] == [
        ("constant", 0, 0.5, 0.25),
        ("nearness", 0, 1.0, 1.0),
        ("constant", 1, 0.5, 0.25),
        ("nearness", 1, 1.0, 1.0),
    ]
    assert all(r.fit_seconds > 0 and r.score_seconds > 0 for r in results)
    assert mean_ranks(results) == {"constant": 2.0, "nearness": 1.0}


def test_results_come_one_by_one() -> None:
    made = []

    def make(seed: int) -> Detector:
        made.append(seed)
        return Nearness()

    results = compare(lambda seed: [easy(seed)], {"a": make, "b": make}, [7, 8])
    assert made == []
    next(results)
    assert made == [7]


def test_scores_that_are_no_numbers_name_their_detector() -> None:
    with pytest.raises(ValueError, match="silent on easy, seed 3: 60 of 60 ID scores are NaN"):
        list(compare(lambda seed: [easy(seed)], {"silent": lambda _: Silent()}, [3]))


@every_detector
@pytest.mark.parametrize("shape", [(6,), (4, 4)], ids=["table", "images"])
def test_every_detector_has_the_sign_right(name: str, shape: tuple[int, ...]) -> None:
    (result,) = compare(lambda seed: [easy(seed, shape)], {name: classical()[name]}, [0])
    assert result.auroc > 0.95


@every_detector
def test_a_score_does_not_depend_on_the_other_points_of_the_call(name: str) -> None:
    problem = easy(0)
    detector = classical()[name](0)
    detector.fit(problem.train)
    together = detector.score_samples(np.concatenate([problem.inside, problem.outside]))
    apart = [detector.score_samples(x) for x in (problem.inside, problem.outside)]
    assert np.allclose(together, np.concatenate(apart))


@every_detector
@pytest.mark.parametrize("shape", [(6,), (4, 4)], ids=["table", "images"])
def test_units_do_not_matter(name: str, shape: tuple[int, ...]) -> None:
    """Columns of a table have a unit each, the pixels of images one in common."""
    unit = np.array([1 / 1024, 1, 1, 64, 1, 1]) if len(shape) == 1 else np.array(256.0)
    problem = easy(0, shape)
    scores = []
    for scale in (np.array(1.0), unit):
        detector = classical()[name](0)
        detector.fit(problem.train * scale)
        scores.append(detector.score_samples(problem.inside * scale))
    assert np.allclose(scores[0], scores[1])


def test_tables_are_centred_and_images_are_not() -> None:
    """A bright pixel's noise counts no less than a dark one's: images keep one scale."""
    chance = np.random.default_rng(0)
    wide = np.array([[1.0, 1.0], [1.0, 100.0]])
    train = wide * chance.uniform(0, 1, (200, 2, 2))
    shifted = train[:50] + np.array([[0.9, 0.0], [0.0, 0.0]])
    table_, images = (
        next(compare(lambda _, p=p: [p], {"KDE": classical()["KDE"]}, [0]))  # type: ignore[misc]
        for p in (
            Problem("table", "", *(x.reshape(-1, 4) for x in (train[50:], train[:50], shifted))),
            Problem("images", "", train[50:], train[:50], shifted),
        )
    )
    assert table_.auroc > 0.75
    assert images.auroc < 0.55


@every_detector
def test_whole_numbers_and_repeated_rows_warn_of_nothing(name: str) -> None:
    """A user's table of a few answers, most of them given many times, and a constant column."""
    answers = np.random.default_rng(0).integers(2, size=(120, 3)).astype(float)
    answers[:, 2] = 1.0
    problems = user_problem(answers, 0)
    found = list(compare(lambda _: problems, {name: classical()[name]}, [0]))
    assert len(found) == 4
    assert all(0 <= r.auroc <= 1 for r in found)


def test_without_pyod_two_rows_are_left_out_and_one_line_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pyod", None)
    assert list(classical()) == SCIKIT_LEARN
    assert left_out() == "ECOD and KNN are left out: they need pyod (pip install 'uspebm[pyod]')"


@needs_pyod
def test_with_pyod_nothing_is_left_out() -> None:
    assert list(classical()) == SCIKIT_LEARN + PYOD


@pytest.fixture(scope="module")
def problems() -> list[Problem]:
    return standard_problems(0)


def test_the_standard_problems_are_these(problems: list[Problem]) -> None:
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


def test_a_problem_holds_out_three_tenths_and_mixes_nothing(problems: list[Problem]) -> None:
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


def result(family: str, detector: str, auroc: float, problem: str = "", seed: int = 0) -> Result:
    return Result(problem or family, family, detector, seed, auroc, auroc / 2, 0.5, 0.25)


HAND_MADE = [
    # Ten rounds would be one row; here two, of which "b" is better on average alone.
    result("digits", "a", 0.9, "digits without 0"),
    result("digits", "b", 0.8, "digits without 0"),
    result("digits", "c", 0.1, "digits without 0"),
    result("digits", "a", 0.5, "digits without 1"),
    result("digits", "b", 1.0, "digits without 1"),
    result("digits", "c", 0.1, "digits without 1"),
    # Equal, though not in every bit: 0.1 + 0.2 is not 0.3.
    result("wine", "a", 0.1 + 0.2),
    result("wine", "b", 0.3),
    result("wine", "c", 0.9),
    result("iris", "a", 1.0),
    result("iris", "b", 1.0),
    result("iris", "c", 1.0),
]


def test_families_are_averaged_and_equals_share_a_rank() -> None:
    means = by_family(HAND_MADE)
    assert list(means) == ["digits", "wine", "iris"]
    assert means["digits"] == pytest.approx({"a": 0.7, "b": 0.9, "c": 0.1})
    assert by_family(HAND_MADE, "ap")["digits"] == pytest.approx({"a": 0.35, "b": 0.45, "c": 0.05})
    # Ranks: digits 2, 1, 3; wine 2.5, 2.5, 1; iris 2, 2, 2.
    assert mean_ranks(HAND_MADE) == pytest.approx({"a": 6.5 / 3, "b": 5.5 / 3, "c": 2.0})


def test_ranks_do_not_depend_on_the_order_of_the_results() -> None:
    assert mean_ranks(HAND_MADE[::-1]) == pytest.approx(mean_ranks(HAND_MADE))


def test_an_unfinished_comparison_is_not_averaged() -> None:
    with pytest.raises(ValueError, match="digits: some detectors have fewer results"):
        by_family(HAND_MADE[:5])


def test_markdown_has_a_row_per_family_and_the_best_in_bold() -> None:
    auroc, ap = markdown(HAND_MADE).split("\nAverage precision")
    assert (
        "| problem | a | b | c |\n|---|---:|---:|---:|\n| digits | 70.0 | **90.0** | 10.0 |"
        in auroc
    )
    assert (
        "| wine | 30.0 | 30.0 | **90.0** |\n| iris | **100.0** | **100.0** | **100.0** |" in auroc
    )
    assert "| mean rank | 2.17 | 1.83 | 2.00 |\n| fit, s in all | 2 | 2 | 2 |" in auroc
    assert "| score, s in all | 1 | 1 | 1 |" in auroc
    assert "| digits | 35.0 | **45.0** | 5.0 |" in ap
    assert "mean rank" not in ap


def test_the_table_says_the_same_and_rows_are_json() -> None:
    page = io.StringIO()
    Console(file=page, width=100).print(table(HAND_MADE))
    shown = [line.split() for line in page.getvalue().replace("│", " ").splitlines()]
    assert ["digits", "70.0", "90.0", "10.0"] in shown
    assert ["mean", "rank", "2.17", "1.83", "2.00"] in shown
    back = [Result(**row) for row in json.loads(json.dumps(rows(HAND_MADE)))]
    assert back == HAND_MADE
