"""A model's numbers as people read and write them: columns, rows, pixels."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..data.encoding import Encoding
from ..detector.energy_detector import EnergyDetector
from ..report.html import plain_numbers


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
    columns = detector.columns()
    if detector.encoding_ is None and names is not None:
        columns = Encoding.of_numbers(names)
    values = [None] * len(columns.used) if usual is None else shown_row(detector, usual)
    return [
        ShownColumn(c.name, c.kind, c.levels, value)
        for (c, _), value in zip(columns.parts, values, strict=True)
    ]


def shown_row(detector: EnergyDetector, numbers: Tensor) -> list[Any]:
    """A row's numbers as values of the user's columns."""
    if detector.encoding_ is None:
        return [plain_value(value) for value in numbers.double().tolist()]
    row = numbers.double().numpy()[None]
    return [_shown(c.kind, *c.decode(row[:, own])) for c, own in detector.encoding_.parts]


def _shown(kind: str, value: float | str | None) -> Any:
    return value > 0.5 if kind == "truth" and isinstance(value, float) else plain_value(value)


def plain_value(value: Any) -> Any:
    """For JSON: numbers with the digits that matter, gaps as null.

    >>> plain_value(np.float64(0.1 + 0.2)), plain_value(np.nan), plain_value("x")
    (0.3, None, 'x')
    """
    if isinstance(value, np.generic):
        value = value.item()
    return plain_numbers(value)


def shown_image(values: NDArray[Any]) -> list[Any]:
    """Pixels as nested lists of numbers."""
    found: list[Any] = np.vectorize(plain_value, otypes=[object])(values).tolist()
    return found
