"""Training as everything above ``fit`` does it: resumable, logged, with snapshots.

A run in a folder leaves ``run.json`` (recipe, seed, a fingerprint of the data), ``record.jsonl``
(:mod:`.record`), ``log.jsonl`` (a line per update), checkpoints, ``snapshots/`` of raw and averaged
weights, and ``frames/`` to look at; until it ends also ``rollback/`` (:mod:`.rollback`). The same
call goes on with an interrupted run, exactly, and finds a finished one; with other settings it is
refused. Of processes that train together the main one writes all that.
"""

import copy
import math
import warnings
from collections.abc import Iterator
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..energies.gradient import check_energy
from ..energies.kernel import TiltedEnergy
from ..support.group import current_group
from ..support.locks import only_writer
from ..support.progress import console, shown
from ..support.randomness import generator
from ..training import DivergedError, Record, Share, fit, resume, save
from ..training.checkpoint import checkpoints, refuse_older, saved_along
from ..training.run_log import log_rows, logged, rewind
from ..types import Proposal
from .frames import Frames
from .held_out import Curve, Judge
from .plain import as_plain, fingerprint, named_law, refuse_addresses
from .recipe import Noisy, Recipe, allowed_place, begin
from .record import note, note_end
from .rollback import Rollback
from .signature import sign
from .snapshots import drop_snapshots, keep_snapshots, snapshots_in

SECONDS_BETWEEN_CHECKPOINTS = 20.0
KEPT_BESIDE = ".training"
"""Ending of a folder named after the model it is for: such a run is called by its recipe."""
LIKE = 1000
"""Draws from a law, to see what its points are like."""


def train(
    recipe: Recipe,
    data: Tensor | Proposal,
    folder: Path | None,
    seed: int,
    show: bool = True,
    device: str = "cpu",
) -> "Run":
    """Train on ``data``, ``(N, *event)`` or a law, and ``device``; a ``folder`` keeps the run.

    ``device`` is torch's name of it; ``"cuda+bf16"`` takes gradients in bfloat16. Of ``data``,
    several processes keep a share each; the rest is freed once nobody else holds it.

    Raises :class:`~uspebm.DivergedError` where energies run away, after the last good state was
    saved. Where held-out points judge, the best weights so far are kept instead, with a warning.
    """
    run = Run(recipe, data, folder, seed, show, device)
    try:
        for _ in run:
            pass
    except DivergedError as error:
        if run.judge is None:
            raise
        best = run.judge.best.update
        warnings.warn(
            f"training ended early, with what was best at update {best}: {error}", stacklevel=2
        )
    return run


