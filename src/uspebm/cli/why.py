"""Reasons beside the scores that ``uspebm score`` writes.

Imports what is heavy: for functions that run, not for flags.
"""

from abc import ABC, abstractmethod
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..detector.energy_detector import EnergyDetector
from ..detector.reasons import Reasons, held_rows
from ..support.extras import need
from ..support.files import check_writable
from ..support.plots import new_figure, save_figure
from .output import warn
from .user_data import columns_found

WhyCells = dict[str, NDArray[Any]]


class Explaining(ABC):
    """What is written beside the scores of rows, and said at the end."""

    @abstractmethod
    def __call__(self, rows: NDArray[Any], scores: NDArray[Any], out: NDArray[Any]) -> WhyCells:
        """Columns for these rows; ``out``: which are outliers."""

    def said(self) -> str:
        """After all rows."""
        return ""


class Silence(Explaining):
    """No reasons were asked for."""

    def __call__(self, rows: NDArray[Any], scores: NDArray[Any], out: NDArray[Any]) -> WhyCells:
        return {}


class WhyColumns(Explaining):
    """Of rows called outliers, the columns that make them so."""

    def __init__(self, detector: EnergyDetector, most: int) -> None:
        held_rows(detector.scorer_)  # an error now, if there are none
        self._detector = detector
        columns = len(detector.columns().used)
        self._most = min(most, columns)
        if most > columns:
            warn(f"--why {most}: the model has {columns} columns, and all of them are given")

    def __call__(self, rows: NDArray[Any], scores: NDArray[Any], out: NDArray[Any]) -> WhyCells:
        found: dict[str, NDArray[Any]] = {}
        for k in range(1, self._most + 1):
            texts = ("why", "value", "expected")
            found |= {f"{name}_{k}": np.full(len(rows), "", dtype=object) for name in texts}
            found[f"gain_{k}"] = np.full(len(rows), np.nan)
        where = np.flatnonzero(out)
        if len(where):
            with columns_found():
                reasons = self._detector.explain(rows[where])
            assert isinstance(reasons, Reasons)
            first, each = reasons.first(self._most), np.arange(len(where))
            for k, which in enumerate(first.T, 1):
                found[f"why_{k}"][where] = np.array(reasons.columns, dtype=object)[which]
                found[f"value_{k}"][where] = [_text(v) for v in reasons.value[each, which]]
                found[f"expected_{k}"][where] = [_text(v) for v in reasons.expected[each, which]]
                found[f"gain_{k}"][where] = reasons.gain[each, which]
        return {n: v.astype(str) if v.dtype == object else v for n, v in found.items()}


class WhyMaps(Explaining):
    """Heat maps of the least likely images, in a folder beside the scores."""

    def __init__(self, detector: EnergyDetector, most: int, out: Path) -> None:
        need("matplotlib", "drawing heat maps", "plots")
        self._detector, self._most = detector, most
        self._folder = out.with_name(out.name + ".why")
        check_writable(self._folder / "1.png")
        self._least: list[tuple[float, int, NDArray[Any]]] = []
        self._seen = 0

    def __call__(self, rows: NDArray[Any], scores: NDArray[Any], out: NDArray[Any]) -> WhyCells:
        for k in np.argsort(scores, kind="stable")[: self._most]:
            self._least.append((float(scores[k]), self._seen + int(k), rows[k]))
        self._least = sorted(self._least, key=lambda one: one[:2])[: self._most]
        self._seen += len(rows)
        return {}

    def said(self) -> str:
        """Draws them, once all images are known; those of a score before are gone."""
        for old in self._folder.glob("[0-9][0-9][0-9]-image-*.png"):
            old.unlink()
        for rank, (score, row, image) in enumerate(self._least, 1):
            heat = np.asarray(self._detector.explain(image[None]))[0]
            figure, (left, right) = new_figure(columns=2, size=2.2)
            for panel, picture, colours in ((left, image, "gray"), (right, heat, "inferno")):
                panel.imshow(picture, cmap=colours)
                panel.axis("off")
            left.set_title(f"image {row + 1}, score {score:.4g}", fontsize=7)
            right.set_title("what painting over gains", fontsize=7)
            save_figure(figure, self._folder / f"{rank:03d}-image-{row + 1}", formats=("png",))
        return f"; why, of the least likely: {self._folder}/" if self._least else ""


def explaining(arguments: Namespace, detector: EnergyDetector) -> Explaining:
    """What ``--why`` asks for."""
    if arguments.why is None:
        return Silence()
    if len(detector.event_shape_) == 1:
        return WhyColumns(detector, arguments.why)
    return WhyMaps(detector, arguments.why, arguments.out)


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
