"""Which network for which points: frozen values that make an energy when they see the data."""

import copy
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor, nn

from ..support.randomness import global_seed
from .networks import MLP, Conv, Reconstruction


class EnergyRule(Protocol):
    """A frozen value of settings."""

    def build(self, points: Tensor, seed: int) -> nn.Module:
        """A new energy for points like ``points``, ``(N, *event)``; the same for the same seed."""
        ...


@dataclass(frozen=True)
class MLPRule:
    """A :class:`~uspebm.MLP`, whatever the shape."""

    width: int = 512
    layers: int = 4
    slope: float = 0.2

    def build(self, points: Tensor, seed: int) -> MLP:
        with global_seed(seed):
            return MLP(tuple(points.shape[1:]), self.width, self.layers, self.slope)


@dataclass(frozen=True)
class ReconstructionRule:
    """A :class:`~uspebm.Reconstruction` energy."""

    width: int = 512
    layers: int = 4
    slope: float = 0.2

    def build(self, points: Tensor, seed: int) -> Reconstruction:
        with global_seed(seed):
            return Reconstruction(tuple(points.shape[1:]), self.width, self.layers, self.slope)


@dataclass(frozen=True)
class ConvRule:
    """A :class:`~uspebm.Conv` for images of sides of at least two to the number of filters."""

    filters: tuple[int, ...] = (32, 64, 128)
    width: int = 128
    slope: float = 0.4

    def build(self, points: Tensor, seed: int) -> Conv:
        with global_seed(seed):
            return Conv(tuple(points.shape[1:]), self.filters, self.width, self.slope)


@dataclass(frozen=True, eq=False)
class GivenEnergy:
    """A module of the user's own, whose weights are where training starts. It is copied."""

    module: nn.Module

    def build(self, points: Tensor, seed: int) -> nn.Module:
        return copy.deepcopy(self.module)
