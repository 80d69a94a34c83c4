"""Resuming is exact, and no moment is a bad one to be killed."""

import copy
import io
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import CosineAnnealingLR

from tests.phases import BOX, PHASES
from uspebm import (
    MLP,
    DivergedError,
    Record,
    TrainState,
    checkpointed,
    fit,
    resume,
    save,
)
from uspebm.support import interrupts
from uspebm.support.group import Group
from uspebm.support.randomness import generator
from uspebm.training import checkpoint
from uspebm.training.archive import read_archive
from uspebm.training.checkpoint import (
    CheckpointError,
    checkpoints,
    load_checkpoint,
)
from uspebm.training.sealed import sealing
from uspebm.training.snapshot import load_snapshot, save_snapshot

PS_USP = PHASES["ps-usp"]
DATA = BOX.sample(40, generator(0, "data"))


def start(
    phase: Any = PS_USP, seed: int = 3, width: int = 16, optimizer: Any = torch.optim.Adam
) -> TrainState:
    torch.manual_seed(seed)
    net = MLP(2, width=width)
    descent = optimizer(net.parameters(), lr=1e-2)
    scheduler = CosineAnnealingLR(descent, 10)
    return TrainState.start(net, phase, descent, scheduler=scheduler, seed=seed)


def close(content: dict[str, Any], path: Path) -> None:
    """As format 2 did it: torch's archive, with all rows in it."""
    archive = io.BytesIO()
    torch.save(content, archive)
    with path.open("wb") as file, sealing(file) as sealed:
        sealed.write(archive.getvalue())


def run(state: TrainState, steps: int, phase: Any = PS_USP) -> TrainState:
    for _ in fit(state, phase, DATA, batch_size=16, steps=steps):
        pass
    return state


def tensors(state: TrainState) -> list[Tensor]:
    moments = [t for s in state.optimizer.state.values() for t in s.values()]
    rate = torch.tensor(state.optimizer.param_groups[0]["lr"])
    weights = [*state.module.state_dict().values(), *state.average.state_dict().values()]
    return [*weights, *moments, *state.negative, rate, torch.tensor(state.step)]


def assert_same(a: TrainState, b: TrainState) -> None:
    for x, y in zip(tensors(a), tensors(b), strict=True):
        assert torch.equal(x, y)


@pytest.mark.parametrize("phase", PHASES.values(), ids=PHASES.keys())
def test_ten_steps_equal_four_and_six_after_a_restart(phase: Any, tmp_path: Path) -> None:
    straight = run(start(phase), 10, phase)
    save(run(start(phase), 4, phase), tmp_path)
    resumed = start(phase)
    assert resume(resumed, tmp_path)
    assert resumed.step == 4
    assert_same(run(resumed, 10, phase), straight)


@pytest.mark.parametrize(
    "forgotten", ["module", "optimizer", "scheduler", "negative", "average", "step"]
)
def test_forgetting_any_part_is_noticed(forgotten: str, tmp_path: Path) -> None:
    straight = run(start(), 10)
    save(run(start(), 4), tmp_path)
    (path,) = checkpoints(tmp_path)
    content = read_archive(path)
    fresh = save(start(), tmp_path / "fresh")
    content[forgotten] = read_archive(fresh)[forgotten]
    close(content, path)
    resumed = start()
    resume(resumed, tmp_path)
    with pytest.raises((AssertionError, ValueError)):
        assert_same(run(resumed, 10), straight)


def test_the_last_two_are_kept(tmp_path: Path) -> None:
    state = start()
    for step in (1, 2, 3):
        save(run(state, step), tmp_path)
    assert [p.name for p in checkpoints(tmp_path)] == ["step-000000002.ckpt", "step-000000003.ckpt"]


def test_nothing_to_resume(tmp_path: Path) -> None:
    state = start()
    assert not resume(state, tmp_path / "nowhere")
    assert state.step == 0


def test_a_damaged_checkpoint_is_passed_over_for_the_one_before(tmp_path: Path) -> None:
    state = start()
    for step in (1, 2):
        save(run(state, step), tmp_path)
    newest = checkpoints(tmp_path)[-1]
    newest.write_bytes(newest.read_bytes()[:-200])
    resumed = start()
    with pytest.warns(UserWarning, match="cannot be read"):
        assert resume(resumed, tmp_path)
    assert resumed.step == 1
    checkpoints(tmp_path)[0].write_bytes(b"")
    with pytest.warns(UserWarning), pytest.raises(CheckpointError, match="none of the 2"):
        resume(start(), tmp_path)


