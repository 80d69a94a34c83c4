"""The training points that a model holds, and which of them are nearest to a point.

Rows are compared in each column's own spread, images by pixels or by all that the networks see, in
one distance, though scores take one for each network. A model of a network alone holds no points,
and one over features holds what the network saw of its images, not the images: of those only the
numbers are known.
"""

from contextlib import suppress
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from ..detector.energy_detector import EnergyDetector
from ..detector.reasons import held_rows
from ..energies.features import FeatureEnergy, Pixels
from ..energies.nearest import Nearest
from .shown import plain_value, shown_image, shown_row


class Witnesses:
    """Of one detector.

    ``kind`` is what can be shown: rows, images, numbers of images, or nothing.
    """

    kind: Literal["rows", "images", "numbers"] | None

    def __init__(self, detector: EnergyDetector) -> None:
        self._detector = detector
        energy, units = detector.scorer_.energy, detector.scorer_.scaling
        self._held: Tensor | None = None
        self.kind = None
        if isinstance(energy, FeatureEnergy):
            self.kind, places = "numbers", energy.centres
            if isinstance(energy.network, Pixels):
                self.kind = "images"
                self._held = units.inverse(places.view(-1, *detector.event_shape_))
        elif len(detector.event_shape_) == 1:
            with suppress(ValueError):  # there are none
                self._held, self.kind = held_rows(detector.scorer_), "rows"
        if self.kind == "rows" and self._held is not None:
            spread = self._held.std(0, correction=0)
            self._spread = torch.where(spread > 0, spread, 1.0)
            places = self._held / self._spread
        if self.kind is not None:
            self._search = Nearest(places.float().contiguous())
            self._count = len(places)

    def middle(self) -> Tensor | None:
        """The held point nearest to the middle of all, as an example; None where none is held."""
        if self._held is None:
            return None
        where = self._places(self._held.mean(0, keepdim=True).to(self._held.dtype))
        return self._held[int(self._search(where, 1)[1][0, 0])]

    @torch.no_grad()
    def nearest(self, points: Tensor, most: int) -> list[list[dict[str, Any]]]:
        """Of each point the nearest, nearest first: its number, its distance, and itself."""
        if self.kind is None:
            return [[] for _ in points]
        distances, which = self._search(self._places(points), min(most, self._count))
        distances, order = distances.sort(1)
        return [
            [
                {"number": number, "distance": plain_value(far), **self._itself(number)}
                for far, number in zip(*found, strict=True)
            ]
            for found in zip(distances.tolist(), which.gather(1, order).tolist(), strict=True)
        ]

    def _places(self, points: Tensor) -> Tensor:
        """Where points are among the centres that are searched."""
        if self.kind == "rows":
            # A gap is no reason to be far away.
            middle = self._held.mean(0) if self._held is not None else 0.0
            return (torch.where(points.isnan(), middle, points) / self._spread).float()
        energy, units = self._detector.scorer_.energy, self._detector.scorer_.scaling
        assert isinstance(energy, FeatureEnergy)
        return energy.places(units(points).float())

    def _itself(self, number: int) -> dict[str, Any]:
        if self._held is None:
            return {}
        if self.kind == "rows":
            return {"row": shown_row(self._detector, self._held[number])}
        pixels = self._held[number].movedim(0, -1).numpy()
        if self._detector.of_bytes_:
            pixels = np.rint((pixels + 1) * 127.5).astype(np.int64)
        return {"image": shown_image(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)}
