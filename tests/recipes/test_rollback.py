"""Going back: where to, what is forgotten, and that an interruption changes nothing of it."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.recipes.common import mixture, small_table
from tests.recipes.test_kills import Killed, left
from tests.recipes.test_run import LAW, scheduled, weights
from tests.training.processes import in_processes
from uspebm import DivergedError, Record, fit, load_snapshot, train
from uspebm.recipes import Run, held_out, rollback
from uspebm.recipes import run as run_module
from uspebm.recipes.held_out import HeldOut
from uspebm.support.group import current_group
from uspebm.training import archive, checkpoint
from uspebm.training.checkpoint import checkpoints
from uspebm.training.run_log import whole_rows

RATE = 0.1
WILD = scheduled(updates=20, learning_rate=RATE, rollbacks=2)


class RunsAway:
    """``fit``, which at rates as high as this diverges after update 13."""

    def __init__(self, above: float = RATE / 2) -> None:
        self.above, self.at, self.rate = above, 0, 0.0
        self.fit: Callable[..., Iterator[Record]] = fit

    def __call__(self, state: Any, *arguments: Any, **settings: Any) -> Iterator[Record]:
        self.rate = state.scheduler.base_lrs[0]
        self.check(state)
        for record in self.fit(state, *arguments, **settings):
            self.at = record.step
            yield record
            self.check(state)

    def check(self, state: Any) -> None:
        if state.step == 13 and self.rate > self.above:
            raise DivergedError("update 14: loss nan", state)


def made_to_run_away(monkeypatch: pytest.MonkeyPatch) -> RunsAway:
    """All runs from now on, which keep a state every five updates."""
    wild = RunsAway()
    monkeypatch.setattr(run_module, "fit", wild)
    monkeypatch.setattr(rollback, "KEEP_EVERY", 5)
    return wild


@pytest.fixture
def runs_away(monkeypatch: pytest.MonkeyPatch) -> RunsAway:
    return made_to_run_away(monkeypatch)


def stopped(folder: Path | None, at: int, times: int = 0) -> Run:
    """A run that is interrupted after an update, once it has gone back so many times."""
    run = Run(WILD, LAW, folder, 0, show=False)
    for record in run:
        if record.step == at and len(run.rollback.done) == times:
            break
    return run


@pytest.mark.parametrize(("at", "times"), [(3, 0), (10, 0), (12, 0), (7, 1)])
def test_an_interrupted_run_goes_back_to_where_it_would_have(
    at: int, times: int, tmp_path: Path, runs_away: RunsAway
) -> None:
    """The rate is halved twice: first from the older of two states, then from the only one."""
    runs_away.above = RATE / 4
    train(WILD, LAW, tmp_path / "straight", 0, show=False)
    assert stopped(tmp_path / "m", at, times).state.step == at
    assert checkpoints(tmp_path / "m" / "rollback")
    resumed = train(WILD, LAW, tmp_path / "m", 0, show=False)
    record = whole_rows(tmp_path / "m" / "rollbacks.jsonl")
    assert [(one["diverged_after"], one["back_to"]) for one in record] == [(13, 5)] * 2
    assert resumed.state.step == 20
    assert left(tmp_path / "m") == left(tmp_path / "straight")
    assert not (tmp_path / "m" / "rollback").exists()  # nothing is left to go back from


def test_in_memory_too(runs_away: RunsAway) -> None:
    expected = weights(train(WILD, LAW, None, 0, show=False))
    run = stopped(None, 12)
    list(run)
    assert run.rollback.done[0]["back_to"] == 5
    assert all(torch.equal(a, b) for a, b in zip(weights(run), expected, strict=True))


@pytest.mark.parametrize("when", ["before its checkpoint", "after it", "in keeping the state"])
def test_killed_while_it_goes_back_it_goes_back_once(
    when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runs_away: RunsAway
) -> None:
    schedule = replace(WILD.schedule, snapshot_every=1, rollbacks=1)
    recipe = replace(WILD, schedule=schedule)
    train(recipe, LAW, tmp_path / "straight", 0, show=False)
    module = rollback if when == "in keeping the state" else run_module
    save = checkpoint.save

    def killed(state: Any, folder: Path) -> None:
        if not (tmp_path / "m" / "rollbacks.jsonl").exists():
            save(state, folder)
            return
        if when == "after it":
            save(state, folder)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(module, "save", killed)
        with pytest.raises(Killed):
            train(recipe, LAW, tmp_path / "m", 0, show=False)
    train(recipe, LAW, tmp_path / "m", 0, show=False)
    assert left(tmp_path / "m") == left(tmp_path / "straight")


def test_a_folder_of_before_there_were_such_states_goes_on(
    tmp_path: Path, runs_away: RunsAway
) -> None:
    stopped(tmp_path / "m", 12)
    for path in checkpoints(tmp_path / "m" / "rollback"):
        path.unlink()
    run = train(WILD, LAW, tmp_path / "m", 0, show=False)
    assert run.state.step == 20
    assert run.rollback.done[0]["back_to"] == 12


def in_two(folder: Path) -> tuple[list[Tensor], list[Tensor], list[Any]]:
    run_module.fit = RunsAway()  # type: ignore[attr-defined]
    rollback.KEEP_EVERY = 5
    straight = train(WILD, LAW, folder / "straight", 0, show=False)
    stopped(folder / "m", 12)
    resumed = train(WILD, LAW, folder / "m", 0, show=False)
    current_group().any(True)  # the other has not ended while this one still reads
    return weights(straight), weights(resumed), resumed.rollback.done


def test_two_processes_go_back_together(tmp_path: Path) -> None:
    for straight, resumed, done in in_processes(2, in_two, tmp_path):
        assert [one["back_to"] for one in done] == [5]
        assert all(torch.equal(a, b) for a, b in zip(straight, resumed, strict=True))


def full_in_two(folder: Path) -> str:
    rollback.KEEP_EVERY = 5
    whole_file = archive.whole_file  # type: ignore[attr-defined]

    def full(path: Path) -> Any:
        if path.parent.name == "rollback" and path.stem.endswith("5"):
            raise OSError(28, "No space left on device", str(path))
        return whole_file(path)

    archive.whole_file = full  # type: ignore[attr-defined]
    try:
        train(WILD, LAW, folder, 0, show=False)
    except OSError as error:
        return type(error).__name__
    return ""


def test_where_a_state_cannot_be_kept_both_processes_save_and_end(tmp_path: Path) -> None:
    assert in_processes(2, full_in_two, tmp_path) == ["OSError", "LostProcessError"]
    assert [path.name for path in checkpoints(tmp_path)] == ["step-000000005.ckpt"]


LOOKS = {5: 1.0, 10: 5.0}
"""On the way that is given up; and on the other:"""
LATER = {5: 1.0, 10: 0.5, 15: 0.4, 20: 0.3}


@pytest.mark.parametrize("at", [0, 12], ids=["straight", "interrupted"])
@pytest.mark.parametrize("kept", [False, True])
def test_looks_of_a_way_that_was_given_up_are_forgotten(
    at: int, kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runs_away: RunsAway
) -> None:
    """What was best on it is not what is returned, and patience does not count from there."""
    runs_away.above = RATE / 4

    def scripted(*_: Any) -> Callable[[nn.Module | None], float]:
        def look(network: nn.Module | None) -> float:
            said = LOOKS if runs_away.rate > runs_away.above else LATER
            return 0.0 if network is None else said[runs_away.at]

        return look

    monkeypatch.setattr(held_out, "_held_out_likelihood", scripted)
    folder, data = tmp_path / "m" if kept else None, mixture(100)
    recipe = small_table(updates=40, rate=RATE, held_out=HeldOut(every=5, patience=3))
    recipe = replace(recipe, schedule=replace(recipe.schedule, rollbacks=2))
    run = Run(recipe, data, folder, 0, show=False)
    fifth = None
    for record in run:
        if record.step == 5 and fifth is None:
            fifth = [p.clone() for p in run.state.average.module.parameters()]
        if record.step == at:
            break
    if at and kept:
        assert run.judge is not None
        assert run.judge.best.update == 10
        run = Run(recipe, data, folder, 0, show=False)
    list(run)
    assert run.judge is not None
    assert [tuple(look) for look in run.judge.curve] == [(0, 0.0), *LATER.items()]
    assert run.judge.best.update == 5
    assert run.state.step == 20  # three looks without a better one
    assert fifth is not None
    assert all(
        torch.equal(a, b) for a, b in zip(run.judge.network.parameters(), fifth, strict=True)
    )
    if folder is not None:
        assert [row["update"] for row in whole_rows(folder / "curve.jsonl")] == [0, 5, 10, 15, 20]
        load_snapshot(run.judge.network, folder / "best.safetensors")
        found = run.judge.network.parameters()
        assert all(torch.equal(a, b) for a, b in zip(found, fifth, strict=True))
