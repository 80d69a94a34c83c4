"""What the negative phases share: checks of settings, and the state of those that keep none."""

import math
from typing import NamedTuple

from torch import Tensor


class Prototype(NamedTuple):
    """State of a phase that remembers nothing: only the kind of points it makes."""

    like: Tensor
    """``(0, *event)``, of the dtype and on the device of the nodes to come."""


def prototype(x: Tensor) -> Prototype:
    """The state that makes points like ``x``."""
    return Prototype(x.new_empty(0, *x.shape[1:]))


def positive(**settings: float) -> None:
    """Every setting is a finite number above zero."""
    for name, value in settings.items():
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name}={value} must be a positive number")


def at_least(bound: int, **settings: int) -> None:
    """Every setting is a whole number not below ``bound``."""
    for name, value in settings.items():
        if value != int(value) or value < bound:
            raise ValueError(f"{name}={value} must be a whole number, at least {bound}")
