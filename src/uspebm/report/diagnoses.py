r"""What went wrong in a training, and when: from the rows of its log to moments with advice.

Each diagnosis is a function from rows to moments. A fault has to last for :data:`PATIENCE` updates
to be told from chance. The names of a row's numbers are those of :class:`~uspebm.Record`.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..training.health import FEWEST_NODES, FEWEST_VIOLATING, FLAT, PATIENCE

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


def collapsed_weights(rows: Sequence[LogRow]) -> list[Moment]:
    """The weights of the nodes fall on one or two of them."""
    found = []
    for part in _lasting(rows, lambda row: row["nodes"] > 4 and row["ess"] < FEWEST_NODES):
        least = min(row["ess"] for row in part)
        found.append(
            _moment(
                "Collapsed weights",
                part,
                f"The weights fell on as few as {least:.1f} of {part[0]['nodes']:,} nodes: the "
                "gradient was that of one or two points.",
                "Take more nodes, a smaller learning rate, or points nearer to the model.",
                "ess",
            )
        )
    return found


def flat_energies(rows: Sequence[LogRow]) -> list[Moment]:
    """The gradient vanishes: nothing is learned."""
    found = []
    for part in _lasting(rows, lambda row: row["gradient_norm"] < FLAT):
        norm = max(row["gradient_norm"] for row in part)
        found.append(
            _moment(
                "Flat energies",
                part,
                f"The gradient's norm was {norm:.1g} or less: the energy was flat, and nothing "
                "was learned.",
                "Take a larger learning rate, or look at the scale of the data.",
                "gradient_norm",
            )
        )
    return found


def no_crowding(rows: Sequence[LogRow]) -> list[Moment]:
    """Partition points keep their distance without being pushed."""
    found = []
    for part in _lasting(rows, lambda row: row.get("violating", 1.0) <= FEWEST_VIOLATING):
        share = max(row["violating"] for row in part)
        found.append(
            _moment(
                "No crowding",
                part,
                f"At most {share:.1%} of the points were closer than the spacing: repulsion had "
                "no work, and points teach nothing of what lies around the data.",
                "Take a larger spacing, more particles, or CrowdedUSP, whose spacing adapts.",
                "violating",
            )
        )
    return found


def other_temperature(rows: Sequence[LogRow]) -> list[Moment]:
    """Chains sample q to a power that is far from one."""
    found = []
    for part in _lasting(rows, lambda row: abs(math.log(row.get("rho", 1.0))) > math.log(HOT)):
        rho = part[0]["rho"]
        kind = "sharper" if rho > 1 else "blunter"
        found.append(
            _moment(
                "Sampling temperature far from one",
                part,
                f"The chains aimed at q to the power of {rho:g}, not at q: what they returned is "
                f"{kind} than the model, so training came to rest where q^{rho:g}, and not q, "
                "matches the data.",
                "Set noise_scale equal to step_size (ρ = 1), or train with PS-USP, which weights "
                "its points instead.",
                "rho",
            )
        )
    return found


def runaway(rows: Sequence[LogRow]) -> list[Moment]:
    """Energies of data and nodes part, or a number is none."""

    def wrong(row: LogRow) -> bool:
        gap = abs(row["data_energy"] - row["node_energy"])
        return not (gap <= FAR_APART and math.isfinite(row["gradient_norm"]))

    found = []
    for part in _lasting(rows, wrong, patience=1):
        gap = max(abs(row["data_energy"] - row["node_energy"]) for row in part)
        found.append(
            _moment(
                "Runaway energies",
                part,
                f"The mean energies of data and nodes were up to {gap:.3g} apart; where training "
                "is at rest they are equal.",
                "Take a smaller learning rate, set clip_norm, or let the run go back "
                "(--on-divergence rollback).",
                "data_energy",
            )
        )
    return found


def exploding_gradients(rows: Sequence[LogRow]) -> list[Moment]:
    """Gradients grow far beyond what they were, and stay there."""
    half = len(rows) // 2
    # A flat energy has no gradient to compare with, and is a fault of its own.
    norms = [row["gradient_norm"] for row in rows[:half] if row["gradient_norm"] >= FLAT]
    if len(norms) < PATIENCE:
        return []
    usual = statistics.median(norms)
    found = []
    for part in _lasting(rows[half:], lambda row: row["gradient_norm"] > GROWN * usual):
        norm = max(row["gradient_norm"] for row in part)
        found.append(
            _moment(
                "Growing gradients",
                part,
                f"The gradient's norm rose to {norm:.3g}, from a median of {usual:.3g} in the "
                "first half: training was on its way to run away.",
                "Take a smaller learning rate, or a schedule that cools it.",
                "gradient_norm",
            )
        )
    return found


DIAGNOSES: tuple[Callable[[Sequence[LogRow]], list[Moment]], ...] = (
    runaway,
    collapsed_weights,
    flat_energies,
    exploding_gradients,
    no_crowding,
    other_temperature,
)


def diagnosed(rows: Sequence[LogRow]) -> list[Moment]:
    """All that went wrong, by when it began."""
    found = [moment for look in DIAGNOSES for moment in look(rows)]
    return sorted(found, key=lambda moment: moment.first)


def _lasting(
    rows: Sequence[LogRow], wrong: Callable[[LogRow], bool], patience: int = PATIENCE
) -> list[list[LogRow]]:
    """Stretches of rows that are all wrong; the shorter ones are left out, as chance."""
    parts: list[list[LogRow]] = [[]]
    for row in rows:
        if wrong(row):
            parts[-1].append(row)
        elif parts[-1]:
            parts.append([])
    return [part for part in parts if part and len(part) >= patience]


def _moment(name: str, part: list[LogRow], what: str, advice: str, curve: str) -> Moment:
    return Moment(name, int(part[0]["step"]), int(part[-1]["step"]), what, advice, curve)