def test_code_in_a_checkpoint_is_not_run(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
            return os.mkdir, (str(tmp_path / "owned"),)

    close({"format": 2, "step": Evil()}, tmp_path / "step-000000001.ckpt")
    with pytest.raises(CheckpointError, match="cannot be read"):
        load_checkpoint(start(), tmp_path / "step-000000001.ckpt")
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"kinds": ["Adam"]},
        {"kinds": True},
        {"module": True},
        {"negative": []},
        {"optimizer": True},
        {"optimizer": {"state": True, "param_groups": []}},
        {"scheduler": 3},
        {"module": {"two\nlines": torch.zeros(2)}},
        {"seed": "two\nlines"},
    ],
)
def test_parts_of_another_kind_are_refused_in_one_line(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    path = save(run(start(), 2), tmp_path)  # some found by fuzzing
    close({**read_archive(path), **change}, path)
    state = run(start(), 1)
    before = copy.deepcopy(state.learned())
    with pytest.raises(CheckpointError) as refused:
        load_checkpoint(state, path)
    assert str(refused.value).isprintable()
    assert str(state.learned()) == str(before)


def test_what_a_foreign_checkpoint_says_of_itself_does_not_reach_the_terminal(
    tmp_path: Path,
) -> None:
    path = save(start(), tmp_path)  # found by fuzzing
    content = read_archive(path)
    close({**content, "kinds": ["Adam", "Lambd\x00\x1b[2JR", "Particles"]}, path)
    with pytest.raises(CheckpointError, match=r"was made with Lambd\?\?\[2JR, the state given"):
        load_checkpoint(start(), path)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda: start(width=8), r"weights: net\..* but the state given has"),
        (lambda: start(PHASES["replay"]), "was made with Particles, the state given has Replay"),
        (lambda: start(optimizer=torch.optim.SGD), "was made with Adam, the state given has SGD"),
        (lambda: start(seed=4), "was made with seed=3, not 4"),
    ],
    ids=["network", "phase", "optimizer", "seed"],
)
def test_a_checkpoint_of_another_run_is_refused_and_changes_nothing(
    other: Callable[[], TrainState], message: str, tmp_path: Path
) -> None:
    path = save(run(start(), 2), tmp_path)
    state, untouched = other(), other()
    with pytest.raises(CheckpointError, match=message):
        load_checkpoint(state, path)
    assert_same(state, untouched)


def test_foreign_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.ckpt"
    with pytest.raises(CheckpointError, match="there is no checkpoint"):
        load_checkpoint(start(), path)
    close({"weights": torch.zeros(1)}, path)
    with pytest.raises(CheckpointError, match="not a checkpoint of uspebm"):
        load_checkpoint(start(), path)
    close({"format": 2, "step": 3}, path)
    with pytest.raises(CheckpointError, match="lacks average, engine"):
        load_checkpoint(start(), path)
    close({"format": 99}, path)
    with pytest.raises(CheckpointError, match="format 99"):
        load_checkpoint(start(), path)


# -- being killed ------------------------------------------------------------------------------


def file_operations(
    monkeypatch: pytest.MonkeyPatch, die_at: int, die: Callable[[], None]
) -> list[int]:
    """Count what reaches the file system; at operation ``die_at``, call ``die`` instead."""
    count = [0]

    def counted(original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            count[0] += 1
            if count[0] == die_at:
                die()
            return original(*args, **kwargs)

        return call

    for name in ("replace", "unlink", "open"):
        monkeypatch.setattr(Path, name, counted(getattr(Path, name)))
    for name in ("fsync", "open"):
        monkeypatch.setattr(os, name, counted(getattr(os, name)))
    return count


def test_a_kill_at_any_file_operation_leaves_a_good_checkpoint(tmp_path: Path) -> None:
    """A child is killed before each operation in turn, having saved twice before."""
    state = start()
    with pytest.MonkeyPatch.context() as patch:
        count = file_operations(patch, die_at=-1, die=lambda: None)
        for step in (1, 2, 3):
            save(run(state, step), tmp_path / "count")
    assert count[0] >= 9
    for die_at in range(1, count[0] + 1):
        folder = tmp_path / str(die_at)
        state = start()
        save(run(state, 1), folder)
        run(state, 2)
        saved = {1: tensors(run(start(), 1)), 2: tensors(state), 3: tensors(run(start(), 3))}
        child = os.fork()
        if child == 0:
            try:
                with pytest.MonkeyPatch.context() as patch:
                    file_operations(patch, die_at, lambda: os._exit(9))
                    save(state, folder)
                    save(run(state, 3), folder)
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) in (0, 9)
        resumed = start()
        assert resume(resumed, folder)
        for a, b in zip(tensors(resumed), saved[resumed.step], strict=True):
            assert torch.equal(a, b)


