"""Reasons beside the scores that ``uspebm score`` writes.

Imports what is heavy: for functions that run, not for flags.
"""

import re
from abc import ABC, abstractmethod
from argparse import Namespace
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.readers import ImageFolder
from ..data.readers.source import Source
from ..detector.energy_detector import EnergyDetector
from ..detector.reasons import Reasons, held_rows
from ..report.listing import image_bytes
from ..support.extras import need
from ..support.files import check_writable
from ..support.plots import new_figure, save_figure
from .output import warn
from .unseen import Unseen
from .user_data import columns_found

WhyCells = dict[str, NDArray[Any]]
LONGEST_NAME = 60
"""Letters of an image's name that its heat map is called by: the last ones."""


class Explaining(ABC):
    """What is written beside the scores of rows, and drawn at the end."""

    @abstractmethod
    def __call__(self, rows: NDArray[Any], scores: NDArray[Any], out: NDArray[Any]) -> WhyCells:
        """Columns for these rows; ``out``: which are outliers."""

    def drawn(self) -> Path | None:
        """After all rows: draws what there is to draw, and says in which folder."""
        return None


class Silence(Explaining):
    """No reasons were asked for."""

    def __call__(self, rows: NDArray[Any], scores: NDArray[Any], out: NDArray[Any]) -> WhyCells:
        return {}


class WhyColumns(Explaining):
    """Of rows called outliers, the columns that make them so."""

    def __init__(self, detector: EnergyDetector, most: int, unseen: Unseen) -> None:
        held_rows(detector.scorer_)  # an error now, if there are none
        self._detector, self._unseen = detector, unseen
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
        unseen = self._unseen(rows, where)
        if len(where):
            with columns_found():
                reasons = self._detector.explain(rows[where])
            assert isinstance(reasons, Reasons)
            for (row, name), said in unseen.items():
                reasons.value[row, reasons.columns.index(name)] = said
            first, each = reasons.first(self._most), np.arange(len(where))
            for k, columns in enumerate(first.T, 1):
                # Beyond the first, what gains nothing is no reason.
                given = each[(reasons.gain[each, columns] > 0) | (k == 1)]
                rows_given, which = where[given], columns[given]
                found[f"why_{k}"][rows_given] = np.array(reasons.columns, dtype=object)[which]
                found[f"value_{k}"][rows_given] = [_text(v) for v in reasons.value[given, which]]
                expected = [_text(v) for v in reasons.expected[given, which]]
                found[f"expected_{k}"][rows_given] = expected
                found[f"gain_{k}"][rows_given] = reasons.gain[given, which]
        return {n: v.astype(str) if v.dtype == object else v for n, v in found.items()}


class WhyMaps(Explaining):
    """Heat maps of the least likely images, in a folder beside the scores.

    They are called by ``names``, those of all images in order.
    """

    def __init__(
        self, detector: EnergyDetector, most: int, out: Path, names: Iterator[str]
    ) -> None:
        need("matplotlib", "drawing heat maps", "plots")
        self._detector, self._most, self._names = detector, most, names
        self._folder = out.with_name(out.name + ".why")
        check_writable(self._folder / "1.png")
        self._least: list[tuple[float, int, str, NDArray[Any]]] = []
        self._seen = 0

    def __call__(self, rows: NDArray[Any], scores: NDArray[Any], out: NDArray[Any]) -> WhyCells:
        names = list(islice(self._names, len(rows)))
        for k in np.argsort(scores, kind="stable")[: self._most]:
            self._least.append((float(scores[k]), self._seen + int(k), names[k], rows[k]))
        self._least = sorted(self._least, key=lambda one: one[:2])[: self._most]
        self._seen += len(rows)
        return {}

    def drawn(self) -> Path | None:
        """Once all images are known; those of a score before are gone."""
        for old in self._folder.glob("[0-9][0-9][0-9]-*.png"):
            old.unlink()
        for rank, (score, _, name, image) in enumerate(self._least, 1):
            heat = np.asarray(self._detector.explain(image[None]))[0]
            figure, (left, right) = new_figure(columns=2, size=2.2)
            left.imshow(_pixels(image), cmap="gray")
            right.imshow(heat, cmap="inferno")
            left.axis("off")
            right.axis("off")
            left.set_title(
                f"{name[-LONGEST_NAME:]}, score {score:.4g}", fontsize=7, parse_math=False
            )
            right.set_title("what painting over gains", fontsize=7)
            plain = "-".join(re.findall(r"\w+", str(Path(name).with_suffix(""))))
            path = self._folder / f"{rank:03d}-{plain[-LONGEST_NAME:]}"
            save_figure(figure, path, formats=("png",))
        return self._folder if self._least else None


def explaining(arguments: Namespace, detector: EnergyDetector, source: Source) -> Explaining:
    """What ``--why`` asks for."""
    if arguments.why is None:
        return Silence()
    if len(detector.event_shape_) == 1:
        return WhyColumns(detector, arguments.why, Unseen(detector, arguments.data, source))
    numbered = (f"image {number}" for number in count(1))
    names = source.names() if isinstance(source, ImageFolder) else numbered
    return WhyMaps(detector, arguments.why, arguments.out, names)


def _pixels(image: NDArray[Any]) -> NDArray[Any]:
    """As matplotlib takes it: grey, or colours that come last; two channels are no colours."""
    pixels = np.moveaxis(image_bytes(image[None])[0], 0, -1)
    return np.asarray(pixels if pixels.shape[-1] in (3, 4) else pixels.mean(-1))


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
