"""Going back from a divergence: to a state of some time ago, with a smaller step.

What runs away does so over tens of updates, so the state to go back to is not the last one. The
draws of an update follow from its number; only the learning rate is another the second time.
"""

import copy
from pathlib import Path
from typing import Any

from ..support.group import current_group
from ..training import TrainState
from ..training.run_log import whole_rows, write_rows

KEEP_EVERY = 50
"""Updates between the states that are kept to go back to: the last two."""
SMALLER = 0.5


class Rollback:
    """The states of one run to go back to, and how often that was done.

    ``record``, a file, outlives interruptions: no run goes back more often than it may.
    """

    def __init__(self, most: int, record: Path | None) -> None:
        self._most, self._record = most, record
        self._kept: list[tuple[dict[str, Any], tuple[Any, ...]]] = []
        self.done: list[dict[str, float]] = [] if record is None else whole_rows(record)

    def note(self, state: TrainState) -> None:
        """Keep a copy of the state now and then, where there may be need for it."""
        if self._most and (not self._kept or state.step % KEEP_EVERY == 0):
            negative = type(state.negative)(*(part.clone() for part in state.negative))
            self._kept = [*self._kept[-1:], (copy.deepcopy(state.learned()), negative)]

    def back(self, state: TrainState) -> str | None:
        """Put the older of the kept states into ``state``, and say so; None if that is used up."""
        if len(self.done) >= self._most or not self._kept:
            return None
        after = state.step
        learned, negative = self._kept[0]
        state.restore(learned)
        state.negative = type(negative)(*(part.clone() for part in negative))
        state.whole = True
        # The rate follows from the step by the schedule, of which only the scale is changed.
        if state.scheduler is not None:
            state.scheduler.base_lrs = [SMALLER * rate for rate in state.scheduler.base_lrs]
        for group in state.optimizer.param_groups:
            group["lr"] *= SMALLER
        rate = state.optimizer.param_groups[0]["lr"]
        self._kept = []
        self.note(state)
        self.done.append({"diverged_after": after, "back_to": state.step, "learning_rate": rate})
        if self._record is not None and current_group().main:
            write_rows(self._record, self.done)
        return (
            f"diverged after update {after}: back to update {state.step}, learning rate {rate:g} "
            f"({len(self.done)} of at most {self._most} times)"
        )
