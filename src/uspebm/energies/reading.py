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

    def __post_init__(self) -> None:
        for name in ("middle", "around"):
            if getattr(self, name) is not None:
                at_least(1, **{name: getattr(self, name)})
        number: object = self.locality  # of a file, it may be anything
        if not isinstance(number, int | float) or isinstance(number, bool) or not 0 <= number <= 1:
            raise ValueError(f"locality={number} must be a number between 0 and 1")


PLAIN = Reading()
"""Of pixels, in which the middle of several images is no image."""
OF_NETWORKS = Reading(middle=10, around=40, locality=0.4)
"""Chosen on kinds left out, changed images, and one class inside at a time (LOG.md)."""
