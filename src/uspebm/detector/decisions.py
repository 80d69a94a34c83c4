"""What to do about a score: alarms at a rate, p-values, discoveries, and other calibrations."""

import copy
import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from ..evaluation import calibration as conformal
from ..evaluation.calibration import Reals
from .fitting import KnownScores
from .inputs import InputMixin
from .scorer import calibration_scores

USUAL_RATE = 0.05


class DecisionMixin(InputMixin):
    """Decisions of a detector; what each promises is said in :mod:`uspebm.evaluation.calibration`.

    All of it is about points drawn like the data. Of others nothing is promised, and of scores by
    folds (``folded_``) it was simulated, not proven.
    """

    false_alarm_rate: Any
    offset_: float
    calibration_scores_: Reals
    calibration_weights_: Reals | None
    folded_: bool

    def score_samples(self, X: ArrayLike) -> Reals:
        """Scores: higher for points like the data, minus infinity where the energy is no number.

        Normalised log-densities in the data's own units where log Z is known (``log_z_error_`` says
        how well), otherwise minus the energy.
        """
        check_is_fitted(self)
        return np.asarray(self.scorer_.in_parts(self._points(X, reset=False)).numpy())

    def decision_function(self, X: ArrayLike) -> Reals:
        """Scores above the threshold: negative for outliers."""
        return self.score_samples(X) - self.offset_

    def predict(
        self,
        X: ArrayLike,
        false_alarm_rate: float | None = None,
        *,
        confidence: float | None = None,
        weights: ArrayLike | None = None,
    ) -> NDArray[np.int64]:
        """1 for points like the data, −1 for outliers, at the rate given here or to begin with.

        The rate holds on average over calibration sets; with ``confidence`` it holds for this one
        with that probability, exactly by the Beta law (by folds: simulated). ``weights``: of
        points, where the detector was calibrated by weights.
        """
        rate = (
            self._rate(len(self.calibrated_by().scores))
            if false_alarm_rate is None
            else false_alarm_rate
        )
        if self.calibration_weights_ is not None:
            if confidence is not None:
                raise ValueError("with weights there is no Beta law, and no confidence to state")
            return np.where(self.p_values(X, weights) > rate, 1, -1)
        if weights is not None:
            raise ValueError("weights are for a detector calibrated by weights: see recalibrated")
        scores, offset = self.score_samples(X), self.offset_
        if false_alarm_rate is not None or confidence is not None:
            offset = conformal.threshold(self.calibration_scores_, rate, confidence)
        return np.where(scores >= offset, 1, -1)

    def p_values(self, X: ArrayLike, weights: ArrayLike | None = None) -> Reals:
        """Conformal p-values: of points drawn like the data, at most a share p has p or less.

        ``weights`` of points: needed where the detector was calibrated by weights.
        """
        known, scores = self.calibrated_by().scores, self.score_samples(X)
        if self.calibration_weights_ is None:
            if weights is not None:
                raise ValueError(
                    "weights are for a detector calibrated by weights: see recalibrated"
                )
            return conformal.p_values(known, scores)
        if weights is None:
            raise ValueError("this detector was calibrated by weights: give those of X, too")
        return conformal.weighted_p_values(
            known, self.calibration_weights_, scores, np.asarray(weights, np.float64)
        )

    def discoveries(
        self,
        X: ArrayLike,
        false_discovery_rate: float = 0.1,
        weights: ArrayLike | None = None,
    ) -> NDArray[np.bool_]:
        """Which of ``X`` to call outliers; on average, at most this share of the calls is wrong.

        By Benjamini and Hochberg with Storey's correction. The guarantee is for points that are
        independent of each other; with ``weights`` there is none but the procedure. A warning says
        where there are too few calibration points for any to be found, whatever they are.
        """
        p, known = self.p_values(X, weights), len(self.calibration_scores_)
        share = conformal.null_share(p, known)
        found = conformal.benjamini_hochberg(p, false_discovery_rate, share)
        least = conformal.null_share(np.zeros(len(p)), known)  # if all were outliers
        needed = conformal.fewest_discoveries(known, len(p), false_discovery_rate, least)
        if needed > len(p) and weights is None and not found.any():
            warnings.warn(
                f"false_discovery_rate={false_discovery_rate} finds nothing with {known} "
                f"calibration points, whose p-values are {1 / (known + 1):.2g} or more: calibrate "
                "by more points, or take a higher rate",
                stacklevel=2,
            )
        return found

    def recalibrated(self, X: ArrayLike, weights: ArrayLike | None = None) -> Self:
        """A copy that is calibrated by ``X``: points like the data that it was not trained on.

        ``weights`` are for a known shift of covariates, w(x), how much more often a point like x is
        met now than among ``X``: p-values of new points, with weights of their own, then hold for
        the shifted data.
        """
        x = self._points(X, reset=False)
        w = None if weights is None else np.asarray(weights, np.float64)
        if w is not None and w.shape != (len(x),):
            raise ValueError(f"weights {w.shape} must be one number for each of {len(x)} points")
        other = copy.copy(self)
        other._set_calibration(self._known(x, w))
        return other

    def _known(self, held_out: Tensor, weights: Reals | None = None) -> KnownScores:
        scores = calibration_scores(self.scorer_, held_out).numpy()
        if weights is not None:
            weights = weights[np.argsort(scores, kind="stable")]
        return KnownScores(conformal.loosened(scores), self.event_shape_, weights=weights)

    def _set_calibration(self, known: KnownScores) -> None:
        self.calibration_scores_, self.folded_ = known.scores, known.folded
        self.calibration_weights_ = known.weights
        self.offset_ = known.threshold_at(self._rate(len(known.scores)))

    def calibrated_by(self) -> KnownScores:
        """All that decisions are made from."""
        check_is_fitted(self)
        known, weights = self.calibration_scores_, self.calibration_weights_
        return KnownScores(known, self.event_shape_, self.folded_, weights)

    def refuse_weights(self, what: str) -> None:
        """For users of scores that know of no weights, and would be wrong in silence."""
        if self.calibrated_by().weights is not None:
            raise ValueError(
                f"a detector calibrated by weights has p-values for points with weights, which "
                f"{what} does not take: use the model as it was before"
            )

    @property
    def usual_rate(self) -> float:
        """Of :meth:`predict` where none is given."""
        return self._rate(len(self.calibrated_by().scores))

    def _rate(self, points: int) -> float:
        rate = plain_number(self.false_alarm_rate)
        if rate == "auto":
            return max(USUAL_RATE, 1 / (points + 1))
        if not isinstance(rate, int | float):
            raise ValueError(f'false_alarm_rate={rate!r} must be "auto" or a number')
        return rate


def plain_number(value: Any) -> Any:
    """A number of numpy's, as grids of settings hold, as one of Python's."""
    return value.item() if isinstance(value, np.generic) else value
