"""Points of all processes in each of them, where they are few enough.

Points are shared out so that there may be more of them than one process has memory for. Where they
are few, each process keeps a copy of all beside its share: who has all fixed points finds out by
itself what its share of the active ones feels, and half of the messages are not needed. The copy is
made once, and stays right without being sent again: all processes know where active points went.
"""

import math
from typing import NamedTuple

from torch import Tensor

from ..neighbours.sketch import sketch_of, writes
from ..support.group import current_group
from ..types import Workspace

LARGEST_COPY = 32_000_000
"""Numbers that a process may hold beside its share: 128 MB, and more than images recipes have."""


class Copy(NamedTuple):
    """Of all points, and what it was made of."""

    own: Tensor
    version: int
    """Torch's count of writes into ``own``."""
    whole: Tensor


def whole_of(points: Tensor, particles: int, workspace: Workspace) -> Tensor | None:
    """All ``particles`` points, of which ``points`` are this process's; none where they are many.

    All processes must ask, since points may have to be sent. Of one process they are its own.
    """
    group = current_group()
    if group.size == 1:
        return points
    if particles * math.prod(points.shape[1:]) > LARGEST_COPY:
        return None
    kept: Copy | None = workspace.scratch.get("whole")
    known = kept is not None and kept.own is points and kept.version == writes(points)
    if kept is None or not known or points.is_inference():
        kept = Copy(points, writes(points), group.gathered(points))
        workspace.scratch["whole"] = kept
    return kept.whole


def place(
    points: Tensor, particles: int, rows: Tensor, x: Tensor, workspace: Workspace, sketched: bool
) -> None:
    """Put ``x`` into these rows of all ``particles`` points, of which ``points`` are ours.

    ``sketched``: whether neighbours are looked for among them all, by a sketch to be kept in step.
    """
    whole = whole_of(points, particles, workspace)
    searched = points if whole is None else whole
    sketch = sketch_of(searched, workspace) if sketched else None
    own, ours = current_group().mine(rows, particles)
    points[ours] = x[own]
    if whole is not None and whole is not points:
        whole[rows] = x
        workspace.scratch["whole"] = Copy(points, writes(points), whole)
    if sketch is not None:
        sketch.renew(searched, ours if whole is None else rows)
