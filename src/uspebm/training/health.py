"""Whether a training still teaches anything: what goes wrong in silence, said while it happens.

Three ways to collapse leave every number finite. The weights of the nodes fall on one or two of
them; partition points keep their distance without being pushed, and come to equal the data; the
energy becomes flat. Each is told from chance by lasting for :data:`PATIENCE` updates.
"""

from collections.abc import Iterator

from .state import Record

PATIENCE = 15
"""Updates in a row."""
FEWEST_NODES = 2.0
"""Effective nodes below which a gradient is that of one or two points."""
FEWEST_VIOLATING = 0.025
"""Share of the points up to which repulsion has no work: in most data a few are nearly alike."""
FLAT = 1e-7
"""Norm of the parameters' gradient below which nothing is learned."""
ADVICE = {
    "nodes": (
        "the weights have collapsed to {value:.1f} effective nodes: the gradient is that of one or "
        "two points; take more nodes, a smaller learning rate, or points nearer to the model"
    ),
    "crowding": (
        "next to no point violates the spacing ({value:.1%}): repulsion has no work, and points "
        "teach nothing of what lies around the data; take a larger spacing, more particles, or "
        "CrowdedUSP, whose spacing adapts"
    ),
    "flat": (
        "the gradient's norm is {value:.1g}: the energy is flat and nothing is learned; take a "
        "larger learning rate, or look at the scale of the data"
    ),
}


class Health:
    """Looks at every record, and says each thing once."""

    def __init__(self) -> None:
        self._lasted = dict.fromkeys(ADVICE, 0)

    def look(self, record: Record) -> Iterator[str]:
        """What is wrong by now, for the first time."""
        violating = getattr(record.info, "violating", 1.0)
        found = {
            "nodes": (record.nodes > 4 and record.ess < FEWEST_NODES, record.ess),
            "crowding": (violating <= FEWEST_VIOLATING, violating),
            "flat": (record.gradient_norm < FLAT, record.gradient_norm),
        }
        for name, (wrong, value) in found.items():
            self._lasted[name] = self._lasted[name] + 1 if wrong else 0
            if self._lasted[name] == PATIENCE:
                yield f"update {record.step}: {ADVICE[name].format(value=value)}"
