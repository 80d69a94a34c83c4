"""The paper's convolutional energy by compiled code: see ``conv_energy.cpp``."""

import ctypes
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ..energies.networks import Conv
from ..support.compiled import BuildError, library
from .packing import addresses, check_kind, is_bare, panels, vector_and_panel
from .reals import REALS

CONV_SOURCE = Path(__file__).with_name("conv_energy.cpp")
LAYERS = [
    *[nn.Conv2d, nn.LeakyReLU, nn.AvgPool2d] * 3,
    *[nn.Flatten, nn.Linear, nn.LeakyReLU, nn.Linear],
]
# Winograd's transform of a 3-tap filter (Lavin & Gray, 2016); its square is that of a 3×3 one.
G = ((1.0, 0.0, 0.0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0.0, 0.0, 1.0))


class NativeConv:
    """A :class:`~uspebm.Conv` with its weights as they are now: an energy with a fast gradient.

    Raises :class:`~uspebm.native.BuildError` where it cannot be compiled.
    """

    def __init__(self, module: nn.Module) -> None:
        if not isinstance(module, Conv) or not self.can_run(module):
            raise BuildError(f"there is no compiled code for {type(module).__name__} as it is")
        first, second, third = (m for m in module.net if isinstance(m, nn.Conv2d))
        hidden, last = (m for m in module.net if isinstance(m, nn.Linear))
        (leak,) = {m.negative_slope for m in module.net if isinstance(m, nn.LeakyReLU)}
        self._module = module
        self._event_shape = module.event_shape
        self._dtype = first.weight.dtype
        name, self._real = REALS[self._dtype]
        channels, height, width = module.event_shape
        vector, panel = vector_and_panel(self._dtype, _units(module))
        self._library = library(
            CONV_SOURCE,
            REAL=name,
            CHANNELS=channels,
            HEIGHT=height,
            WIDTH=width,
            F1=first.out_channels,
            F2=second.out_channels,
            F3=third.out_channels,
            HIDDEN=hidden.out_features,
            VECTOR=vector,
        )
        self._leak = leak
        with torch.no_grad():
            pixels = hidden.in_features // third.out_channels
            # Features are kept channels-last: (channel, pixel) -> (pixel, channel).
            linear = hidden.weight.unflatten(1, (third.out_channels, pixels)).mT.flatten(1)
            packed = [
                first.weight.permute(1, 2, 3, 0),
                _bias(first),
                *_winograd(second.weight, panel),
                _bias(second),
                *_winograd(third.weight, panel),
                _bias(third),
                panels(linear, panel),
                panels(linear.mT, panel),
                hidden.bias,
                last.weight,
                last.bias,
            ]
            # Copies: the module may be trained on while this energy is in use.
            self._weights = [w.clone(memory_format=torch.contiguous_format) for w in packed]
        self._pointers = addresses(self._weights)

    @staticmethod
    def can_run(module: nn.Module) -> bool:
        """Whether ``module`` is a network that the compiled code is made for."""
        # Exactly: a subclass or a changed layer would be another energy.
        if type(module) is not Conv or [type(m) for m in module.net] != LAYERS:
            return False
        slopes = {m.negative_slope for m in module.net if isinstance(m, nn.LeakyReLU)}
        return (
            all(_is_plain(layer) for layer in module.net)
            and all(size % 16 == 0 for size in _units(module))
            and len(slopes) == 1
            and is_bare(module)
        )

    def __call__(self, x: Tensor) -> Tensor:
        """Energies ``(N,)``, with a graph to the module's parameters where autograd is on."""
        energy: Tensor = _Energy.apply(self, x, *self._module.parameters())  # type: ignore[no-untyped-call]
        return energy

    def value_and_gradient(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Energies ``(N,)`` and their gradients, shaped like ``x``."""
        gradient = x.new_empty(x.shape, dtype=self._dtype)
        return self._run(x, gradient), gradient

    def parameter_gradients(self, x: Tensor, coefficient: Tensor) -> list[Tensor]:
        """The gradient of Σ coefficient_n E(x_n) with respect to the module's parameters, in order.

        It is that at the weights which the module had when this energy was made.
        """
        first, second, third = (m for m in self._module.net if isinstance(m, nn.Conv2d))
        hidden, last = (m for m in self._module.net if isinstance(m, nn.Linear))
        x, coefficient = x.detach().contiguous(), coefficient.to(self._dtype).contiguous()
        n, threads = len(x), torch.get_num_threads()
        f1, f2, f3 = first.out_channels, second.out_channels, third.out_channels
        features, activations, deltas, *sums = (
            x.new_zeros(shape)
            for shape in [
                (n, hidden.in_features), (n, hidden.out_features), (n, hidden.out_features),
                (threads, first.in_channels * 9, f1), (threads, f1),
                (threads, 16, f1 * f2), (threads, f2), (threads, 16, f2 * f3), (threads, f3),
            ]
        )  # fmt: skip
        parts = [features, activations, deltas, *sums]
        self._library.conv_weights(
            ctypes.c_void_p(x.data_ptr()),
            ctypes.c_void_p(coefficient.data_ptr()),
            ctypes.c_int(n),
            self._real(self._leak),
            self._pointers,
            addresses(parts),
            ctypes.c_int(threads),
        )
        dw1, db1, du2, db2, du3, db3 = (part.sum(0) for part in sums)
        linear = deltas.mT @ features  # (hidden, pixel · channel)
        return [
            dw1.view(first.in_channels, 3, 3, f1).permute(3, 0, 1, 2),
            db1,
            _filters(du2, second.weight),
            db2,
            _filters(du3, third.weight),
            db3,
            linear.unflatten(1, (-1, f3)).mT.flatten(1),
            deltas.sum(0),
            (coefficient @ activations).unsqueeze(0),
            coefficient.sum().view(last.bias.shape),
        ]

    def _run(self, x: Tensor, gradient: Tensor | None) -> Tensor:
        check_kind("Conv", x, self._event_shape, self._dtype)
        x = x.detach().contiguous()
        energy = x.new_empty(len(x))
        self._library.conv_energy(
            ctypes.c_void_p(x.data_ptr()),
            ctypes.c_void_p(energy.data_ptr()),
            ctypes.c_void_p(None if gradient is None else gradient.data_ptr()),
            ctypes.c_int(len(x)),
            self._real(self._leak),
            self._pointers,
            ctypes.c_int(torch.get_num_threads()),
        )
        return energy


def _units(module: Conv) -> list[int]:
    """Of every layer but the last, how many numbers it gives a pixel, or an image."""
    filters = [m.out_channels for m in module.net if isinstance(m, nn.Conv2d)]
    return [*filters, *[m.out_features for m in module.net if isinstance(m, nn.Linear)][:1]]


def _is_plain(layer: nn.Module) -> bool:
    """Whether convolutions and poolings are of the size, and made the way, that Conv makes them."""
    if isinstance(layer, nn.Conv2d):
        sizes = (layer.kernel_size, layer.stride, layer.padding, layer.dilation, layer.groups)
        plain = sizes == ((3, 3), (1, 1), (1, 1), (1, 1), 1)
        return plain and layer.padding_mode == "zeros" and layer.bias is not None
    if isinstance(layer, nn.AvgPool2d):
        return (layer.kernel_size, layer.stride, layer.padding) == (2, 2, 0) and not layer.ceil_mode
    return True


def _winograd(weight: Tensor, panel: int) -> tuple[Tensor, Tensor]:
    """The 16 transformed filters ``(in, out)``, and their transposes, in panels."""
    g = weight.new_tensor(G)
    out, inputs = weight.shape[:2]
    taps = weight.permute(2, 3, 1, 0).reshape(9, inputs * out)
    transformed = (torch.kron(g, g) @ taps).reshape(16, inputs, out)
    return panels(transformed, panel), panels(transformed.mT, panel)


def _filters(transformed: Tensor, like: Tensor) -> Tensor:
    """From the gradient at the 16 transformed filters to that at the 3×3 ones."""
    g = like.new_tensor(G)
    out, inputs = like.shape[:2]
    return (torch.kron(g, g).mT @ transformed).view(3, 3, inputs, out).permute(3, 2, 0, 1)


def _bias(layer: nn.Conv2d) -> Tensor:
    assert layer.bias is not None  # Conv always has one
    return layer.bias


class _Energy(torch.autograd.Function):
    """Energies that know their gradient with respect to the parameters, and to the points."""

    @staticmethod
    def forward(ctx: Any, native: NativeConv, x: Tensor, *parameters: Tensor) -> Tensor:
        ctx.native = native
        ctx.save_for_backward(x)
        return native._run(x, gradient=None)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, coefficient: Tensor) -> tuple[Tensor | None, ...]:
        (x,) = ctx.saved_tensors
        at_points = None
        if ctx.needs_input_grad[1]:
            _, at_points = ctx.native.value_and_gradient(x)
            at_points *= coefficient.view(-1, *[1] * (x.dim() - 1))
        return None, at_points, *ctx.native.parameter_gradients(x, coefficient)
