"""How a network's weights are handed to compiled code, and which networks it can stand for."""

import ctypes
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from .reals import REALS, vector_bytes

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def vector_and_panel(dtype: torch.dtype, widths: Iterable[int]) -> tuple[int, int]:
    """Bytes of a vector, and numbers of a panel, of which every width must have whole ones."""
    for vector in (vector_bytes(), 32):
        panel = 2 * vector // dtype.itemsize
        if not any(width % panel for width in widths):
            break
    return vector, panel


def panels(matrix: Tensor, panel: int) -> Tensor:
    """``(..., K, N)`` to ``(..., N / panel, K, panel)``: columns side by side as they are read."""
    packed: Tensor = matrix.unflatten(-1, (-1, panel)).transpose(-2, -3)
    return packed


def addresses(tensors: Sequence[Tensor]) -> ctypes.Array[ctypes.c_void_p]:
    """Where they lie; whoever holds these must hold the tensors."""
    return (ctypes.c_void_p * len(tensors))(*(one.data_ptr() for one in tensors))


def is_bare(module: nn.Module) -> bool:
    """Whether its numbers are of a known type, in this machine's memory, and nothing hooks in."""
    weight = next(module.parameters())
    hooked = any(getattr(part, name) for part in module.modules() for name in HOOKS)
    return weight.dtype in REALS and weight.device.type == "cpu" and not hooked


def check_kind(name: str, x: Tensor, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """Refuse points that are not of this shape and type: their numbers would be read as others."""
    if (x.shape[1:], x.dtype, x.device.type) != (shape, dtype, "cpu"):
        raise ValueError(
            f"{name} takes points of shape (N, {', '.join(map(str, shape))}) and "
            f"{dtype} on the cpu, got {tuple(x.shape)} and {x.dtype} on {x.device}"
        )
