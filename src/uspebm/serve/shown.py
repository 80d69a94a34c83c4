"""A model's numbers as people read and write them: columns, rows, pixels."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..data.encoding import DAY, WEEK, EncodedColumn
from ..detector.energy_detector import EnergyDetector
from ..report.html import plain_numbers

WEEKDAYS = ("Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed")
"""From the first day that is counted."""
OTHER = "other"


class ShownColumn(NamedTuple):
    """What may stand in a column, and what stands in it in a usual row."""

    name: str
    kind: str
    levels: tuple[str, ...] = ()
    usual: float | str | bool | None = None


def shown_columns(
    detector: EnergyDetector, names: tuple[str, ...] | None, usual: Tensor | None
) -> list[ShownColumn]:
    """The columns of a table; ``usual`` has a usual row's numbers, if there is one."""
    values: list[Any] | None = None
    if usual is not None:
        values = shown_row(detector, usual)
    if detector.encoding_ is None:
        named = names or tuple(f"column {k + 1}" for k in range(detector.event_shape_[0]))
        columns = [EncodedColumn(name, "number") for name in named]
    else:
        columns = [c for c in detector.encoding_.columns if c.kind != "left out"]
    return [
        ShownColumn(c.name, c.kind, c.levels, None if values is None else values[k])
        for k, c in enumerate(columns)
    ]


def shown_row(detector: EnergyDetector, numbers: Tensor) -> list[Any]:
    """A row's numbers as values of the user's columns."""
    found = numbers.double().tolist()
    if detector.encoding_ is None:
        return [plain_value(value) for value in found]
    values = []
    for column in detector.encoding_.columns:
        own, found = found[: len(column.names)], found[len(column.names) :]
        if column.kind != "left out":
            values.append(_value(column, own))
    return values


def _value(column: EncodedColumn, own: list[float]) -> Any:
    if any(map(math.isnan, own)):
        return None
    if column.kind == "category":
        return (*column.levels, OTHER)[int(np.argmax(own))]
    if column.kind == "truth":
        return own[0] > 0.5
    if column.kind == "date":
        seconds = round(_turns(own[0], own[1]) * DAY / 60) * 60 % DAY
        day = WEEKDAYS[int(_turns(own[2], own[3]) * WEEK // DAY) % 7]
        return f"{day} {seconds // 3600:02}:{seconds % 3600 // 60:02}"
    return plain_value(own[0])


def _turns(sine: float, cosine: float) -> float:
    """The share of a cycle, from 0 to 1."""
    return math.atan2(sine, cosine) / (2 * math.pi) % 1.0


def plain_value(value: Any) -> Any:
    """For JSON: numbers with the digits that matter, gaps as null.

    >>> plain_value(np.float64(0.1 + 0.2)), plain_value(math.nan), plain_value("x")
    (0.3, None, 'x')
    """
    if isinstance(value, np.generic):
        value = value.item()
    return plain_numbers(value)


def shown_image(values: NDArray[Any]) -> list[Any]:
    """Pixels as nested lists of numbers."""
    found: list[Any] = np.vectorize(plain_value, otypes=[object])(values).tolist()
    return found
