"""The adapter behaves as PyOD's own detectors do."""

import importlib.util
import sys

import numpy as np
import pytest
from pyod.models.hbos import HBOS
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score

from uspebm.detector import pyod_adapter
from uspebm.detector.energy_detector import EnergyDetector
from uspebm.detector.pyod_adapter import PyODEnergyDetector
from uspebm.support.extras import MissingExtraError

DRAWS = np.random.default_rng(0)
X = DRAWS.normal(size=(300, 2))
NEW = np.concatenate([DRAWS.normal(size=(100, 2)), DRAWS.normal(6, 1, size=(20, 2))])
OUTLIER = np.repeat([0, 1], [100, 20])


def small() -> EnergyDetector:
    return EnergyDetector(random_state=0, max_updates=0)


def test_outliers_score_high() -> None:
    model = PyODEnergyDetector(small()).fit(X)
    assert np.array_equal(model.decision_function(NEW), -small().fit(X).score_samples(NEW))
    assert roc_auc_score(OUTLIER, model.decision_function(NEW)) > 0.99


@pytest.mark.parametrize("contamination", [0.02, 0.1, 0.5])
def test_what_a_detector_of_pyod_has_is_there_and_alike(contamination: float) -> None:
    own = PyODEnergyDetector(small(), contamination=contamination).fit(X)
    theirs = HBOS(contamination=contamination).fit(X)
    assert own.decision_scores_.shape == theirs.decision_scores_.shape
    assert own.labels_.dtype == theirs.labels_.dtype
    # A share of the points themselves, by a quantile: one point more or less.
    assert abs(own.labels_.sum() - contamination * len(X)) <= 1
    assert np.array_equal(own.labels_, own.predict(X))
    assert np.array_equal(own.predict(NEW), own.decision_function(NEW) > own.threshold_)
    assert own.predict(NEW)[OUTLIER == 1].all()


@pytest.mark.parametrize("method", ["linear", "unify"])
def test_probabilities_rise_with_the_scores(method: str) -> None:
    model = PyODEnergyDetector(small()).fit(X)
    probability = model.predict_proba(NEW, method=method)
    assert probability.shape == (120, 2)
    assert np.allclose(probability.sum(1), 1)
    order = np.argsort(model.decision_function(NEW))
    assert (np.diff(probability[order, 1]) >= 0).all()
    labels, confidence = model.predict(NEW, return_confidence=True)
    assert labels.shape == confidence.shape == (120,)
    assert ((confidence >= 0) & (confidence <= 1)).all()


def test_a_fitted_detector_is_used_as_it_is_and_another_one_copied() -> None:
    fitted = small().fit(X)
    assert PyODEnergyDetector(fitted).fit(NEW).detector_ is fitted
    unfitted = small()
    model = PyODEnergyDetector(unfitted).fit(X)
    assert model.detector_ is not unfitted
    assert not hasattr(unfitted, "scorer_")


def test_it_can_be_copied_and_has_settings_of_its_own() -> None:
    model = clone(PyODEnergyDetector(small(), contamination=0.2))
    assert model.contamination == 0.2
    assert model.set_params(detector__max_updates=50).detector.max_updates == 50
    assert PyODEnergyDetector().get_params()["detector"] is None


def test_mistakes_are_refused() -> None:
    with pytest.raises(ValueError, match="contamination must be in"):
        PyODEnergyDetector(contamination=0.7)
    with pytest.raises(NotFittedError):
        PyODEnergyDetector().predict(X)


def test_without_pyod_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyod.models.base", None)
    spec = importlib.util.spec_from_file_location(
        "uspebm.detector.without_pyod", pyod_adapter.__file__
    )
    assert spec is not None
    assert spec.loader is not None
    message = r"PyODEnergyDetector needs pyod, which .*: pip install 'uspebm\[pyod\]'"
    with pytest.raises(MissingExtraError, match=message) as error:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    assert "\n" not in str(error.value)
