"""Saving and resuming, exactly.

A *checkpoint* holds all of a :class:`~uspebm.TrainState`, particles included; the last two are
kept. A *snapshot* (:mod:`.snapshot`) holds weights alone, small enough to keep many. Both carry a
checksum, and neither can run code when it is loaded: checkpoints are read by torch's weights-only
reader, snapshots are safetensors.

Processes that train together send their rows to the main one, which writes them (:mod:`.archive`),
and each reads its share: a run goes on with any number of processes, in a folder that all of them
see.
"""

import copy
import time
import warnings
from collections.abc import Generator, Iterator
from contextlib import nullcontext
from pathlib import Path
from threading import Event
from typing import Any

from torch import Tensor

from ..support.group import LostProcessError, current_group
from ..support.hidden import remove_unfinished
from ..support.interrupts import patient_interrupt
from ..support.locks import only_writer
from ..support.reading import one_line
from .archive import read_archive, write_archive
from .state import Record, TrainState

CHECKPOINT_FORMAT = 3
KEPT = 2
PARTS = {
    *("step", "seed", "engine", "kinds", "negative"),
    *("module", "average", "optimizer", "scheduler"),
}


class CheckpointError(RuntimeError):
    """A checkpoint is missing, damaged, or of another model."""


def save(state: TrainState, folder: Path | str) -> Path:
    """Write a checkpoint into ``folder`` and drop all but the last two.

    Of processes that train together all have to call this, and the main one writes.
    """
    folder = Path(folder)
    path = checkpoint_path(folder, state.step)
    content = {
        **state.learned(),
        "format": CHECKPOINT_FORMAT,
        "seed": state.seed,
        "engine": state.engine,
        "precision": state.precision,
        "kinds": _kinds(state),
    }
    write_archive(path, content, _fields(state.negative))
    if not current_group().main:
        return path
    # Only now: until the new one is whole on disk, the old ones are what there is.
    remove_unfinished(folder)
    found = checkpoints(folder)
    # A state can go back, after a divergence: what is ahead of it is what it went back from.
    ahead = [p for p in found if p > path]
    for old in [*found[: -KEPT - len(ahead)], *ahead]:
        old.unlink()
    return path


def _kinds(state: TrainState) -> list[str]:
    """Of what classes the parts are, to tell the checkpoint of another run."""
    parts = (state.optimizer, state.scheduler, state.negative)
    return [type(part).__name__ for part in parts]


def checkpoint_path(folder: Path | str, step: int) -> Path:
    """Where the one of that step is, or would be."""
    return Path(folder) / f"step-{step:09d}.ckpt"


def checkpoints(folder: Path | str) -> list[Path]:
    """The checkpoints in ``folder``, oldest first."""
    return sorted(Path(folder).glob("step-*.ckpt"))


def resume(state: TrainState, folder: Path | str) -> bool:
    """Put the newest sound checkpoint of ``folder`` into ``state``; False if there is none.

    ``state`` is made as for a new run, with ``TrainState.start``. A damaged checkpoint is passed
    over, with a warning, for the one before.
    """
    found = checkpoints(folder)
    for path in reversed(found):
        try:
            content = _read(path)
        except CheckpointError as error:
            warnings.warn(f"{error}; trying the one before", stacklevel=2)
            continue
        _restore(state, content, path)
        return True
    if found:
        raise CheckpointError(f"none of the {len(found)} checkpoints in {folder} can be read")
    return False


def load_checkpoint(state: TrainState, path: Path | str) -> None:
    """Put one checkpoint into ``state``, which is made as for a new run."""
    path = Path(path)
    _restore(state, _read(path), path)


def _read(path: Path) -> dict[str, Any]:
    try:
        content = read_archive(path)
    except FileNotFoundError:
        raise CheckpointError(f"there is no checkpoint {path}") from None
    except Exception as error:  # torch raises many kinds for a damaged file
        # And advises, before it says what is wrong, to run what the file holds.
        told = str(error).rpartition("WeightsUnpickler error:")[2]
        reason = one_line(told) if told.strip() else type(error).__name__
        raise CheckpointError(f"checkpoint {path} cannot be read: {reason}") from error
    if not isinstance(content, dict) or "format" not in content:
        raise CheckpointError(f"{path} is not a checkpoint of uspebm")
    if content["format"] not in (CHECKPOINT_FORMAT, 2):
        raise CheckpointError(
            f"checkpoint {path} has format {content['format']}; this version reads 2 and "
            f"{CHECKPOINT_FORMAT}"
        )
    if missing := PARTS - content.keys():
        raise CheckpointError(f"checkpoint {path} lacks {', '.join(sorted(missing))}")
    return content


def _restore(state: TrainState, content: dict[str, Any], path: Path) -> None:
    # Everything is compared before anything is changed: no half-restored state.
    try:
        _compare(state, content, path)
    except CheckpointError:
        raise
    except Exception as error:  # parts that are of no kind that a checkpoint has
        raise CheckpointError(f"{path} is not a checkpoint of uspebm: {one_line(error)}") from error
    before = copy.deepcopy(state.learned())
    try:
        state.restore(content)
    except Exception as error:  # groups of parameters that do not fit, or are none
        state.restore(before)
        raise CheckpointError(f"{path}: {one_line(error)}") from error
    device = next(state.module.parameters()).device
    kind = type(state.negative)
    state.negative = kind(**{k: v.to(device) for k, v in content["negative"].items()})
    state.engine = content["engine"]


