"""Two runs on one folder: one is made, the other is told, and nothing of the first is touched."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.recipes.test_run import LAW, RECIPE, scheduled
from uspebm import CheckpointError, Leveled, train
from uspebm.recipes import Run
from uspebm.support.locks import FolderInUseError


def content(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_the_second_changes_nothing(tmp_path: Path) -> None:
    """Neither before the first checkpoint nor after it, with the same settings or others."""
    late = Run(RECIPE, LAW, tmp_path / "m", 0, show=False)
    other = replace(RECIPE, objective=Leveled(1.0))
    for record in Run(RECIPE, LAW, tmp_path / "m", 0, show=False):
        if record.step in (1, 5):
            before = content(tmp_path / "m")
            for recipe in (RECIPE, other):
                with pytest.raises(FolderInUseError, match="another process trains there"):
                    train(recipe, LAW, tmp_path / "m", 0, show=False)
            with pytest.raises(FolderInUseError):
                next(iter(late))
            assert content(tmp_path / "m") == before
    straight = train(RECIPE, LAW, tmp_path / "straight", 0, show=False)
    mine = {k: v for k, v in content(tmp_path / "m").items() if k != "log.jsonl"}
    assert mine == {k: v for k, v in content(tmp_path / "straight").items() if k != "log.jsonl"}
    assert len(straight.history) == len(Run(RECIPE, LAW, tmp_path / "m", 0).history) == 8


def test_who_comes_too_late_forgets_nothing(tmp_path: Path) -> None:
    """Made before the other one began, and started after it ended."""
    late = Run(RECIPE, LAW, tmp_path / "m", 0, show=False)
    train(RECIPE, LAW, tmp_path / "m", 0, show=False)
    before = content(tmp_path / "m")
    with pytest.raises(CheckpointError, match="ahead of the state, which is at step 0"):
        next(iter(late))
    assert content(tmp_path / "m") == before


def test_the_folder_is_signed_by_who_trains_there(tmp_path: Path) -> None:
    mine = Run(RECIPE, LAW, tmp_path / "m", 0, show=False)
    Run(scheduled(updates=9), LAW, tmp_path / "m", 1, show=False)  # made, and never begun
    for record in mine:
        if record.step == 2:
            break
    resumed = Run(RECIPE, LAW, tmp_path / "m", 0, show=False)
    assert resumed.state.step == 2


def test_a_run_may_be_looked_at_while_it_is_made(tmp_path: Path) -> None:
    run = Run(RECIPE, LAW, tmp_path / "m", 0, show=False)
    for record in run:
        if record.step == 4:
            break
    for record in run:
        if record.step == 6:
            looked = Run(RECIPE, LAW, tmp_path / "m", 0, show=False)
            assert looked.state.step == 4
            assert len(looked.history) == 6