def test_a_kill_at_any_moment_leaves_a_good_checkpoint(tmp_path: Path) -> None:
    """The real thing: SIGKILL at random moments of a process that does nothing but save."""
    moments = random.Random(0)
    for k in range(20):
        folder, state = tmp_path / str(k), start()
        save(run(state, 1), folder)
        child = os.fork()
        if child == 0:
            try:
                while True:
                    state.step += 1
                    save(state, folder)
            finally:
                os._exit(1)
        time.sleep(moments.uniform(0.0, 0.1))
        os.kill(child, signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        state = start()
        assert resume(state, folder)
        assert state.step >= 1
        save(state, folder)
        assert not list(folder.glob(".*"))  # leftovers are cleared away


def test_a_full_disk_leaves_the_checkpoints_there_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = start()
    save(run(state, 1), tmp_path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        save(run(state, 2), tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["step-000000001.ckpt"]


# -- the loop around it ------------------------------------------------------------------------


def records(state: TrainState, steps: int = 10) -> Iterator[Record]:
    return fit(state, PS_USP, DATA, batch_size=16, steps=steps)


def test_checkpointed_saves_at_the_end_and_on_break(tmp_path: Path) -> None:
    state = start()
    for record in checkpointed(records(state), state, tmp_path):
        if record.step == 3:
            break
    assert [p.name for p in checkpoints(tmp_path)] == ["step-000000003.ckpt"]
    for _ in checkpointed(records(state), state, tmp_path):
        pass
    assert checkpoints(tmp_path)[-1].name == "step-000000010.ckpt"


def test_checkpointed_saves_every_so_often(tmp_path: Path) -> None:
    state = start()
    for record in checkpointed(records(state, 4), state, tmp_path, seconds=0.0):
        assert checkpoints(tmp_path)[-1].name == f"step-{record.step:09d}.ckpt"


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_waits_for_the_update_and_saves(
    signum: signal.Signals, tmp_path: Path
) -> None:
    straight, state = run(start(), 10), start()

    def interrupted() -> Iterator[Record]:
        for record in records(state):
            if record.step == 4:
                os.kill(os.getpid(), signum)
            yield record

    seen = []
    with pytest.raises(KeyboardInterrupt):
        for record in checkpointed(interrupted(), state, tmp_path):
            seen.append(record.step)  # noqa: PERF401
    assert seen == [1, 2, 3, 4]
    resumed = start()
    assert resume(resumed, tmp_path)
    assert resumed.step == 4
    assert_same(run(resumed, 10), straight)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_while_processes_agree_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They wait for each other most of the time: a signal that comes then counts at the next."""
    state = start()
    agreed = Group.any

    def interrupted(group: Group, *here: bool) -> list[bool]:
        if state.step == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return agreed(group, *here)

    monkeypatch.setattr(Group, "any", interrupted)
    with pytest.raises(KeyboardInterrupt):
        for _ in checkpointed(records(state), state, tmp_path):
            pass
    assert [path.name for path in checkpoints(tmp_path)] == ["step-000000003.ckpt"]


class Pair(Group):
    """Two processes, of which the other is always of this one's mind."""

    def any(self, *here: bool) -> list[bool]:
        return list(here)


def test_of_two_processes_none_leaves_between_updates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be missed by the other, which is in the next update; alone it leaves at once."""

    def interrupted_after_the_second(folder: Path) -> list[str]:
        state = start()
        with pytest.raises(KeyboardInterrupt):
            for record in checkpointed(records(state), state, folder):
                if record.step == 2:
                    os.kill(os.getpid(), signal.SIGINT)
        return [path.name for path in checkpoints(folder)]

    assert interrupted_after_the_second(tmp_path / "alone") == ["step-000000002.ckpt"]
    monkeypatch.setattr(checkpoint, "current_group", lambda: Pair(0, 2))
    assert interrupted_after_the_second(tmp_path / "two") == ["step-000000003.ckpt"]


def test_a_divergence_is_saved(tmp_path: Path) -> None:
    state = start()

    def diverging() -> Iterator[Record]:
        yield from records(state, 3)
        raise DivergedError("update 4: loss nan", state)

    with pytest.raises(DivergedError):
        for _ in checkpointed(diverging(), state, tmp_path):
            pass
    assert checkpoints(tmp_path)[-1].name == "step-000000003.ckpt"


def test_another_error_saves_what_there_is(tmp_path: Path) -> None:
    state = start()

    def failing() -> Iterator[Record]:
        yield from records(state, 3)
        raise ValueError("the data loader broke")

    with pytest.raises(ValueError, match="loader"):
        for _ in checkpointed(failing(), state, tmp_path):
            pass
    assert checkpoints(tmp_path)[-1].name == "step-000000003.ckpt"


def test_a_divergence_leaves_a_state_that_evaluates(tmp_path: Path) -> None:
    """A step that ruins the weights shows only in the update after it; both are taken back."""
    torch.manual_seed(0)
    net = MLP(2, width=16)
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    state = TrainState.start(net, PS_USP, optimizer)
    with pytest.raises(DivergedError, match="update 5"):
        for record in checkpointed(records(state), state, tmp_path, seconds=0.0):
            if record.step == 3:
                optimizer.param_groups[0]["lr"] = 1e30
    assert state.step == 3
    resumed = TrainState.start(net, PS_USP, torch.optim.SGD(net.parameters(), 1e-3))
    assert resume(resumed, tmp_path)
    assert resumed.step == 3
    assert torch.isfinite(resumed.module(DATA)).all()


def test_a_folder_with_a_longer_run_is_not_overwritten(tmp_path: Path) -> None:
    save(run(start(), 6), tmp_path)
    state = start()
    with pytest.raises(CheckpointError, match="ahead of the state, which is at step 0"):
        next(checkpointed(records(state), state, tmp_path))
    assert [p.name for p in checkpoints(tmp_path)] == ["step-000000006.ckpt"]


def test_a_state_that_went_back_drops_what_is_ahead(tmp_path: Path) -> None:
    for step in (2, 5, 6, 4):
        save(run(start(), step), tmp_path)
    assert [p.name for p in checkpoints(tmp_path)] == ["step-000000004.ckpt"]
    save(run(start(), 5), tmp_path)
    assert [p.name for p in checkpoints(tmp_path)] == ["step-000000004.ckpt", "step-000000005.ckpt"]


def test_the_second_interrupt_does_not_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = start()
    monkeypatch.setattr(interrupts, "SAME_INTERRUPT", -1.0)  # no time need pass between them

    def interrupted_twice() -> Iterator[Record]:
        yield from records(state, 2)
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        yield from records(state, 3)

    with pytest.raises(KeyboardInterrupt):
        for _ in checkpointed(interrupted_twice(), state, tmp_path):
            pass
    assert state.step == 2
    assert not checkpoints(tmp_path)


def test_numbers_of_numpy_can_be_read_back(tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = MLP(2, width=16)
    state = TrainState.start(net, PS_USP, torch.optim.Adam(net.parameters(), np.float64(1e-3)))
    load_checkpoint(state, save(run(state, 1), tmp_path))
    assert type(state.optimizer.param_groups[0]["lr"]) is float


def test_a_module_that_draws_resumes_exactly(tmp_path: Path) -> None:
    def dropping() -> TrainState:
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(2, 16), nn.Dropout(0.3), nn.Linear(16, 1), nn.Flatten(0))
        return TrainState.start(net, PS_USP, torch.optim.Adam(net.parameters(), 1e-2))

    straight = run(dropping(), 6)
    save(run(dropping(), 2), tmp_path)
    torch.manual_seed(77)
    resumed = dropping()
    torch.manual_seed(78)
    resume(resumed, tmp_path)
    assert_same(run(resumed, 6), straight)


# -- snapshots ---------------------------------------------------------------------------------


def test_snapshots_hold_the_weights_alone(tmp_path: Path) -> None:
    state = run(start(), 3)
    path = tmp_path / "weights.safetensors"
    save_snapshot(state.average.module, path, weights="averaged")
    other = MLP(2, width=16)
    load_snapshot(other, path)
    x = BOX.sample(5, generator(0))
    assert torch.equal(other(x), state.average.module(x))
    with pytest.raises(CheckpointError, match="but the state given has"):
        load_snapshot(MLP(2, width=8), path)
    path.write_bytes(b"not a snapshot")
    with pytest.raises(CheckpointError, match="cannot be read"):
        load_snapshot(other, path)