def _compare(state: TrainState, content: dict[str, Any], path: Path) -> None:
    same_shapes(state.module.state_dict(), content["module"], f"{path}: weights")
    same_shapes(state.average.state_dict(), content["average"], f"{path}: averaged weights")
    for mine, saved in zip(_kinds(state), content["kinds"], strict=True):
        if mine != saved:
            raise CheckpointError(
                f"{path} was made with {one_line(saved)}, the state given has {mine}"
            )
    same_shapes(_fields(state.negative), content["negative"], f"{path}: negative phase")
    # Older ones say nothing of precision: there was one.
    for name, saved in (("seed", content["seed"]), ("precision", content.get("precision", "full"))):
        if (mine := getattr(state, name)) != saved:
            said = one_line(repr(saved))
            raise CheckpointError(f"{path} was made with {name}={said}, not {mine!r}")


def _fields(negative: tuple[Any, ...]) -> dict[str, Tensor]:
    fields: dict[str, Tensor] = negative._asdict()  # type: ignore[attr-defined]
    return fields


def same_shapes(mine: dict[str, Tensor], saved: dict[str, Tensor], what: str) -> None:
    """An error that names the first tensor that only one has, or has otherwise."""
    for name in mine.keys() | saved.keys():
        if name not in saved or name not in mine:
            where = "checkpoint" if name in saved else "state"
            raise CheckpointError(f"{what}: only the {where} has {one_line(repr(name))}")
        a, b = mine[name], saved[name]
        if a.shape != b.shape or a.dtype != b.dtype:
            raise CheckpointError(
                f"{what}: {name} is {tuple(b.shape)} of {b.dtype}, "
                f"but the state given has {tuple(a.shape)} of {a.dtype}"
            )


def checkpointed(
    records: Iterator[Record], state: TrainState, folder: Path | str, seconds: float = 60.0
) -> Generator[Record, None, None]:
    """Pass ``records`` on, saving ``state`` every so many seconds and whenever the loop ends.

    It ends after the last record, on a ``break`` of the caller's, or on an error. Ctrl-C and a
    termination signal wait for the update under way, save, and raise KeyboardInterrupt; another,
    a second later, does not wait, and leaves the last checkpoint. Until it ends nobody else trains
    in ``folder``: they get a FolderInUseError.

    >>> import torch
    >>> from tempfile import TemporaryDirectory
    >>> from uspebm import MLP, Box, Importance, fit
    >>> x, phase, nets = torch.zeros(20, 1), Importance(Box(-1.0, 1.0, (1,)), 50), (MLP(1), MLP(1))
    >>> descent = [torch.optim.SGD(net.parameters(), 0.1) for net in nets]
    >>> one, other = (TrainState.start(n, phase, d) for n, d in zip(nets, descent, strict=True))
    >>> with TemporaryDirectory() as run:
    ...     for _ in checkpointed(fit(one, phase, x, batch_size=20, steps=9), one, run):
    ...         if one.step == 3: break
    ...     save(one, run).name, resume(other, run), bool((nets[0](x) == nets[1](x)).all())
    ('step-000000003.ckpt', True, True)
    """
    with only_writer(Path(folder)):
        refuse_older(state, folder)
        yield from saved_along(records, state, folder, seconds)


def refuse_older(state: TrainState, folder: Path | str) -> None:
    """An error if ``folder`` has a checkpoint of a later step than ``state``'s."""
    found = checkpoints(folder)
    if found and found[-1] > checkpoint_path(folder, state.step):
        raise CheckpointError(
            f"{found[-1]} is ahead of the state, which is at step {state.step}: "
            "resume it, or choose another folder"
        )


def saved_along(
    records: Iterator[Record], state: TrainState, folder: Path | str, seconds: float
) -> Generator[Record, None, None]:
    """What ``checkpointed`` does, for the only writer of ``folder``.

    Of processes that train together all save, and all stop, at the same update: an interrupt
    between two updates, which otherwise ends the caller's work at once, waits too.
    """
    waits = patient_interrupt() if current_group().size > 1 else nullcontext(Event())
    with waits as between:
        yield from _saved_along(records, state, folder, seconds, between)


def _saved_along(
    records: Iterator[Record],
    state: TrainState,
    folder: Path | str,
    seconds: float,
    between: Event,
) -> Generator[Record, None, None]:
    saved_step, saved_at = -1, time.monotonic()

    def keep() -> None:
        nonlocal saved_step, saved_at
        # In the midst of an update particles have moved and weights have not: such a state would
        # lead elsewhere. The last checkpoint is what there is.
        if state.step != saved_step and state.whole:
            save(state, folder)
        saved_step, saved_at = state.step, time.monotonic()

    records, late = iter(records), False
    while True:
        with patient_interrupt() as interrupted:
            record, trouble = None, None
            try:
                record = next(records, None)
            except Exception as error:
                if not state.whole:  # others are in the midst of the same update: they fail too
                    raise
                trouble = error
            due = current_group().main and time.monotonic() - saved_at >= seconds
            wanted = late or interrupted.is_set() or between.is_set()
            # The main process alone writes what there is to say, and so may fail alone.
            stop, due, failed = current_group().any(wanted, due, trouble is not None)
            try:
                if record is None or stop or due or failed:
                    keep()
            finally:
                if failed:
                    raise trouble or LostProcessError("another process of the group has failed")
        late = interrupted.is_set()  # it came while they agreed: they stop at the next one
        if record is not None:
            try:
                yield record
            except GeneratorExit:
                keep()
                raise
        if stop:
            raise KeyboardInterrupt
        if record is None:
            return
