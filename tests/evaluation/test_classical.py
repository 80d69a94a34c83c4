"""The classical detectors: their signs and scales, and which of them there are."""

import sys

import numpy as np
import pytest

from uspebm.evaluation.anomaly_problems import AnomalyProblem, user_problem
from uspebm.evaluation.classical import classical_detectors, missing_detectors
from uspebm.evaluation.comparison import compare_detectors

from .common import easy

SCIKIT_LEARN = ["isolation forest", "one-class SVM", "LOF", "KDE", "Gaussian mixture"]
PYOD = ["ECOD", "KNN"]
needs_pyod = pytest.mark.skipif(bool(missing_detectors()), reason=missing_detectors())
every_detector = pytest.mark.parametrize(
    "name", [*SCIKIT_LEARN, *(pytest.param(name, marks=needs_pyod) for name in PYOD)]
)


@every_detector
@pytest.mark.parametrize("shape", [(6,), (4, 4)], ids=["table", "images"])
def test_every_detector_has_the_sign_right(name: str, shape: tuple[int, ...]) -> None:
    (result,) = compare_detectors(
        lambda seed: [easy(seed, shape)], {name: classical_detectors()[name]}, [0]
    )
    assert result.auroc > 0.95


@every_detector
def test_a_score_does_not_depend_on_the_other_points_of_the_call(name: str) -> None:
    problem = easy(0)
    detector = classical_detectors()[name](0)
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
        detector = classical_detectors()[name](0)
        detector.fit(problem.train * scale)
        scores.append(detector.score_samples(problem.inside * scale))
    assert np.allclose(scores[0], scores[1])


def test_tables_are_centred_and_images_are_not() -> None:
    """A bright pixel's noise counts no less than a dark one's: images keep one scale."""
    chance = np.random.default_rng(0)
    wide = np.array([[1.0, 1.0], [1.0, 100.0]])
    train = wide * chance.uniform(0, 1, (200, 2, 2))
    shifted = train[:50] + np.array([[0.9, 0.0], [0.0, 0.0]])
    table, images = (
        next(compare_detectors(lambda _, p=p: [p], {"KDE": classical_detectors()["KDE"]}, [0]))  # type: ignore[misc]
        for p in (
            AnomalyProblem(
                "table", "", *(x.reshape(-1, 4) for x in (train[50:], train[:50], shifted))
            ),
            AnomalyProblem("images", "", train[50:], train[:50], shifted),
        )
    )
    assert table.auroc > 0.75
    assert images.auroc < 0.55


@every_detector
def test_whole_numbers_and_repeated_rows_warn_of_nothing(name: str) -> None:
    """A user's table of a few answers, most of them given many times, and a constant column."""
    answers = np.random.default_rng(0).integers(2, size=(120, 3)).astype(float)
    answers[:, 2] = 1.0
    problems = user_problem(answers, 0)
    found = list(compare_detectors(lambda _: problems, {name: classical_detectors()[name]}, [0]))
    assert len(found) == 4
    assert all(0 <= r.auroc <= 1 for r in found)


def test_without_pyod_two_rows_are_left_out_and_one_line_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "pyod", None)
    assert list(classical_detectors()) == SCIKIT_LEARN
    assert (
        missing_detectors()
        == "ECOD and KNN are left out: they need pyod (pip install 'uspebm[pyod]')"
    )


@needs_pyod
def test_with_pyod_nothing_is_left_out() -> None:
    assert list(classical_detectors()) == SCIKIT_LEARN + PYOD
