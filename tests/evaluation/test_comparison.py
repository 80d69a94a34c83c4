"""The comparison: results one by one, families and ranks."""

import io
import json

import numpy as np
import pytest
from rich.console import Console

from uspebm.evaluation.classical import Detector
from uspebm.evaluation.comparison import (
    Judgement,
    by_family,
    compare_detectors,
    comparison_markdown,
    comparison_table,
    judgement_rows,
    mean_ranks,
    summary_lines,
)

from .common import easy


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
    results = list(compare_detectors(lambda seed: [easy(seed)], detectors, [0, 1]))
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

    results = compare_detectors(lambda seed: [easy(seed)], {"a": make, "b": make}, [7, 8])
    assert made == []
    next(results)
    assert made == [7]


def test_scores_that_are_no_numbers_name_their_detector() -> None:
    with pytest.raises(ValueError, match="silent on easy, seed 3: 60 of 60 ID scores are NaN"):
        list(compare_detectors(lambda seed: [easy(seed)], {"silent": lambda _: Silent()}, [3]))


def result(family: str, detector: str, auroc: float, problem: str = "", seed: int = 0) -> Judgement:
    return Judgement(problem or family, family, detector, seed, auroc, auroc / 2, 0.5, 0.25)


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
    auroc, ap = comparison_markdown(HAND_MADE).split("\nAverage precision")
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
    Console(file=page, width=100).print(comparison_table(HAND_MADE))
    shown = [line.split() for line in page.getvalue().replace("│", " ").splitlines()]
    assert ["digits", "70.0", "90.0", "10.0"] in shown
    assert ["mean", "rank", "2.17", "1.83", "2.00"] in shown
    assert [line[0] for line in summary_lines(HAND_MADE)] == ["b", "c", "a"]  # the best first
    assert summary_lines(HAND_MADE)[0] == ("b", "73.33", "36.67", "1.83", "0.5", "0.25")
    back = [Judgement(**row) for row in json.loads(json.dumps(judgement_rows(HAND_MADE)))]
    assert back == HAND_MADE
