"""A detector that finds the first column at fault, and the first row of an image."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from uspebm.detector.reasons import Reasons


def explain(self: Any, X: NDArray[Any]) -> Any:
    """In place of a detector's own, so that what is shown is known."""
    if len(self.event_shape_) == 3:
        heat = np.zeros((len(X), *self.event_shape_[1:]))
        heat[:, 0] = 1.0
        return heat
    gain = np.zeros(X.shape)
    gain[:, 0] = 2.5
    expected = np.full(X.shape, np.float64(0.5), dtype=object)
    return Reasons(tuple(map(str, range(X.shape[1]))), gain, X.astype(object), expected)


EXPLAINING = """
from tests.serve.explaining import explain
from uspebm import EnergyDetector

EnergyDetector.explain = explain
"""
"""For a process of its own."""
