"""What a run was like on the way: some of its points, and in the line or plane its density.

A frame is kept now and then, more often in the beginning, when more happens. Frames are small, and
nothing needs them but people who look (:mod:`uspebm.report`).
"""

import io
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..domains import Box
from ..evaluation.grid_density import grid_density
from ..negative.crowded_usp import CrowdedState
from ..negative.partition import Particles
from ..negative.replay import ReplayState
from ..support.files import whole_file
from ..support.reading import read_at_most, reading, refuse_bomb
from ..training import TrainState
from ..types import Energy

FRAMES = 24
"""Of a run, at most."""
FRAME_CELLS = {1: 400, 2: 80}
"""Along each axis of a density, by the number of axes."""
MOST_POINTS = 1000
MOST_IMAGES = 48
LARGEST_FRAME = 1 << 26
"""Bytes of a file, and of what it may unpack to."""


class Frame(NamedTuple):
    """A run after some update."""

    step: int
    points: NDArray[Any]
    """``(n, *event)``; images as bytes. None of them where the method keeps no points."""
    log_q: NDArray[np.float32]
    """Normalised log-density on a grid of the box, ``(cells,)`` or ``(cells, cells)``; empty where
    there are more dimensions."""
    box: NDArray[np.float64]
    """Lowest and highest corner, ``(2, d)``; empty where there is no density."""


class Frames:
    """Which are kept of a run of so many updates, and of what part of the domain."""

    def __init__(self, updates: int, domain: object, data: Tensor) -> None:
        self._steps, self._view = frame_steps(updates), view_of(domain, data)

    def keep(self, state: TrainState, folder: Path) -> None:
        """One of ``state``, if it is its turn."""
        if state.step in self._steps:
            keep_frame(state, self._view, folder)


def frame_steps(updates: int) -> set[int]:
    """After which updates of so many a frame is kept.

    >>> sorted(frame_steps(500))[:5], max(frame_steps(500)), len(frame_steps(500))
    ([1, 3, 8, 14, 22], 500, 24)
    """
    return {max(1, round(updates * (k / FRAMES) ** 2)) for k in range(1, FRAMES + 1)}


def view_of(domain: object, data: Tensor) -> Box | None:
    """What to look at: the domain, or twice as far as the data reach; None beyond the plane."""
    if data.dim() != 2 or data.shape[1] not in FRAME_CELLS:
        return None
    if isinstance(domain, Box):
        return domain
    low, high = data.amin(0).double(), data.amax(0).double()
    around = (high - low).clamp_min(1e-6) / 2
    return Box(tuple((low - around).tolist()), tuple((high + around).tolist()))


def keep_frame(state: TrainState, view: Box | None, folder: Path) -> None:
    """Write the frame of ``state`` to ``folder``, if there is something to see."""
    points = _some(state.negative)
    frame = Frame(state.step, points, np.empty(0, np.float32), np.empty(0))
    if view is not None:
        frame = density_frame(state.average.module, view, state.step)._replace(points=points)
    if len(frame.points) or frame.log_q.size:
        write_frame(frame, folder / f"{state.step:06}.npz")


def density_frame(energy: Energy, domain: Box, step: int = 0) -> Frame:
    """The density of ``energy`` on a line or a plane, without points."""
    cells = FRAME_CELLS[domain.dim]
    q = grid_density(energy, domain, cells)
    far = torch.full((1, domain.dim), torch.inf)
    corners = domain.project(torch.cat([-far, far])).double().numpy()
    log_q = q.log_q.float().cpu().numpy().reshape((cells,) * domain.dim)
    return Frame(step, np.empty((0, domain.dim), np.float32), log_q, corners)


def write_frame(frame: Frame, path: Path) -> None:
    """As a file, whole or not at all; the same bytes for the same frame."""
    content = io.BytesIO()
    np.savez_compressed(content, **frame._asdict())
    with whole_file(path) as file:
        file.write(content.getvalue())


def read_frame(path: Path) -> Frame:
    """What was written."""
    with reading(path):
        content = io.BytesIO(read_at_most(path, LARGEST_FRAME))
        with zipfile.ZipFile(content) as packed:
            unpacked = sum(entry.file_size for entry in packed.infolist())
        refuse_bomb(path, content.getbuffer().nbytes, unpacked, freely=LARGEST_FRAME)
        with np.load(content, allow_pickle=False) as file:
            frame = Frame(int(file["step"]), *(file[name] for name in Frame._fields[1:]))
        axes = frame.log_q.ndim
        if frame.log_q.size and frame.box.shape != (2, axes):
            raise ValueError(f"a density of {axes} axes in a box of shape {frame.box.shape}")
        return frame


def read_frames(folder: Path) -> list[Frame]:
    """All that a run has kept so far, in order."""
    return [read_frame(path) for path in sorted(folder.glob("*.npz"))]


def _some(negative: tuple[Any, ...]) -> NDArray[Any]:
    """Some of the points that a phase keeps, the same ones each time."""
    if isinstance(negative, Particles | CrowdedState):
        points: Tensor = negative.points
    elif isinstance(negative, ReplayState):
        points = negative.buffer
    else:
        return np.empty((0, 1), np.float32)
    images = points.dim() == 4
    count = min(MOST_IMAGES if images else MOST_POINTS, len(points))
    chosen = points[torch.linspace(0, len(points) - 1, count).long()].detach().cpu().float()
    if not images:
        return np.asarray(chosen.numpy())
    return np.asarray(((chosen.clamp(-1, 1) + 1) * 127.5).round().byte().numpy())
