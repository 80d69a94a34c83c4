"""Suites of tables: the split, what is kept, and processes beside each other."""

import json
from pathlib import Path

import numpy as np
import pytest

from uspebm.evaluation.classical import MakeDetector, NearestMean, suite_detectors
from uspebm.evaluation.comparison import critical_difference
from uspebm.evaluation.suite import (
    Suite,
    compare_on_suite,
    kept_beside,
    suite_problem,
    suite_sets,
)


def nearest() -> dict[str, MakeDetector]:
    return {"one": lambda _: NearestMean(1), "five": lambda _: NearestMean(5)}


def nothing() -> dict[str, MakeDetector]:
    raise AssertionError("made again")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    draws = np.random.default_rng(0)
    for name, rows in (("b", 60), ("A", 90)):
        X = draws.normal(size=(rows, 3))
        y = (np.arange(rows) % 6 == 0).astype(int)
        np.savez(tmp_path / f"{name}.npz", X=X + 4 * y[:, None], y=y)
    return tmp_path


def test_half_of_the_normal_rows_is_learned_from(folder: Path) -> None:
    problem = suite_problem(folder / "b.npz", 0)
    assert [len(part) for part in (problem.train, problem.inside, problem.outside)] == [25, 25, 10]
    known = np.load(folder / "b.npz")
    both = np.concatenate([problem.train, problem.inside])
    assert {tuple(row) for row in both} == {tuple(row) for row in known["X"][known["y"] == 0]}
    other = suite_problem(folder / "b.npz", 1)
    assert not np.array_equal(problem.train, other.train)
    few = suite_problem(folder / "b.npz", 0, most_rows=30)
    assert len(few.train) + len(few.inside) + len(few.outside) == 30


@pytest.mark.parametrize("jobs", [1, 2])
def test_results_are_kept_and_not_made_again(folder: Path, tmp_path: Path, jobs: int) -> None:
    kept = tmp_path / "out" / "suite.jsonl"
    suite = Suite(folder, nearest, ["one", "five"], seeds=2)
    found = list(compare_on_suite(suite, kept, jobs))
    assert {(r.problem, r.detector, r.seed) for r in found} == {
        (name, detector, seed) for name in "Ab" for detector in ("one", "five") for seed in (0, 1)
    }
    assert min(r.auroc for r in found) > 0.9
    # The last line is cut off, as a kill may leave it: it alone is made again.
    lines = kept.read_text().splitlines()
    kept.write_text("\n".join(lines[:-1]) + "\n" + lines[-1][:20])
    again = list(compare_on_suite(suite, kept, jobs))
    figures = {(r.problem, r.detector, r.seed): r.auroc for r in found}
    assert {(r.problem, r.detector, r.seed): r.auroc for r in again} == figures
    done = Suite(folder, nothing, ["one", "five"], seeds=2)
    assert len(list(compare_on_suite(done, kept, jobs))) == len(found)


def test_files_that_are_no_sets_are_refused(folder: Path, tmp_path: Path) -> None:
    assert [path.stem for path in suite_sets(folder)] == ["A", "b"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="is no suite"):
        suite_sets(tmp_path / "empty")
    for content, message in (
        ({"X": np.zeros((4, 2))}, "has no y"),
        ({"X": np.zeros((4, 2)), "y": np.arange(4)}, "a 0 or 1 for each"),
        ({"X": np.zeros((4, 2)), "y": np.zeros(4)}, "4 normal rows and 0 anomalies"),
    ):
        np.savez(tmp_path / "odd.npz", **content)
        with pytest.raises(ValueError, match=message):
            suite_problem(tmp_path / "odd.npz", 0)
    whole = (folder / "A.npz").read_bytes()
    for damaged in (whole[:200], b"", whole[:900] + b"?" * 300 + whole[1200:]):
        (tmp_path / "odd.npz").write_bytes(damaged)
        with pytest.raises(ValueError, match=r"odd\.npz cannot be read: "):
            suite_problem(tmp_path / "odd.npz", 0)


def test_other_values_in_a_file_are_another_suite(folder: Path, tmp_path: Path) -> None:
    suite = Suite(folder, nearest, ["one"], 1)
    before = kept_beside(tmp_path, suite, "1")
    assert kept_beside(tmp_path, suite, "1") == before
    X, y = (np.load(folder / "b.npz")[name] for name in ("X", "y"))
    np.savez(folder / "b.npz", X=X + 1, y=y)  # of the same size
    assert kept_beside(tmp_path, suite, "1") != before


def test_there_are_the_detectors_of_papers() -> None:
    wanted = {"KNN", "LOF", "isolation forest", "one-class SVM", "Gaussian mixture", "ECOD"}
    assert wanted | {"DTE-NP", "DeepSVDD"} <= set(suite_detectors())
    X = np.random.default_rng(0).normal(size=(80, 3))
    deep = suite_detectors()["DeepSVDD"](0)
    deep.fit(X)
    assert np.asarray(deep.score_samples(X[:5])).shape == (5,)


def test_critical_differences_are_those_of_the_tables() -> None:
    """Demsar's table: 2.343 for three detectors, 3.164 for ten."""
    assert critical_difference(3, 6) == pytest.approx(2.343 * (12 / 36) ** 0.5, rel=2e-3)
    assert critical_difference(10, 20) == pytest.approx(3.164 * (110 / 120) ** 0.5, rel=2e-3)


def test_a_line_of_another_kind_does_no_harm(folder: Path, tmp_path: Path) -> None:
    kept = tmp_path / "suite.jsonl"
    kept.write_text(json.dumps({"problem": "A"}) + "\n[]\nnot json\n")
    assert len(list(compare_on_suite(Suite(folder, nearest, ["one"], 1), kept))) == 2
