"""What of a point's neighbours counts: settings of an energy over features."""

from dataclasses import dataclass

from ..support.checks import at_least


@dataclass(frozen=True)
class Reading:
    """What of a point's neighbours counts, beside its mean distance to them.

    Arguments:
        middle: Of so many nearest, the distance to their middle counts as much. None: not at all.
        around: Of so many nearest, their own distances count. None: of the neighbours.
        locality: The power of these that distances are divided by: 0, a distance; 1, a ratio.
        cap: Own distances beyond this quantile of all count as that: a training point that lies
            alone excuses nothing around it. 1: all count as they are. Applied where a
            :class:`~.features.FeatureRule` measures own distances, and not again.

    >>> import torch
    >>> from uspebm.energies.features import FeatureRule
    >>> square = torch.tensor([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    >>> at = torch.tensor([[0.0, 0.0]])  # far from each, and in their middle
    >>> far, inside = (
    ...     FeatureRule("pixels", neighbours=3, reading=reading).build(square, seed=0)(at)
    ...     for reading in (Reading(), Reading(middle=3))
    ... )
    >>> bool(inside < far)
    True
    """

    middle: int | None = None
    around: int | None = None
    locality: float = 0.5
    cap: float = 1.0

    def __post_init__(self) -> None:
        for name in ("middle", "around"):
            if getattr(self, name) is not None:
                at_least(1, **{name: getattr(self, name)})
        for name in ("locality", "cap"):
            number: object = getattr(self, name)  # of a file, it may be anything
            plain = isinstance(number, int | float) and not isinstance(number, bool)
            if not plain or not 0 <= number <= 1:  # type: ignore[operator]
                raise ValueError(f"{name}={number} must be a number between 0 and 1")


PLAIN = Reading()
"""Of pixels, in which the middle of several images is no image."""
OF_NETWORKS = Reading(middle=10, around=40, locality=0.5, cap=0.9)
"""Chosen on kinds left out, changed images, and one class inside at a time (LOG.md)."""
