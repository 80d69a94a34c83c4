"""Classical detectors, as a user would try them first.

Tables get a ``StandardScaler``; images are flattened and divided by the largest training pixel.
Otherwise they are as they come, none tuned.
"""

import contextlib
import importlib.util
import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike
from sklearn.ensemble import IsolationForest
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KernelDensity, LocalOutlierFactor, NearestNeighbors
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import OneClassSVM

from .anomalies import Points


class Detector(Protocol):
    """What is compared: scikit-learn's convention, a higher score for points like the data."""

    def fit(self, X: Points, /) -> object: ...
    def score_samples(self, X: Points, /) -> ArrayLike: ...


MakeDetector = Callable[[int], Detector]  # for a seed, not yet fitted


def _not_outlying(estimator: Any, x: Points) -> Points:
    return -np.asarray(estimator.decision_function(x), np.float64)  # pyod's is high for outliers


def _one_by_one(estimator: Any, x: Points) -> Points:
    """ECOD counts the points of a call among its data: many anomalies would seem usual. Slow."""
    return np.concatenate([_not_outlying(estimator, point) for point in x[:, None]])


@dataclass
class Classical:
    """An estimator made for the number of training points, and how to score with it."""

    make: Callable[[int], Any]
    score: Callable[[Any, Points], ArrayLike] = lambda e, x: e.score_samples(x)

    def fit(self, X: Points) -> None:
        peak = np.abs(X).max()
        scaler = StandardScaler() if X.ndim == 2 else FunctionTransformer(lambda x: x / peak)
        self.scaler_ = scaler.fit(X.reshape(len(X), -1))
        with warnings.catch_warnings():
            # Of rows that repeat, a mixture's components may be fewer than asked for.
            warnings.simplefilter("ignore", ConvergenceWarning)
            self.estimator_ = self.make(len(X)).fit(self._scaled(X))

    def score_samples(self, X: Points) -> ArrayLike:
        return self.score(self.estimator_, self._scaled(X))

    def _scaled(self, X: Points) -> Points:
        return np.asarray(self.scaler_.transform(X.reshape(len(X), -1)), np.float64)


class DeepSVDD:
    """pyod's, as it comes, but silent: it wants to know the number of columns."""

    def __init__(self, kind: Any, seed: int) -> None:
        self._kind, self._seed = kind, seed

    def fit(self, X: Points) -> None:
        self.scaler_ = StandardScaler().fit(X)
        made = self._kind(n_features=X.shape[1], random_state=self._seed, verbose=0)
        with contextlib.redirect_stdout(io.StringIO()):
            self.estimator_ = made.fit(self.scaler_.transform(X))

    def score_samples(self, X: Points) -> Points:
        return _not_outlying(self.estimator_, self.scaler_.transform(X))


def classical_detectors() -> dict[str, MakeDetector]:
    """Detectors that a user would try first; pyod's, slow to import, only where it is installed.

    The Gaussian mixture has ten components, or one for every ten points if these are fewer, and
    ``reg_covar=1e-3``: with scikit-learn's 1e-6, a component can collapse to a few points.
    """
    found: dict[str, MakeDetector] = {
        "isolation forest": lambda seed: Classical(lambda n: IsolationForest(random_state=seed)),
        "one-class SVM": lambda _: Classical(lambda n: OneClassSVM()),
        "LOF": lambda _: Classical(lambda n: LocalOutlierFactor(novelty=True)),
        "KDE": lambda _: Classical(lambda n: KernelDensity(bandwidth="scott")),
        "Gaussian mixture": lambda seed: Classical(
            lambda n: GaussianMixture(max(1, min(10, n // 10)), reg_covar=1e-3, random_state=seed)
        ),
    }
    if not missing_detectors():
        ecod, knn = (importlib.import_module(f"pyod.models.{name}") for name in ("ecod", "knn"))
        found["ECOD"] = lambda _: Classical(lambda n: ecod.ECOD(), _one_by_one)
        found["KNN"] = lambda _: Classical(lambda n: knn.KNN(), _not_outlying)
    return found


class NearestMean:
    """Minus the mean distance to the k nearest training points: DTE-NP, or k-NN as many mean it."""

    def __init__(self, k: int = 5) -> None:
        self.k = k

    def fit(self, X: Points) -> "NearestMean":
        self.search_ = NearestNeighbors(n_neighbors=min(self.k, len(X))).fit(X)
        return self

    def score_samples(self, X: Points) -> Points:
        return np.asarray(-self.search_.kneighbors(X)[0].mean(1), np.float64)


def suite_detectors() -> dict[str, MakeDetector]:
    """Those of papers on suites of tables: k-NN with k = 5, and what :func:`classical_detectors`
    has, but ECOD with all points of a set in one call, as these do; and one deep detector.
    """
    found = classical_detectors()
    found["DTE-NP"] = lambda _: Classical(lambda n: NearestMean(5))
    if not missing_detectors():
        ecod, knn, deep = (
            importlib.import_module(f"pyod.models.{name}") for name in ("ecod", "knn", "deep_svdd")
        )
        found["ECOD"] = lambda _: Classical(lambda n: ecod.ECOD(), _not_outlying)
        found["KNN"] = lambda _: Classical(lambda n: knn.KNN(n_neighbors=5), _not_outlying)
        found["DeepSVDD"] = lambda seed: DeepSVDD(deep.DeepSVDD, seed)
    return found


def missing_detectors() -> str:
    """One line on the detectors that are missing, or nothing."""
    found = importlib.util.find_spec("pyod")
    return "" if found else "ECOD and KNN are left out: they need pyod (pip install 'uspebm[pyod]')"
