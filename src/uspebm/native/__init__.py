"""Compiled code for the hot loop, built on the machine that runs it.

May know: the energies it stands for, and how files are kept. Knows no phase and no training.
"""

from ..support.compiled import BuildError
from .conv import NativeConv
from .mlp import NativeMLP
from .pairs import Bounded, Candidates, NativePairs, can_search, compare_all, compare_bounded

__all__ = [
    "Bounded",
    "BuildError",
    "Candidates",
    "NativeConv",
    "NativeMLP",
    "NativePairs",
    "can_search",
    "compare_all",
    "compare_bounded",
]
