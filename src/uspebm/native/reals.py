"""Torch's floating-point types, as C++ and ctypes call them, and the vectors made of them."""

import ctypes

import torch

REALS = {torch.float32: ("float", ctypes.c_float), torch.float64: ("double", ctypes.c_double)}


def vector_bytes() -> int:
    """The length of the processor's vectors, at least 32: the compiler splits shorter ones."""
    return 64 if torch.backends.cpu.get_cpu_capability() == "AVX512" else 32
