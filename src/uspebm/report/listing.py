"""Points to be looked at one by one: their scores, what makes them strange, and how they look."""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..data.points import points
from ..detector.energy_detector import EnergyDetector
from ..detector.reasons import Reasons
from ..evaluation.calibration import p_values
from .evidence import FARTHEST_SCORE
from .images import heat_png, png

MOST_LISTED = 12
NAMED_COLUMNS = 3
NOTABLE = 0.2
"""Of the largest gain, what others need to be named beside it."""
ABOUT_EQUAL = 0.1
"""Standard deviations of a column, by which a value may differ from what was expected there."""
USUAL = 1000
"""Rows whose medians tell what is usual, where a model does not."""


class Listed(NamedTuple):
    """One of the rows or images least like the rest."""

    row: int
    """Counted from 1, of those that were read."""
    score: float
    p: float
    why: str
    picture: str = ""
    heat: str = ""
    name: str = ""
    """Of the image's file, where it has one."""


class Extremes:
    """The points with the lowest or the highest scores of all that come by."""

    def __init__(self, end: Literal["lowest", "highest"]) -> None:
        self._sign = 1 if end == "lowest" else -1
        self._seen = 0
        self.rows: NDArray[Any] | None = None
        self.usual: NDArray[Any] | None = None
        self.at = np.empty(0, np.int64)
        self._scores = np.empty(0)

    def add(self, rows: NDArray[Any], scores: NDArray[np.float64]) -> None:
        """Some more of them; the first ones are taken for what is usual."""
        self.usual = rows[:USUAL] if self.usual is None else self.usual
        at = np.arange(self._seen, self._seen + len(rows))
        self._seen += len(rows)
        best = np.argsort(self._sign * scores, kind="stable")[:MOST_LISTED]
        held = rows[best] if self.rows is None else np.concatenate([self.rows, rows[best]])
        scores = np.concatenate([self._scores, scores[best]])
        order = np.argsort(self._sign * scores, kind="stable")[:MOST_LISTED]
        self.at = np.concatenate([self.at, at[best]])[order]
        self.rows, self._scores = held[order], scores[order]


def listed(
    detector: EnergyDetector,
    part: NDArray[Any],
    at: NDArray[np.int64],
    X: NDArray[Any],
    names: Sequence[str] = (),
) -> list[Listed]:
    """Points ``part``, which are the rows ``at`` of their file; ``X``: rows as they usually are.

    ``names``: of the files of all images in order, if they have some.
    """
    scores = np.maximum(scored_again(detector, part), FARTHEST_SCORE)
    p = p_values(detector.calibration_scores_, scores)
    if part.ndim == 2:
        why = _why(detector, X, part)
        return [
            Listed(int(row) + 1, float(score), float(one), text)
            for row, score, one, text in zip(at, scores, p, why, strict=True)
        ]
    shown = image_bytes(part)
    with _quietly():
        heat = np.asarray(detector.explain(part), np.float64)
    return [
        Listed(
            int(row) + 1,
            float(scores[k]),
            float(p[k]),
            "",
            png(shown[k]),
            heat_png(shown[k], heat[k]),
            names[row] if names else "",
        )
        for k, row in enumerate(at)
    ]


def _why(detector: EnergyDetector, X: NDArray[Any], part: NDArray[Any]) -> list[str]:
    """The columns that make each row strange: by the model, or else by their medians."""
    try:
        with _quietly():
            found = detector.explain(part)
    except ValueError:  # the model holds no rows to compare with
        return _far_from_medians(detector, X, part)
    assert isinstance(found, Reasons)
    parts = detector.columns().parts
    exact = [column.kind == "category" for column, _ in parts]
    spread = [float(np.nanstd(X[:, own])) for _, own in parts]
    texts = []
    for k, order in enumerate(found.first(len(parts))):
        notable = found.gain[k] > max(0.0, NOTABLE * found.gain[k].max())
        # A row that was learned from gains by any change, however small: it comes to lie beside
        # its own copy. So only the first reason may be a value about as expected.
        named = [
            c
            for rank, c in enumerate(order)
            if notable[c]
            and (rank == 0 or _differ(found.value[k, c], found.expected[k, c], spread[c]))
        ]
        said = (
            f"{found.columns[c]} is {_said(found.value[k, c])}, expected "
            f"{'' if exact[c] else 'about '}{_said(found.expected[k, c])}"
            for c in named[:NAMED_COLUMNS]
        )
        texts.append("; ".join(said) or "no single column: their combination")
    return texts


def _differ(value: object, expected: object, spread: float) -> bool:
    """Whether a value is another than was expected; of numbers, by more than a little."""
    if isinstance(value, float) and isinstance(expected, float):
        return abs(value - expected) > ABOUT_EQUAL * spread
    return value != expected


def _far_from_medians(detector: EnergyDetector, X: NDArray[Any], part: NDArray[Any]) -> list[str]:
    names = detector.columns().names
    low, middle, high = np.nanquantile(X, (0.25, 0.5, 0.75), axis=0)
    spread = np.where(high > low, high - low, np.nanstd(X, 0) + 1e-300)
    far = np.nan_to_num(np.abs(part - middle) / spread)
    return [
        "; ".join(
            f"{names[c]} is {row[c]:.4g}, the median is {middle[c]:.4g}"
            for c in np.argsort(-one, kind="stable")[:NAMED_COLUMNS]
        )
        for row, one in zip(part, far, strict=True)
    ]


def _said(value: object) -> str:
    if value is None:
        return "missing"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def scored_again(detector: EnergyDetector, X: NDArray[Any]) -> NDArray[np.float64]:
    """Scores of rows that come as arrays, with columns in the model's order."""
    with _quietly():
        return detector.score_samples(X)


@contextmanager
def _quietly() -> Iterator[None]:
    """What there is to say of these rows was said when they were read, fitted to and scored."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def image_bytes(X: NDArray[Any]) -> NDArray[np.uint8]:
    """Images of the user's as bytes, channels first; floats fill the range from black to white."""
    x = points(X).float()
    if X.dtype != np.uint8:
        low, high = x.aminmax()
        x = (x - low) / (high - low).clamp_min(1e-6) * 2 - 1
    return np.asarray(((x.clamp(-1, 1) + 1) * 127.5).round().byte().numpy())
