"""What went wrong in a training, and when: from the rows of its log to moments with advice.

A fault has to last for a while to be told from chance.
"""

import math
import statistics
from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

from ..training.health import FLAT, PATIENCE, SILENT_FAULTS, Fault, Numbers

LogRow = dict[str, Any]
"""A line of a run's log."""
HOT = 1.5
"""How far the sampling temperature may be from one, as a factor."""
FAR_APART = 1e3
"""Between the mean energies of data and nodes: where training is at rest, it is about zero."""
GROWN = 100.0
"""Times what a gradient's norm was in the median before it, for as long as a fault lasts."""


class Moment(NamedTuple):
    """A stretch of updates in which something was wrong."""

    name: str
    first: int
    last: int
    what: str
    advice: str
    curve: str
    """Of the log's numbers, the one that shows it."""

    @property
    def when(self) -> str:
        """In words."""
        if self.first == self.last:
            return f"after update {self.last:,}"
        return f"updates {self.first:,} to {self.last:,}"


RUNAWAY_ENERGIES = Fault(
    "Runaway energies",
    lambda row: not (_gap(row) <= FAR_APART and math.isfinite(row["gradient_norm"])),
    lambda part: (
        f"The mean energies of data and nodes were up to {max(map(_gap, part)):.3g} apart; where "
        "training is at rest they are equal."
    ),
    "take a smaller learning rate, set clip_norm, or let the run go back (--on-divergence "
    "rollback)",
    "data_energy",
    patience=1,
)
OTHER_TEMPERATURE = Fault(
    "Sampling temperature far from one",
    lambda row: abs(math.log(row.get("rho", 1.0))) > math.log(HOT),
    lambda part: (
        f"The chains aimed at q to the power of {part[0]['rho']:g}, not at q: what they returned "
        f"is {'sharper' if part[0]['rho'] > 1 else 'blunter'} than the model, so training came to "
        f"rest where q^{part[0]['rho']:g}, and not q, matches the data."
    ),
    "set noise_scale equal to step_size (ρ = 1), or train with PS-USP, which weights its points "
    "instead",
    "rho",
)


def faults_of(rows: Sequence[LogRow]) -> tuple[Fault, ...]:
    """All that is looked for; what gradients usually are, the first half of the log says."""
    half = len(rows) // 2
    # A flat energy has no gradient to compare with, and is a fault of its own.
    norms = [row["gradient_norm"] for row in rows[:half] if row["gradient_norm"] >= FLAT]
    usual = statistics.median(norms) if len(norms) >= PATIENCE else math.inf
    growing = Fault(
        "Growing gradients",
        lambda row: row["gradient_norm"] > GROWN * usual and row["step"] >= rows[half]["step"],
        lambda part: (
            f"The gradient's norm rose to {max(row['gradient_norm'] for row in part):.3g}, from a "
            f"median of {usual:.3g} in the first half: training was on its way to run away."
        ),
        "take a smaller learning rate, or a schedule that cools it",
        "gradient_norm",
    )
    return RUNAWAY_ENERGIES, *SILENT_FAULTS, growing, OTHER_TEMPERATURE


def diagnosed(rows: Sequence[LogRow]) -> list[Moment]:
    """All that went wrong, by when it began."""
    found = [
        Moment(
            fault.name,
            int(part[0]["step"]),
            int(part[-1]["step"]),
            fault.what(part),
            f"{fault.advice[0].upper()}{fault.advice[1:]}.",
            fault.curve,
        )
        for fault in faults_of(rows)
        for part in _lasting(rows, fault)
    ]
    return sorted(found, key=lambda moment: moment.first)


def _lasting(rows: Sequence[LogRow], fault: Fault) -> list[list[LogRow]]:
    """Stretches of rows that are all wrong; the shorter ones are left out, as chance."""
    stretches = [list(part) for wrong, part in groupby(rows, fault.wrong) if wrong]
    return [part for part in stretches if len(part) >= fault.patience]


def _gap(row: Numbers) -> float:
    return abs(float(row["data_energy"]) - float(row["node_energy"]))
