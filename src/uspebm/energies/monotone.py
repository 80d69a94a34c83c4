"""Rising curves of straight pieces, one for each of several numbers.

Ranks of values, and tails of distributions, are such curves: learned from data, kept in a few knots
and evaluated by steps that every program for networks knows (no search in a sorted list is among
ONNX's).
"""

import ctypes
from pathlib import Path

import torch
from torch import Tensor, nn

from ..support.compiled import library_if_any
from .shapes import expect_shape

CURVES_SOURCE = Path(__file__).with_name("curves.cpp")
KNOTS = 256
"""Of a curve, at most: a power of two, since they are halved until one is left."""


class PiecewiseLinear(nn.Module):
    """Curves ``(c,)`` of numbers ``(N, c)``, in float64: straight between knots, and beyond them.

    Arguments:
        knots: ``(c, q)``, rising; the last may be repeated, where a curve has fewer.
        values: ``(c, q)``, of the curves at the knots.
        slopes: ``(c, 2)``: below the first knot, and above the last.

    >>> curve = PiecewiseLinear(
    ...     torch.tensor([[0.0, 1.0]]), torch.tensor([[0.0, 4.0]]), torch.tensor([[0.0, 1.0]]))
    >>> curve(torch.tensor([[-1.0], [0.5], [3.0]])).flatten().tolist()
    [0.0, 2.0, 6.0]
    """

    knots: Tensor
    values: Tensor
    slopes: Tensor

    def __init__(self, knots: Tensor, values: Tensor, slopes: Tensor) -> None:
        super().__init__()
        if knots.dim() != 2 or knots.shape != values.shape or not 0 < knots.shape[1] <= KNOTS:
            raise ValueError(
                f"knots {tuple(knots.shape)} and values {tuple(values.shape)} must be alike, "
                f"(curves, 1 to {KNOTS} knots)"
            )
        if slopes.shape != (len(knots), 2):
            raise ValueError(f"slopes {tuple(slopes.shape)} must be ({len(knots)}, 2)")
        if not all(part.isfinite().all() for part in (knots, values, slopes)):
            raise ValueError("knots, values and slopes must be finite")
        self.register_buffer("knots", knots.double())
        self.register_buffer("values", values.double())
        self.register_buffer("slopes", slopes.double())

    def forward(self, x: Tensor) -> Tensor:
        expect_shape(x, (len(self.knots),), "PiecewiseLinear")  # compiled code would read beyond
        width, rise = self.knots.diff(dim=1), self.values.diff(dim=1)
        slopes = torch.where(
            width > 0, rise / torch.where(width > 0, width, 1.0), self.slopes[:, 1:]
        )
        slopes = torch.cat([slopes, self.slopes[:, 1:]], 1)  # from each knot to the next
        ready = not torch.compiler.is_exporting() and not x.requires_grad
        if ready and x.device.type == "cpu" and library_if_any(CURVES_SOURCE) is not None:
            return self._by_compiled_code(x, slopes)
        x = x.double().T.contiguous()  # a curve's numbers side by side
        at = self._last_below(x)
        slope = torch.where(x < self.knots[:, :1], self.slopes[:, :1], slopes.gather(1, at))
        return (self.values.gather(1, at) + slope * (x - self.knots.gather(1, at))).T

    def _by_compiled_code(self, x: Tensor, slopes: Tensor) -> Tensor:
        built = library_if_any(CURVES_SOURCE)
        assert built is not None
        first = self.slopes[:, 0]
        given = (x.double(), self.knots, self.values, slopes, first)
        parts = [part.contiguous() for part in given]
        out = torch.empty_like(parts[0])
        at = [ctypes.c_void_p(part.data_ptr()) for part in (*parts, out)]
        rows, (number, count) = ctypes.c_long(len(x)), map(ctypes.c_long, self.knots.shape)
        threads = torch.get_num_threads()
        built.curves(at[0], rows, number, at[1], at[2], at[3], at[4], count, at[5], threads)
        return out

    def _last_below(self, x: Tensor) -> Tensor:
        """Which knot is the last that is not above x ``(c, N)``; the first where none is."""
        if not torch.compiler.is_exporting():
            return torch.searchsorted(self.knots, x, right=True).sub_(1).clamp_min_(0)
        # By halves, the same for all: ONNX has no search in a sorted list.
        at = torch.zeros_like(x, dtype=torch.int64)
        step = KNOTS // 2
        while step:
            further = (at + step).clamp_max(self.knots.shape[1] - 1)
            at = torch.where(self.knots.gather(1, further) <= x, further, at)
            step //= 2
        return at
