"""Multi-layer perceptrons as energies, by compiled code: see ``mlp_energy.cpp``."""

import ctypes
import math
from pathlib import Path

import torch
from torch import Tensor, nn

from ..energies.networks import MLP, Reconstruction
from ..support.compiled import BuildError, library
from .packing import addresses, check_kind, is_bare, panels, vector_and_panel
from .reals import REALS

MLP_SOURCE = Path(__file__).with_name("mlp_energy.cpp")
MOST_INPUTS = 64
"""Of a point: the first layer is not made for many."""


class NativeMLP:
    """An :class:`~uspebm.MLP` or :class:`~uspebm.Reconstruction` with a fast gradient at points.

    Energies with a graph are the module's own, by torch; what ``value_and_gradient`` gives is of
    the weights that it has now. Raises :class:`~uspebm.native.BuildError` where it cannot be
    compiled.
    """

    def __init__(self, module: nn.Module) -> None:
        if not isinstance(module, MLP | Reconstruction) or not self.can_run(module):
            raise BuildError(f"there is no compiled code for {type(module).__name__} as it is")
        first, *between, last = (m for m in module.net if isinstance(m, nn.Linear))
        self._module = module
        self._dtype = first.weight.dtype
        name, self._real = REALS[self._dtype]
        vector, panel = vector_and_panel(self._dtype, [first.out_features])
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
        self._pointers = addresses(self._weights)

    @staticmethod
    def can_run(module: nn.Module) -> bool:
        """Whether ``module`` is a network that the compiled code is made for."""
        # Exactly: a subclass or a changed layer would be another energy.
        if type(module) not in (MLP, Reconstruction):
            return False
        assert isinstance(module, MLP | Reconstruction)
        layers, inputs = list(module.net), math.prod(module.event_shape)
        inner = len(layers) // 2 - 1
        if [type(m) for m in layers] != [*[nn.Linear, nn.LeakyReLU] * (inner + 1), nn.Linear]:
            return False
        linear = [m for m in layers if isinstance(m, nn.Linear)]
        slopes = {m.negative_slope for m in layers if isinstance(m, nn.LeakyReLU)}
        width, outputs = linear[0].out_features, 1 if isinstance(module, MLP) else inputs
        sizes = [(inputs, width), *[(width, width)] * inner, (width, outputs)]
        return (
            inner >= 0
            and [(m.in_features, m.out_features) for m in linear] == sizes
            and all(m.bias is not None for m in linear)
            and len(slopes) == 1
            and min(slopes) >= 0  # the sign of what it gives tells what it was given
            and width % 16 == 0
            and inputs <= MOST_INPUTS
            and is_bare(module)
        )

    def __call__(self, x: Tensor) -> Tensor:
        """Energies ``(N,)``, by torch: with a graph to the module's parameters."""
        energy: Tensor = self._module(x)
        return energy

    def value_and_gradient(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Energies ``(N,)`` and their gradients, shaped like ``x``."""
        check_kind(type(self._module).__name__, x, self._module.event_shape, self._dtype)
        x = x.detach().contiguous()
        energy, gradient = x.new_empty(len(x)), torch.empty_like(x)
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
