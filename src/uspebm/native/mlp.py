"""Multi-layer perceptrons as energies, by compiled code: see ``mlp_energy.cpp``."""

import ctypes
import math
from pathlib import Path

import torch
from torch import Tensor, nn

from ..energies.networks import MLP, Reconstruction
from ..support.compiled import BuildError, library
from .reals import REALS, panels, vector_bytes

MLP_SOURCE = Path(__file__).with_name("mlp_energy.cpp")
MOST_INPUTS = 64
"""Of a point: the first layer is not made for many."""


class NativeMLP:
    """An :class:`~uspebm.MLP` or :class:`~uspebm.Reconstruction` with a fast gradient at points.

    Its weights are those it has now; energies with a graph are the module's own. Raises
    :class:`~uspebm.native.BuildError` where it cannot be compiled.
    """

    def __init__(self, module: nn.Module) -> None:
        if not isinstance(module, MLP | Reconstruction) or not self.can_run(module):
            raise BuildError(f"there is no compiled code for {type(module).__name__} as it is")
        first, *between, last = (m for m in module.net if isinstance(m, nn.Linear))
        self._module = module
        self._dtype = first.weight.dtype
        name, self._real = REALS[self._dtype]
        # Products are made in panels of two vectors, of which the width must have whole ones.
        vector = vector_bytes()
        if first.out_features % (2 * vector // self._dtype.itemsize):
            vector = 32
        panel = 2 * vector // self._dtype.itemsize
        self._library = library(MLP_SOURCE, REAL=name, VECTOR=vector)
        sizes = (first.in_features, first.out_features, len(between), last.out_features)
        self._sizes = (ctypes.c_int * 5)(*sizes, isinstance(module, Reconstruction))
        self._leak = next(m.negative_slope for m in module.net if isinstance(m, nn.LeakyReLU))
        with torch.no_grad():
            packed = [first.weight.mT, first.bias]
            for layer in between:
                packed += [panels(layer.weight.mT, panel), layer.bias, panels(layer.weight, panel)]
            packed += [last.weight, last.bias]
            self._weights = [w.clone(memory_format=torch.contiguous_format) for w in packed]
        self._pointers = (ctypes.c_void_p * len(self._weights))(
            *(w.data_ptr() for w in self._weights)
        )

    @staticmethod
    def can_run(module: nn.Module) -> bool:
        """Whether ``module`` is a network that the compiled code is made for."""
        # Exactly: a subclass or a changed layer would be another energy.
        if type(module) not in (MLP, Reconstruction):
            return False
        assert isinstance(module, MLP | Reconstruction)
        linear = [m for m in list(module.net)[::2] if type(m) is nn.Linear and m.bias is not None]
        leaky = [m for m in list(module.net)[1::2] if type(m) is nn.LeakyReLU]
        widths, slopes = {m.out_features for m in linear[:-1]}, {m.negative_slope for m in leaky}
        weight = next(module.parameters())
        return (
            len(linear) + len(leaky) == len(module.net)
            and len(widths) == len(slopes) == 1
            and min(slopes) >= 0  # the sign of what it gives tells what it was given
            and min(widths) % 16 == 0
            and math.prod(module.event_shape) <= MOST_INPUTS
            and not any(m._forward_hooks or m._forward_pre_hooks for m in module.modules())
            and weight.dtype in REALS
            and weight.device.type == "cpu"
        )

    def __call__(self, x: Tensor) -> Tensor:
        """Energies ``(N,)``, by torch: with a graph to the module's parameters."""
        energy: Tensor = self._module(x)
        return energy

    def value_and_gradient(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Energies ``(N,)`` and their gradients, shaped like ``x``."""
        if (x.shape[1:], x.dtype, x.device.type) != (self._module.event_shape, self._dtype, "cpu"):
            raise ValueError(
                f"{type(self._module).__name__} takes points of shape (N, "
                f"{', '.join(map(str, self._module.event_shape))}) and {self._dtype} on the cpu, "
                f"got {tuple(x.shape)} and {x.dtype} on {x.device}"
            )
        x = x.detach().contiguous()
        energy, gradient = torch.empty(len(x), dtype=self._dtype), torch.empty_like(x)
        self._library.mlp_energy(
            ctypes.c_void_p(x.data_ptr()),
            ctypes.c_void_p(energy.data_ptr()),
            ctypes.c_void_p(gradient.data_ptr()),
            ctypes.c_int(len(x)),
            self._sizes,
            self._real(self._leak),
            self._pointers,
            ctypes.c_int(torch.get_num_threads()),
        )
        return energy, gradient
