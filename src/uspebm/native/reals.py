"""Torch's floating-point types, as C++ and ctypes call them, vectors and panels made of them."""

import ctypes

import torch
from torch import Tensor

REALS = {torch.float32: ("float", ctypes.c_float), torch.float64: ("double", ctypes.c_double)}


def vector_bytes() -> int:
    """The length of the processor's vectors, at least 32: the compiler splits shorter ones."""
    return 64 if torch.backends.cpu.get_cpu_capability() == "AVX512" else 32


def panels(matrix: Tensor, panel: int) -> Tensor:
    """``(..., K, N)`` to ``(..., N / panel, K, panel)``: columns side by side as they are read."""
    packed: Tensor = matrix.unflatten(-1, (-1, panel)).transpose(-2, -3)
    return packed
