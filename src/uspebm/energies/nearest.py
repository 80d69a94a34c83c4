"""The nearest of some centres: by compiled code where there is a compiler, otherwise by torch.

Both find the same but for ties and rounding; ``nearest.cpp`` never writes a matrix of distances,
which is most of the time that torch takes.
"""

import ctypes
import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..support.compiled import library_if_any

NEAREST_SOURCE = Path(__file__).with_name("nearest.cpp")
PANEL = 32
"""Centres that the compiled code takes at once."""
MOST_NEIGHBOURS = 64
"""That it finds of a point."""
TINY = 1e-12
"""Stands for a squared distance of zero, so that its logarithm is a number."""
NUMBERS_AT_ONCE = 10_000_000
"""Distances that torch holds at a time."""


class Nearest:
    """A search among ``centres`` ``(n, d)``, which are packed once for many searches.

    >>> search = Nearest(torch.tensor([[0.0], [3.0], [10.0]]))
    >>> distances, which = search(torch.tensor([[2.0]]), 2)
    >>> sorted(distances[0].tolist()), sorted(which[0].tolist())
    ([1.0, 2.0], [0, 1])
    """

    def __init__(self, centres: Tensor) -> None:
        self._centres = centres
        self._half = 0.5 * centres.square().sum(1)
        self._packed: tuple[Tensor, Tensor] | None = None

    def __call__(self, z: Tensor, k: int, own: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Distances ``(N, k)`` to the k nearest, nearest first, and which they are.

        ``own``: for each point a centre that does not count, ``(N,)``: itself.
        """
        which = self.which(z, k, own)
        return self.distances(z, which), which

    def which(self, z: Tensor, k: int, own: Tensor | None = None) -> Tensor:
        """The k nearest alone, nearest first but for rounding, ``(N, k)``."""
        ready = not torch.compiler.is_exporting() and k <= MOST_NEIGHBOURS
        ready = ready and z.dtype == torch.float32 and z.device.type == "cpu"
        if ready and library_if_any(NEAREST_SOURCE) is not None:
            return self._search(z.detach(), k, own)
        partial = torch.addmm(self._half, z, self._centres.T, alpha=-1.0)
        if own is not None:
            partial[torch.arange(len(z)), own] = math.inf
        return partial.topk(k, dim=1, largest=False).indices

    def among_themselves(self, k: int) -> tuple[Tensor, Tensor]:
        """The same from each of the centres to the others, however many they are."""
        count = len(self._centres)
        found = [
            self(self._centres[part], k, part)
            for part in torch.arange(count).split(max(1, NUMBERS_AT_ONCE // count))
        ]
        return torch.cat([one[0] for one in found]), torch.cat([one[1] for one in found])

    def _search(self, z: Tensor, k: int, own: Tensor | None) -> Tensor:
        if self._packed is None:
            self._packed = self._pack()
        panels, half = self._packed
        z, which = z.contiguous(), torch.empty(len(z), k, dtype=torch.int64)
        own = None if own is None else own.contiguous()
        pointers = [ctypes.c_void_p(t.data_ptr()) for t in (z, panels, half, which)]
        built = library_if_any(NEAREST_SOURCE)
        assert built is not None
        built.nearest(
            pointers[0], len(z), pointers[1], pointers[2], len(half), z.shape[1], k,
            ctypes.c_void_p(None if own is None else own.data_ptr()), pointers[3],
            torch.get_num_threads(),
        )  # fmt: skip
        return which

    def _pack(self) -> tuple[Tensor, Tensor]:
        count, d = self._centres.shape
        blocks = -(-count // PANEL)
        padded = torch.zeros(blocks * PANEL, d, dtype=torch.float32)
        padded[:count] = self._centres
        half = torch.full((blocks * PANEL,), math.inf, dtype=torch.float32)
        half[:count] = self._half
        panels = padded.view(blocks, PANEL, d).transpose(1, 2).contiguous()
        return panels, half.view(blocks, PANEL)

    def middle(self, which: Tensor) -> Tensor:
        """Of those centres of each point, ``(N, d)``."""
        if torch.compiler.is_exporting():  # one step of a graph, not so many
            return self._centres[which].mean(1)
        # One after the other: together they are several times the points.
        total = torch.zeros_like(self._centres[which[:, 0]])
        for near in which.unbind(1):
            total += self._centres[near]
        return total / which.shape[1]

    def distances(self, z: Tensor, which: Tensor) -> Tensor:
        """To those centres, by differences: a product of matrices rounds small distances away."""
        if torch.compiler.is_exporting():  # one step of a graph, not k
            apart = z.unsqueeze(1) - self._centres[which]
            return apart.square().sum(2).clamp_min(TINY).sqrt()
        squared = [(z - self._centres[near]).square().sum(1) for near in which.unbind(1)]
        return torch.stack(squared, 1).clamp_min(TINY).sqrt()


class SearchMixin:
    """For a module with a buffer ``centres``: searches among them as they are now."""

    centres: Tensor
    _kept: tuple[tuple[int, int, tuple[int, ...]], list[Nearest]] | None = None

    def _nearest(self) -> Nearest:
        """By all columns of the centres."""
        return self._searches((self.centres.shape[1],))[0]

    def _searches(self, widths: tuple[int, ...]) -> list[Nearest]:
        """One for each group of so many columns."""
        if torch.compiler.is_exporting():
            return [Nearest(part) for part in self.centres.split(widths, 1)]
        # Of tensors made in inference mode nobody counts what is written to them.
        writes = -1 if self.centres.is_inference() else self.centres._version
        now = self.centres.data_ptr(), writes, widths
        if self._kept is None or self._kept[0] != now:
            self._kept = now, [Nearest(part) for part in self.centres.split(widths, 1)]
        return self._kept[1]

    def __getstate__(self) -> dict[str, Any]:
        """Without the searches, which are made again in a moment."""
        return {name: value for name, value in vars(self).items() if name != "_kept"}


def log_scales(distances: Tensor, cap: float = 1.0) -> Tensor:
    """log of the mean distance ``(n,)`` of each centre to its nearest others ``(n, k)``.

    Points that are there more than k times are at no distance from each other: they count as being
    as close as any others are. Those further from others than a share ``cap`` of all count as that.
    """
    scale = distances.mean(1)
    apart = scale[scale > 2 * math.sqrt(TINY)]
    scale = scale.clamp_min(apart.min() if len(apart) else 1.0)
    # A distance that occurs, so that a cap of 1 changes nothing by rounding.
    return scale.clamp_max(scale.quantile(cap, interpolation="higher")).log()
