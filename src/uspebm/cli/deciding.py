"""What ``uspebm score`` calls an outlier: by a rate of alarms, or of discoveries, or by weights.

Imports what is heavy: for functions that run, not for flags.
"""

import itertools
from abc import ABC, abstractmethod
from argparse import Namespace
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..detector.energy_detector import EnergyDetector
from ..evaluation import calibration as conformal
from ..evaluation.calibration import Reals
from ..support.words import point_word, said_count

ScoredChunk = tuple[NDArray[Any], Reals]
Decided = tuple[NDArray[Any], Reals, Reals, NDArray[np.bool_]]
"""Rows, scores, p-values, and which are outliers."""
RowsAgain = Callable[[], Iterator[NDArray[Any]]]
"""The rows in the same chunks."""


class Decisions(ABC):
    """Of a stream of rows and scores; ``limit`` is the threshold, where there is one for all."""

    limit: float | None = None

    def __init__(self, detector: EnergyDetector, said: str) -> None:
        self.detector = detector
        self.said = said

    def __call__(
        self, scored: Iterator[ScoredChunk], weights: Callable[[int], Reals] | None
    ) -> Iterator[Decided]:
        for rows, scores in scored:
            p = self._p(scores, weights)
            yield rows, scores, p, self._outliers(scores, p)

    def _p(self, scores: Reals, weights: Callable[[int], Reals] | None) -> Reals:
        known = self.detector.calibrated_by()
        if known.weights is None or weights is None:
            return conformal.p_values(known.scores, scores)
        return conformal.weighted_p_values(
            known.scores, known.weights, scores, weights(len(scores))
        )

    @abstractmethod
    def _outliers(self, scores: Reals, p: Reals) -> NDArray[np.bool_]:
        """Which they are, where each row decides for itself."""

    def hint(self, rows: int, outliers: int) -> str:
        """What more there is to say."""
        return ""


class BelowThreshold(Decisions):
    """By one threshold."""

    def __init__(self, detector: EnergyDetector, limit: float) -> None:
        super().__init__(detector, f"score below {limit:.6g}")
        self.limit = self._below = limit

    def _outliers(self, scores: Reals, p: Reals) -> NDArray[np.bool_]:
        return scores < self._below


class ByWeight(Decisions):
    """By p-values of rows with weights."""

    def __init__(self, detector: EnergyDetector, rate: float) -> None:
        super().__init__(detector, f"have weighted p-values of at most {rate:g}")
        self._rate = rate

    def _outliers(self, scores: Reals, p: Reals) -> NDArray[np.bool_]:
        return p <= self._rate


class Discoveries(Decisions):
    """Over all rows together, after all are known; ``again`` gives the rows a second time.

    Without it there are none to give reasons for, and nothing is read twice.
    """

    def __init__(self, detector: EnergyDetector, rate: float, again: RowsAgain | None) -> None:
        super().__init__(detector, f"are discoveries at a rate of {rate:g}")
        self._rate, self._again, self._inliers = rate, again, 1.0

    def __call__(
        self, scored: Iterator[ScoredChunk], weights: Callable[[int], Reals] | None
    ) -> Iterator[Decided]:
        chunks = [(scores, self._p(scores, weights)) for _, scores in scored]
        scores, p = (np.concatenate(parts) for parts in zip(*chunks, strict=True))
        found, begin = self._outliers(scores, p), 0
        none = itertools.repeat(np.empty(0), len(chunks))
        rows = none if self._again is None else self._again()
        for (scores, part), read in zip(chunks, rows, strict=True):
            yield read, scores, part, found[begin : begin + len(scores)]
            begin += len(scores)

    def _outliers(self, scores: Reals, p: Reals) -> NDArray[np.bool_]:
        self._inliers = conformal.null_share(p, len(self.detector.calibration_scores_))
        return conformal.benjamini_hochberg(p, self._rate, self._inliers)

    def hint(self, rows: int, outliers: int) -> str:
        known = self.detector.calibrated_by()
        needed = conformal.fewest_discoveries(len(known.scores), rows, self._rate, self._inliers)
        if outliers or needed == 1 or known.weights is not None:
            return ""
        images = len(self.detector.event_shape_) > 1
        word = point_word(images)
        return (
            f". With {len(known.scores):,} calibration {word}s no p-value is below "
            f"{1 / (len(known.scores) + 1):.2g}: of {said_count(rows, images)}, {needed:,} or more "
            "would have to be as unlikely as that for any to be found; calibrate by more "
            f"{word}s, or score fewer"
        )


def decisions(arguments: Namespace, detector: EnergyDetector, again: RowsAgain) -> Decisions:
    """What the flags ask for; what does not go together is refused."""
    alarm, discovery = arguments.false_alarm_rate, arguments.false_discovery_rate
    if None not in (alarm, discovery):
        raise ValueError("give --false-alarm-rate or --false-discovery-rate, not both")
    weighted = detector.calibration_weights_ is not None
    if weighted and arguments.weight is None:
        raise ValueError(f"{arguments.model} was calibrated by weights: give --weight COLUMN")
    if arguments.weight is not None and not weighted:
        raise ValueError(
            f"--weight {arguments.weight} is for a model that was calibrated by weights (uspebm "
            "calibrate)"
        )
    if arguments.confidence is not None and (weighted or discovery is not None):
        raise ValueError("--confidence is of a rate of false alarms, without weights")
    if discovery is not None:
        return Discoveries(detector, discovery, None if arguments.why is None else again)
    known = detector.calibration_scores_
    rate = detector.usual_rate if alarm is None else alarm
    if weighted:
        return ByWeight(detector, rate)
    if alarm is None and arguments.confidence is None:
        return BelowThreshold(detector, detector.offset_)
    return BelowThreshold(detector, conformal.threshold(known, rate, arguments.confidence))
