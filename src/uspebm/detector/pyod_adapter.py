"""The detector as one of PyOD's, for its ensembles and benchmarks. Needs pyod; nothing else does.

PyOD has the opposite sign: a higher score is an outlier, and so is a label of 1.
"""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from ..support.extras import need
from .energy_detector import EnergyDetector

BaseDetector: Any = need("pyod.models.base", "PyODEnergyDetector", "pyod").BaseDetector


class PyODEnergyDetector(BaseDetector):  # type: ignore[misc]
    """An :class:`~uspebm.EnergyDetector` that PyOD takes for its own.

    The threshold is PyOD's: so that ``contamination`` of the points given to :meth:`fit` are called
    outliers. Most of them are training points, which score better than new ones; the stated rate
    of false alarms is that of ``detector_.predict``.

    Arguments:
        detector: Fitted, and then used as it is; or not, and then copied and fitted. Left out: one
            with the usual settings.
        contamination: Share of outliers in the data.

    Attributes:
        detector_: The fitted one.
        decision_scores_: Of the points given to :meth:`fit`.
        threshold_: Points that score higher are called outliers.
        labels_: 1 for outliers among the points given to :meth:`fit`, 0 for others.

    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> model = PyODEnergyDetector(EnergyDetector(random_state=0, max_updates=0)).fit(X)
    >>> model.predict(np.array([[0.0, 0.0], [8.0, 8.0]])).tolist()
    [0, 1]
    """

    def __init__(self, detector: EnergyDetector | None = None, contamination: float = 0.1) -> None:
        super().__init__(contamination=contamination)
        self.detector = detector

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from ``X``, or only find the threshold there; ``y`` is ignored."""
        self._set_n_classes(y)
        self.detector_ = self._fitted(X)
        self.decision_scores_ = self.decision_function(X)
        self._process_decision_scores()
        return self

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Minus the detector's scores: higher for outliers."""
        check_is_fitted(self, "detector_")
        return -self.detector_.score_samples(X)

    def _fitted(self, X: Any) -> EnergyDetector:
        detector = EnergyDetector() if self.detector is None else self.detector
        try:
            check_is_fitted(detector)
        except NotFittedError:
            return clone(detector).fit(X)  # type: ignore[no-any-return]
        return detector
