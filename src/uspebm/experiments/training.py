"""Training as the experiments do it: resumable, logged, and with something to look at."""

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from torch import Tensor, nn
from torch.optim import SGD, Adam
from torch.optim.lr_scheduler import LambdaLR

from ..checkpoint import checkpointed, checkpoints, resume
from ..files import whole_file
from ..progress import console, shown
from ..runlog import logged, rewind, rows
from ..train import DivergedError, Record, TrainState, fit
from ..types import NegativePhase, Proposal

RUNAWAY = 1e5
"""Losses are of the order of one. A model whose loss exceeds this one does not come back, but it
may take all updates to become infinite."""


@dataclass(frozen=True)
class Recipe:
    """How long to train, and how fast.

    ``cool`` is the share of the updates, at the end, over which the learning rate falls to zero;
    ``level`` the weight of the variance of the data's energies.
    """

    optimizer: Literal["adam", "sgd"]
    learning_rate: float
    steps: int
    batch_size: int
    average_decay: float = 0.99
    cool: float = 0.0
    level: float = 0.0


class Training:
    """One run in a folder of its own: iterate to train, then look at ``state`` and ``seconds``."""

    def __init__(
        self,
        name: str,
        module: nn.Module,
        phase: NegativePhase[Any],
        data: Tensor | Proposal,
        recipe: Recipe,
        folder: Path,
        seed: int,
        negative: tuple[Any, ...] | None = None,
        **about: Any,
    ) -> None:
        """``about``: what else must not change between a run and its resumption."""
        make = Adam if recipe.optimizer == "adam" else SGD
        optimizer = make(module.parameters(), lr=recipe.learning_rate)
        cooling = max(1.0, recipe.cool * recipe.steps)
        scheduler = LambdaLR(optimizer, lambda step: min(1.0, (recipe.steps - step) / cooling))
        self.state = TrainState.start(
            module,
            phase,
            optimizer,
            scheduler=scheduler,
            negative=negative,
            average_decay=recipe.average_decay,
            seed=seed,
        )
        self._name, self._phase, self._data, self._recipe = name, phase, data, recipe
        self._folder = folder
        settings = {**asdict(recipe), "phase": repr(phase), "network": repr(module), **about}
        if checkpoints(folder):
            if not self._settings.exists() or json.loads(self._settings.read_text()) != settings:
                raise ValueError(
                    f"{folder} holds a run with other settings: choose another --out, or remove it"
                )
        else:
            with whole_file(self._settings) as file:
                file.write(json.dumps(settings).encode())
        if resume(self.state, folder):
            at = f"update {self.state.step}"
            console.print(f"{name}: " + (f"found, at {at}" if self._done else f"resuming at {at}"))

    @property
    def _done(self) -> bool:
        return self.state.step >= self._recipe.steps

    @property
    def _settings(self) -> Path:
        return self._folder.with_suffix(".settings.json")

    @property
    def _log(self) -> Path:
        return self._folder.with_suffix(".jsonl")

    def __iter__(self) -> Iterator[Record]:
        if self._done:
            last = self.history[-1]
            self._check(last["step"], last["loss"])  # it may have run away with the last update
            return
        recipe, state = self._recipe, self.state
        rewind(self._log, state.step)
        records = fit(
            state,
            self._phase,
            self._data,
            batch_size=recipe.batch_size,
            steps=recipe.steps,
            level=recipe.level,
        )
        # Closed at once when something around it stops, and not when memory is next tidied up:
        # closing is what saves.
        with closing(checkpointed(records, state, self._folder, seconds=20.0)) as saving:
            noted = logged(saving, self._log, method=self._name)
            for record in shown(noted, recipe.steps, self._name, figures, done=state.step):
                yield record
                self._check(record.step, record.loss)

    def _check(self, step: int, loss: float) -> None:
        if abs(loss) > RUNAWAY:
            text = f"update {step}: the loss is {loss:.2g}, energies run away"
            raise DivergedError(text, self.state)

    def finish(self) -> "Training":
        """Train to the end."""
        for _ in self:
            pass
        return self

    @property
    def history(self) -> list[dict[str, Any]]:
        """The record of every update."""
        return rows(self._log)

    @property
    def seconds(self) -> float:
        """What the updates took in all, those before an interruption included."""
        return sum(float(row["seconds"]) for row in self.history)


def figures(record: Record) -> str:
    """The numbers that matter while training."""
    text = f"loss {record.loss:+.3f}  nodes {record.ess:.0f} effective"
    info = record.info._asdict()
    if "violating" in info:
        text += f"  violating {info['violating']:.0%}"
    if "rho" in info:
        text += f"  ρ {info['rho']:g}"
    return text


def unfinished(folder: Path) -> bool:
    """Whether a run in ``folder`` was interrupted."""
    return any(checkpoints(sub) for sub in folder.glob("*/"))


def drop_checkpoints(folder: Path) -> None:
    """Remove the checkpoints of the runs below ``folder``, and nothing else."""
    for path in folder.glob("*/step-*.ckpt"):
        path.unlink()
    for sub in folder.glob("*/"):
        if not any(sub.iterdir()):
            sub.rmdir()
