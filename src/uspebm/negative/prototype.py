"""The state of phases that keep none: only the kind of points they make."""

from typing import NamedTuple

from torch import Tensor


class Prototype(NamedTuple):
    """What the next points are to be like."""

    like: Tensor
    """``(0, *event)``, of the dtype and on the device of the nodes to come."""


def prototype(x: Tensor) -> Prototype:
    """The state that makes points like ``x``."""
    return Prototype(x.new_empty(0, *x.shape[1:]))
