"""Torch's floating-point types, as C++ and ctypes call them."""

import ctypes

import torch

REALS = {torch.float32: ("float", ctypes.c_float), torch.float64: ("double", ctypes.c_double)}
