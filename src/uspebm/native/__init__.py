"""Compiled code for the hot loop, built on the machine that runs it."""

from .conv import NativeConv
from .library import BuildError
from .pairs import NativePairs, NativeSearch

__all__ = ["BuildError", "NativeConv", "NativePairs", "NativeSearch"]