class Run:
    """One training: iterate to train, then look at ``energy``, ``state``, ``history``."""

    def __init__(
        self,
        recipe: Recipe,
        data: Tensor | Proposal,
        folder: Path | None,
        seed: int,
        show: bool = True,
        device: str = "cpu",
    ) -> None:
        """``data``: points ``(N, *event)``, or a law to draw from; ``device``: see ``train``."""
        main = current_group().main
        self.recipe, self.seed, self._show = recipe, seed, show and main
        self.folder, self._kept = folder if main else None, folder
        law = None if isinstance(data, Tensor) else data
        like = generator(seed, "like")
        points = data if isinstance(data, Tensor) else data.sample(LIKE, like, torch.float32)
        held_out, held = recipe.schedule.held_out, points[:0]
        if held_out is not None:
            points, held = held_out.split(points, seed)
        place, precision = allowed_place(device, recipe)
        self._whole = recipe.energy.build(points, seed).to(place)
        module, self.phase = recipe.given(self._whole, points)
        check_energy(module, points[:LIKE].to(place))
        share = Share.of(points)  # of several processes each keeps its own
        self._data: Share | Proposal = share if law is None else law
        if recipe.noise:
            self._data = Noisy(self._data, recipe.noise, self.phase.domain)
        self._batch_size = recipe.schedule.batch_size
        if law is None:  # a law has as many points as are asked for
            self._batch_size = min(self._batch_size, len(points))
        few = held_out is not None and len(points) < held_out.fewest
        self._updates = 0 if few else recipe.schedule.updates
        self._frames = Frames(self._updates, self.phase.domain, points)
        self.judge: Judge | None = None
        if held_out is not None and isinstance(self._whole, TiltedEnergy):
            self.judge = Judge(held_out, self._whole, held, seed)
        self.rollback = Rollback(recipe.schedule, folder)
        self.state = begin(recipe.schedule, module, self.phase, seed)
        self.state.precision = precision
        if recipe.start is not None:
            phase: Any = self.phase
            self.state.negative = recipe.start.state(phase, points, seed, place)
        if folder is not None:
            self._noted = (folder, device, None if law is None else as_plain(law))
            self._claim(folder, data)

    @property
    def name(self) -> str:
        """As messages call it."""
        own = self.folder is None or self.folder.suffix == KEPT_BESIDE
        return self.recipe.name if own or self.folder is None else self.folder.name

    @property
    def done(self) -> bool:
        """Whether there is nothing left to train."""
        judged = self.judge is not None and self.judge.done
        return judged or self.state.step >= self._updates

    @property
    def energy(self) -> nn.Module:
        """With the weights that count: those best on held-out points, or else averaged ones."""
        average = self.state.average.module
        if self.judge is None and self.state.module is self._whole:
            return average
        tilted = self._whole
        assert isinstance(tilted, TiltedEnergy)  # the one kind of which a part may be trained
        tilted = copy.deepcopy(tilted)
        best = average if self.judge is None else self.judge.network
        tilted.network.load_state_dict(best.state_dict())
        tilted.strength.fill_(float(self.judge is None or self.judge.best.update > 0))
        return tilted.eval()

    @property
    def curve(self) -> Curve:
        """Looks at the held-out points; none where none were held out."""
        looks = [] if self.judge is None else self.judge.curve
        return [look for look in looks if not math.isnan(look.log_likelihood)]

    @property
    def history(self) -> list[dict[str, Any]]:
        """The record of every update."""
        return [] if self.folder is None else log_rows(self._log)

    @property
    def seconds(self) -> float:
        """What the updates took in all, those before an interruption included."""
        return sum(float(row["seconds"]) for row in self.history)

    @property
    def _log(self) -> Path:
        assert self.folder is not None
        return self.folder / "log.jsonl"

    def snapshots(self, weights: str = "averaged") -> dict[int, Path]:
        """Where the ``averaged`` or the ``raw`` weights are, by the update they are of."""
        if self.folder is None:
            raise ValueError(f"{self.name} has no folder, and so no snapshots")
        return snapshots_in(self.folder, weights)

    def __iter__(self) -> Iterator[Record]:
        if self.folder is None or self.done:
            yield from self._train_on()
            return
        with only_writer(self.folder):
            # Others may have been there since this was made.
            refuse_older(self.state, self.folder)
            sign(self.folder, self._settings)
            note(*self._noted, self.state.step)
            yield from self._train_on()
            note_end(self.folder, self.energy)

    def _train_on(self) -> Iterator[Record]:
        """Train to the end, or to a divergence that nothing helps against."""
        while not self.done:
            self.rollback.begin(self.state)
            try:
                yield from self._train()
                self.rollback.forget()
            except DivergedError:
                said = self.rollback.back(self.state)
                if said is None:
                    raise
                if self.judge is not None:
                    self.judge.rewind(self.state.step)
                if self._kept is not None:
                    save(self.state, self._kept)
                console.print(f"{self.name}: {said}", markup=False, soft_wrap=True)

    def _train(self) -> Iterator[Record]:
        """Train to the end, or to a divergence."""
        state = self.state
        records: Iterator[Record] = fit(
            state,
            self.phase,
            self._data,
            batch_size=self._batch_size,
            steps=self._updates,
            objective=self.recipe.objective,
        )
        # What there is to say of an update is on disk before its checkpoint is: a kill in between
        # makes the update again, and loses none of it.
        if self.folder is not None:
            self._rewind(self.folder)
            records = logged(records, self._log)
        records = self._looked_at(records)
        if self._kept is not None:
            records = saved_along(records, state, self._kept, SECONDS_BETWEEN_CHECKPOINTS)
        # Closed at once when something around it stops: closing is what saves.
        with closing(records):  # type: ignore[type-var]
            seen = records
            if self._show:
                seen = shown(seen, self._updates, self.name, self._figures, done=state.step)
            for record in seen:
                yield record
                if self.done:
                    return

    def _rewind(self, folder: Path) -> None:
        """Forget what is ahead of the state: updates to be made again, or of a way given up."""
        rewind(self._log, self.state.step)
        drop_snapshots(folder, after=self.state.step)
        if self.judge is not None:
            self.judge.keep(folder, self.rollback.states)

    def _looked_at(self, records: Iterator[Record]) -> Iterator[Record]:
        for record in records:
            self._look(record.step)
            self._snapshot()
            if self.folder is not None and self.judge is None:
                self._frames.keep(self.state, self.folder / "frames")
            self.rollback.note(self.state)
            yield record

    def _figures(self, record: Record) -> str:
        return record.summary() if self.judge is None else self.judge.summary()

    def _look(self, step: int) -> None:
        rule = self.recipe.schedule.held_out
        if self.judge is None or rule is None or (step % rule.every and step < self._updates):
            return
        average = self.state.average.module
        self.judge.look(step, average.network if isinstance(average, TiltedEnergy) else average)
        if self.folder is not None:
            self.judge.keep(self.folder, self.rollback.states)

    def _snapshot(self) -> None:
        if self.folder is not None and self.recipe.schedule.has_snapshot(self.state.step):
            keep_snapshots(self.state, self.folder)

    def _claim(self, folder: Path, data: Tensor | Proposal) -> None:
        """Begin in ``folder``, or go on with the run of the same settings that is there."""
        self._settings = {
            # How points are scored afterwards is no part of a training.
            "recipe": {k: v for k, v in as_plain(self.recipe).items() if k != "score"},
            "seed": self.seed,
            "data": fingerprint(data) if isinstance(data, Tensor) else named_law(data),
        }
        refuse_addresses(self._settings)
        # A run that somebody else is making may be looked at, once it can be told whose it is.
        if self.folder is not None:
            with nullcontext() if checkpoints(folder) else only_writer(folder):
                sign(folder, self._settings)
        if not resume(self.state, folder):
            return
        if self.judge is not None:
            self.judge.resume(folder, self.rollback.states, self.state.step)
        self._snapshot()  # in case that the run was stopped between an update and this
        if self.done and self.folder is not None:
            note_end(folder, self.energy)  # likewise
        if self._show:
            how = "found, at" if self.done else "resuming at"
            console.print(f"{self.name}: {how} update {self.state.step}")
