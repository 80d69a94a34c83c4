"""Pairs of points by compiled code, listed or all at once: see ``pairs.cpp``."""

import ctypes
import weakref
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from ..support.compiled import library
from .reals import REALS, vector_bytes

PAIRS_SOURCE = Path(__file__).with_name("pairs.cpp")


class Candidates(NamedTuple):
    """Pairs of moving points and a run of fixed ones that may have to be listed."""

    rows: Tensor
    """Which moving points, ``(m,)``."""
    squared: Tensor
    """Their squared distances to the fixed points ``first``, ``first`` + 1, …, ``(m, k)``."""
    first: int
    absent: Tensor
    """Which of these fixed points are left out, ``(k,)``."""
    limit: float
    """Pairs whose ``squared`` is below this are listed."""
    error: float
    """A bound on the rounding of ``squared``."""


class NativePairs:
    """For each of ``rows`` moving points a list of fixed ones, with bounds on their distances.

    Arguments:
        rows: Number of moving points.
        fixed: The fixed points, ``(n, d)``.
        fixed_places: Their sketches, ``(n, k)``, the last coordinate the length of the rest;
            none where a look goes to the points at once.
    """

    def __init__(self, rows: int, fixed: Tensor, fixed_places: Tensor | None) -> None:
        self._fixed = fixed
        self._fixed_places = fixed_places
        self._library = self.build(fixed.dtype)
        self._real = REALS[fixed.dtype][1]
        self._lists = ctypes.c_void_p(self._library.lists_new(rows))
        weakref.finalize(self, self._library.lists_delete, self._lists)

    @staticmethod
    def build(dtype: torch.dtype) -> ctypes.CDLL:
        """The compiled code; raises :class:`~uspebm.native.BuildError` where there is none."""
        built = library(PAIRS_SOURCE, REAL=REALS[dtype][0], VECTOR=vector_bytes())
        built.lists_new.restype = ctypes.c_void_p
        return built

    def clear(self, rows: Tensor) -> None:
        """Forget the lists of these rows."""
        self._library.lists_clear(self._lists, _pointer(rows), len(rows))

    def add(self, found: Candidates, gone: Tensor) -> None:
        """List those within the limit; ``gone`` is the way that each moving point has gone."""
        rows, squared, first, absent, limit, error = found
        self._library.lists_add(
            self._lists, _pointer(rows), len(rows), _pointer(squared), squared.shape[1], first,
            _pointer(absent), self._real(limit), self._real(error), _pointer(gone),
        )  # fmt: skip

    def look(
        self,
        moving: Tensor,
        places: Tensor,
        error: float,
        gone: tuple[Tensor, Tensor],
        spacing: float,
        felt: tuple[Tensor, Tensor, Tensor],
    ) -> None:
        """Add every listed violation to ``felt``: gradient, nearest, coincident."""
        directions = 0 if self._fixed_places is None else places.shape[1]
        self._library.lists_look(
            self._lists, _pointer(moving), _pointer(self._fixed), *self._fixed.shape,
            _pointer(places), _pointer(self._fixed_places), directions, self._real(error),
            *map(_pointer, gone), self._real(spacing), *map(_pointer, felt),
            torch.get_num_threads(),
        )  # fmt: skip


def compare_all(
    here: Tensor,
    others: Tensor,
    spacing: float,
    weight: float,
    left_out: Tensor | int,
    felt: tuple[Tensor, Tensor, Tensor],
) -> None:
    """Add every violation between two sets of points, of few coordinates, to ``felt``.

    ``left_out``: which of the others are, ``(n,)``; or, where ``here`` are some of the others, the
    number of the first of them, and no point feels itself.
    """
    first, absent = (left_out, None) if isinstance(left_out, int) else (-1, left_out)
    real, columns = REALS[here.dtype][1], others.T.contiguous()
    NativePairs.build(here.dtype).compare_all(
        _pointer(here), len(here), _pointer(columns), *others.shape, first,
        _pointer(absent), real(spacing), real(weight), *map(_pointer, felt),
        torch.get_num_threads(),
    )  # fmt: skip


class Bounded(NamedTuple):
    """Pairs of points of two sets, and which of them have to be looked at."""

    squared: Tensor
    """No more than their squared distances, ``(m, n)``."""
    limit: float
    """Pairs whose ``squared`` is below this are looked at."""
    absent: Tensor | None
    """Which of the others are left out, ``(n,)``."""


def compare_bounded(
    here: Tensor,
    others: Tensor,
    pairs: Bounded,
    spacing: float,
    weight: float,
    felt: tuple[Tensor, Tensor, Tensor],
) -> None:
    """Add every violation between two sets of points to ``felt``."""
    real = REALS[here.dtype][1]
    NativePairs.build(here.dtype).compare_bounded(
        _pointer(here), len(here), _pointer(others), *others.shape, _pointer(pairs.squared),
        real(pairs.limit), _pointer(pairs.absent), real(spacing), real(weight),
        *map(_pointer, felt), torch.get_num_threads(),
    )  # fmt: skip


def can_search(dtype: torch.dtype, device: torch.device) -> bool:
    """Whether there is compiled search for points of this type on this device."""
    return dtype in REALS and device.type == "cpu"


def _pointer(x: Tensor | None) -> ctypes.c_void_p:
    if x is None:
        return ctypes.c_void_p(None)
    if not x.is_contiguous():
        raise ValueError(f"compiled code needs contiguous tensors, got strides {x.stride()}")
    return ctypes.c_void_p(x.data_ptr())
