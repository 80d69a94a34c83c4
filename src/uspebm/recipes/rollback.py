"""Going back from a divergence: to a state of some time ago, with a smaller step.

What runs away does so over tens of updates, so the state to go back to is not the last one. The
draws of an update follow from its number; only the learning rate is another the second time.
"""

import copy
import math
import shutil
from pathlib import Path
from typing import Any

from ..support.group import current_group
from ..training import TrainState, save
from ..training.checkpoint import checkpoint_path, checkpoints, load_checkpoint
from ..training.run_log import whole_rows, write_rows
from .recipe import Schedule

KEEP_EVERY = 50
"""Updates between the states that are kept to go back to: the last two."""
SMALLER = 0.5


class Rollback:
    """The states of one run to go back to, and how often that was done.

    In a ``folder`` both outlive interruptions: a resumed run goes back to where it would have gone,
    and no more often than it may.
    """

    def __init__(self, schedule: Schedule, folder: Path | None) -> None:
        self._most, self._rate = schedule.rollbacks, schedule.learning_rate
        self._record = None if folder is None else folder / "rollbacks.jsonl"
        self.states = folder / "rollback" if folder is not None and self._most else None
        self._copies: dict[int, tuple[dict[str, Any], tuple[Any, ...]]] = {}
        self.done: list[dict[str, float]] = []

    def begin(self, state: TrainState) -> None:
        """To be called before the updates from ``state`` on, at first and after going back."""
        if not self._most:
            return
        if self._record is not None:
            # Going back is on record before there is a checkpoint of it: a kill in between undoes
            # it, and the checkpoint's rate is that of before.
            self.done = whole_rows(self._record)[: self._times_smaller(state)]
        kept = self._steps(state.step)
        # One of this very step may be of before going back, and have the rate of then.
        wanted = not kept or kept[-1] == state.step or state.step % KEEP_EVERY == 0
        if current_group().any(wanted)[0]:
            self._keep(state)

    def note(self, state: TrainState) -> None:
        """Keep the state now and then, where there may be need for it."""
        if self._most and state.step % KEEP_EVERY == 0:
            self._keep(state)

    def back(self, state: TrainState) -> str | None:
        """Put the older of the kept states into ``state``, and say so; None if that is used up."""
        if len(self.done) >= self._most:
            return None
        after = state.step
        self._restore(state, self._steps(after)[-2:][0])
        # The rate follows from the step by the schedule, of which only the scale is changed.
        if state.scheduler is not None:
            state.scheduler.base_lrs = [SMALLER * rate for rate in state.scheduler.base_lrs]
        for group in state.optimizer.param_groups:
            group["lr"] *= SMALLER
        rate = state.optimizer.param_groups[0]["lr"]
        self.done.append({"diverged_after": after, "back_to": state.step, "learning_rate": rate})
        if self._record is not None and current_group().main:
            write_rows(self._record, self.done)
        return (
            f"diverged after update {after}: back to update {state.step}, learning rate {rate:g} "
            f"({len(self.done)} of at most {self._most} times)"
        )

    def forget(self) -> None:
        """Remove the states from the folder: nothing is left to train."""
        if self.states is not None and current_group().main:
            shutil.rmtree(self.states, ignore_errors=True)

    def _times_smaller(self, state: TrainState) -> int:
        assert state.scheduler is not None  # every state of a recipe has one
        return round(math.log(state.scheduler.base_lrs[0] / self._rate, SMALLER))

    def _steps(self, most: int) -> list[int]:
        """Of the states that are kept, up to a step."""
        if self.states is None:
            return [step for step in self._copies if step <= most]
        last = checkpoint_path(self.states, most)
        return [int(path.stem[5:]) for path in checkpoints(self.states) if path <= last]

    def _keep(self, state: TrainState) -> None:
        if self.states is not None:
            save(state, self.states)  # which leaves the last two
            return
        before = [step for step in self._copies if step < state.step]
        negative = type(state.negative)(*(part.clone() for part in state.negative))
        self._copies = {
            **{step: self._copies[step] for step in before[-1:]},
            state.step: (copy.deepcopy(state.learned()), negative),
        }

    def _restore(self, state: TrainState, step: int) -> None:
        if self.states is not None:
            load_checkpoint(state, checkpoint_path(self.states, step))
        else:
            learned, negative = self._copies[step]
            state.restore(learned)
            state.negative = type(negative)(*(part.clone() for part in negative))
        state.whole = True
