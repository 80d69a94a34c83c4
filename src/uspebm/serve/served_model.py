"""A model as the service sees it: loaded once, asked by many, replaced as a whole."""

import copy
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .. import __version__
from ..data.points import described
from ..detector.energy_detector import EnergyDetector
from ..detector.folder import describe, load
from ..detector.reasons import Reasons
from ..energies.features import FeatureEnergy, Pixels
from ..evaluation import calibration as conformal
from .limits import RefusedRequestError
from .shown import ShownColumn, plain_value, shown_columns, shown_image
from .witnesses import Witnesses

TOGETHER = 512
"""Rows that requests bring to one call of an energy that likes many at once; more would keep others
waiting."""
FEW_TOGETHER = 64
"""Of any other: what a network computes of these fits a processor's cache."""
BARS = 40
TAIL = 0.002
"""Share of the calibration scores, at each end, that the outer bars hold whatever they are."""
SLIDER_RATES = 60
WARNED_RANGE = (
    "the model takes floats scaled to [−1, 1], and these lie between 0 and 1: if they are scaled "
    "to [0, 1], give 2 * X − 1, or bytes"
)


class Judged(NamedTuple):
    """Of points, each ``(N,)``."""

    scores: NDArray[np.float64]
    p_values: NDArray[np.float64]


class ServedModel:
    """A detector with what is said of it.

    Arguments:
        model: A folder, or a name of the package's.
    """

    def __init__(self, model: Path | str) -> None:
        self.about, _ = describe(model)
        detector = load(model)
        detector.refuse_weights("the service")
        names = getattr(detector, "feature_names_in_", None)
        self.names: tuple[str, ...] | None = None
        if detector.encoding_ is not None:
            self.names = detector.encoding_.used
        elif names is not None:
            self.names = tuple(map(str, names))
        # Columns are found by name before rows come here: a detector without names does not warn
        # that they have none.
        self.detector: EnergyDetector = copy.copy(detector)
        if names is not None and detector.encoding_ is None:
            del self.detector.feature_names_in_
        self.columns_and_wish = detector.table_columns()
        self.together = TOGETHER if hasattr(detector.scorer_.energy, "at_once") else FEW_TOGETHER
        self.witnesses = Witnesses(self.detector)
        self.columns_taken = self._columns()
        self.explains = self._explains()
        self.info = self._info()

    @property
    def event_shape(self) -> tuple[int, ...]:
        """Of a point, channels first."""
        return self.detector.event_shape_

    @property
    def of_images(self) -> bool:
        """Whether points are images."""
        return len(self.event_shape) == 3

    def points(self, X: NDArray[Any]) -> Tensor:
        """What the user sent, checked; a refusal where the model does not take it."""
        try:
            return self.detector.as_points(X)
        except ValueError as error:
            raise RefusedRequestError(422, " ".join(str(error).split())) from error

    def doubts(self, X: NDArray[Any]) -> list[str]:
        """What a model of bytes makes of floats may not be what was meant."""
        floats = self.of_images and self.detector.of_bytes_ and X.dtype.kind == "f"
        return [WARNED_RANGE] if floats and X.min() >= 0 and X.max() <= 1 else []

    def judged(self, points: Tensor) -> Judged:
        """Scores and p-values."""
        scores = np.asarray(self.detector.scorer_.in_parts(points).numpy())
        return Judged(scores, conformal.p_values(self.detector.calibration_scores_, scores))

    def threshold(self, rate: float | None) -> float:
        """The score below which points are outliers; a refusal of rates that it cannot keep."""
        if rate is None:
            return self.detector.offset_
        try:
            return conformal.threshold(self.detector.calibration_scores_, rate)
        except ValueError as error:
            raise RefusedRequestError(422, str(error)) from error

    def own_rate(self) -> float:
        """Of its own threshold."""
        return conformal.rate_at(self.detector.calibration_scores_, self.detector.offset_)

    def _columns(self) -> list[ShownColumn]:
        """Of a table, in the order in which rows are to be given."""
        if self.of_images:
            return []
        return shown_columns(self.detector, self.names, self.witnesses.middle())

    def _info(self) -> dict[str, Any]:
        """What a client has to know."""
        columns = [column._asdict() for column in self.columns_taken]
        return {
            "title": str(self.about.get("title")),
            "verdict": self.detector.verdict(),
            "uspebm": __version__,
            "fitted": str(self.about.get("date")),
            "kind": "images" if self.of_images else "table",
            "point": described(self.event_shape if self.of_images else (len(columns),)),
            "shape": list(self.event_shape[1:] + self.event_shape[:1])
            if self.of_images
            else list(self.event_shape),
            "range": self._range(),
            "columns": columns,
            "gaps": bool(getattr(self.detector.scorer_.energy, "fills", False)),
            "explains": self.explains,
            "neighbours": self.witnesses.kind,
            "false_alarm_rate": self.own_rate(),
            "threshold": self.detector.offset_,
            "calibration": self._calibration(),
        }

    def _calibration(self) -> dict[str, Any]:
        scores = self.detector.calibration_scores_
        low, high = np.quantile(scores, [TAIL, 1 - TAIL])
        edges = np.linspace(low, max(high, low + 1e-9 * max(1.0, abs(low))), BARS + 1)
        counts = np.histogram(np.clip(scores, edges[0], edges[-1]), edges)[0]
        least = 1 / (len(scores) + 1)
        rates = np.geomspace(max(least, 1e-4), 0.5, SLIDER_RATES)
        rates = np.unique([*rates, self.own_rate()])
        return {
            "points": len(scores),
            "edges": edges.tolist(),
            "counts": counts.tolist(),
            "rates": rates.tolist(),
            "thresholds": [conformal.threshold(scores, rate) for rate in rates],
        }

    def _range(self) -> list[float] | None:
        """Darkest and brightest, of images; None where nobody knows what floats stand for."""
        energy = self.detector.scorer_.energy
        if not self.of_images or self.detector.of_bytes_:
            return [0.0, 255.0] if self.of_images else None
        if not (isinstance(energy, FeatureEnergy) and isinstance(energy.network, Pixels)):
            return None
        held = self.detector.scorer_.scaling.inverse(energy.centres.view(-1, *self.event_shape))
        return [edge.item() for edge in held.aminmax()]

    def _explains(self) -> bool:
        """Whether it can say why: asked once, of the point that it knows best."""
        middle = self.witnesses.middle()
        if middle is None:
            middle = torch.full(self.event_shape, -1.0)  # zeros would be doubtful floats
        try:
            self.detector.explain(_as_given(middle[None]))
        except ValueError:
            return False
        return True

    def why(self, X: NDArray[Any], most: int) -> list[Any]:
        """Of each row the columns that cost it most; of each image where it is strange."""
        if not self.explains:
            raise RefusedRequestError(422, "this model holds no rows to explain by: leave out why")
        found = self.detector.explain(X)
        if not isinstance(found, Reasons):
            return [shown_image(heat) for heat in np.asarray(found, np.float64)]
        names = self.names or found.columns
        return [
            [
                {
                    "column": names[k],
                    "gain": float(found.gain[row, k]),
                    "value": plain_value(found.value[row, k]),
                    "expected": plain_value(found.expected[row, k]),
                }
                for k in columns
                if found.gain[row, k] > 0
            ]
            for row, columns in enumerate(found.first(most).tolist())
        ]


def _as_given(points: Tensor) -> NDArray[Any]:
    """Points as a user would give them: channels last, where narrow images are not mistaken."""
    return np.asarray((points.movedim(1, -1) if points.dim() == 4 else points).numpy())
