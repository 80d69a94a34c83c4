"""As many updates as fit a time: measured on the very data, before the run begins.

The rate falls over the last updates, so their number has to be known in advance. A few updates are
timed, after one that compiles, and a run of as many as fit is what is then trained: an ordinary
recipe, which an interrupted run goes on with whatever the machine does meanwhile.
"""

import math
import statistics
import time
from dataclasses import replace

from torch import Tensor

from ..support.group import current_group
from .recipe import Recipe
from .run import Run

TIMED = 60
"""Updates, at most. The first half, while caches fill, does not count."""
TRIED = 0.06
"""Share of the time that trying may take."""
SLACK = 0.95
"""Later updates are a little slower than the first: more points are crowded."""


def within_minutes(
    recipe: Recipe, points: Tensor, minutes: float, seed: int, device: str = "cpu"
) -> Recipe:
    """``recipe`` with at most its own number of updates, and no more than fit ``minutes``."""
    if not (math.isfinite(minutes) and minutes > 0):
        raise ValueError(f"minutes={minutes} must be a positive number")
    if not recipe.schedule.updates:
        return recipe
    began, group = time.monotonic(), current_group()
    seconds: list[float] = []
    schedule = replace(recipe.schedule, updates=max(recipe.schedule.updates, TIMED + 1))
    trial = Run(replace(recipe, schedule=schedule), points, None, seed, False, device)
    for record in trial:
        if record.step > 1:
            seconds.append(record.seconds)
        long = bool(seconds) and _used(began) > TRIED * 60 * minutes
        if group.any(len(seconds) == TIMED or long)[0]:
            break
    if not seconds:  # there is too little to train on
        return recipe
    left = SLACK * 60 * minutes - _used(began)
    settled = seconds[len(seconds) // 2 :]
    fitting = max(1, math.floor(left / statistics.fmean(settled)))
    updates = min(recipe.schedule.updates, group.told(fitting))  # one clock counts
    every = recipe.schedule.snapshot_every
    snapshots = None if every is None else max(1, min(every, updates))
    return replace(
        recipe, schedule=replace(recipe.schedule, updates=updates, snapshot_every=snapshots)
    )


def _used(began: float) -> float:
    return time.monotonic() - began
