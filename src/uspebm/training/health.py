"""Whether a training still teaches anything: what goes wrong in silence, said while it happens.

Three ways to collapse leave every number finite. The weights of the nodes fall on one or two of
them; partition points keep their distance without being pushed, and come to equal the data; the
energy becomes flat. Each is told from chance by lasting for :data:`PATIENCE` updates.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from .state import Record

Numbers = Mapping[str, Any]
"""Of an update, as :meth:`~uspebm.Record.row` names them."""
PATIENCE = 15
"""Updates in a row."""
FEWEST_NODES = 2.0
"""Effective nodes below which a gradient is that of one or two points."""
FEWEST_VIOLATING = 0.025
"""Share of the points up to which repulsion has no work: in most data a few are nearly alike."""
FLAT = 1e-7
"""Norm of the parameters' gradient below which nothing is learned."""


class Fault(NamedTuple):
    """Something that can go wrong in a training."""

    name: str
    wrong: Callable[[Numbers], bool]
    """Whether an update shows it."""
    what: Callable[[Sequence[Numbers]], str]
    """A sentence on a stretch of updates that all show it."""
    advice: str
    curve: str
    """Of the log's numbers, the one that shows it."""
    now: str = ""
    """While it happens, to be filled in by the numbers of the last update."""
    patience: int = PATIENCE
    """Updates in a row from which on it is no chance."""


SILENT_FAULTS = (
    Fault(
        "Collapsed weights",
        lambda row: row["nodes"] > 4 and row["ess"] < FEWEST_NODES,
        lambda part: (
            f"The weights fell on as few as {min(row['ess'] for row in part):.1f} of "
            f"{part[0]['nodes']:,} nodes: the gradient was that of one or two points."
        ),
        "take more nodes, a smaller learning rate, or points nearer to the model",
        "ess",
        "the weights have collapsed to {ess:.1f} effective nodes: the gradient is that of one or "
        "two points",
    ),
    Fault(
        "Flat energies",
        lambda row: row["gradient_norm"] < FLAT,
        lambda part: (
            f"The gradient's norm was {max(row['gradient_norm'] for row in part):.1g} or less: the "
            "energy was flat, and nothing was learned."
        ),
        "take a larger learning rate, or look at the scale of the data",
        "gradient_norm",
        "the gradient's norm is {gradient_norm:.1g}: the energy is flat and nothing is learned",
    ),
    Fault(
        "No crowding",
        lambda row: row.get("violating", 1.0) <= FEWEST_VIOLATING,
        lambda part: (
            f"At most {max(row['violating'] for row in part):.1%} of the points were closer than "
            "the spacing: repulsion had no work, and points teach nothing of what lies around the "
            "data."
        ),
        "take a larger spacing, more particles, or CrowdedUSP, whose spacing adapts",
        "violating",
        "next to no point violates the spacing ({violating:.1%}): repulsion has no work, and "
        "points teach nothing of what lies around the data",
    ),
)


class Health:
    """Looks at every record, and says each thing once."""

    def __init__(self) -> None:
        self._lasted = dict.fromkeys(SILENT_FAULTS, 0)

    def look(self, record: Record) -> Iterator[str]:
        """What is wrong by now, for the first time."""
        row = record.row()
        for fault in SILENT_FAULTS:
            self._lasted[fault] = self._lasted[fault] + 1 if fault.wrong(row) else 0
            if self._lasted[fault] == fault.patience:
                yield f"update {record.step}: {fault.now.format_map(row)}; {fault.advice}"
