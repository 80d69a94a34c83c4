"""Whenever a run is killed, what it leaves in the end is what an undisturbed one leaves."""

from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from tests.recipes.common import mixture, small_images, small_table
from tests.recipes.test_run import CROWDED
from uspebm import Recipe, train
from uspebm.recipes import run as run_module
from uspebm.recipes.held_out import HeldOut
from uspebm.training import checkpoint
from uspebm.training.run_log import log_rows

TABLE = small_table(updates=8, held_out=HeldOut(every=2, patience=9))


class Killed(BaseException):
    """Nobody catches it, as nobody catches a kill."""


def left(folder: Path) -> dict[str, Any]:
    """All but the checkpoints, whose names tell when they were made; the log without its times."""
    files = [p for p in folder.rglob("*") if p.is_file() and p.suffix != ".ckpt"]
    found: dict[str, Any] = {str(p.relative_to(folder)): p.read_bytes() for p in files}
    rows = log_rows(folder / "log.jsonl")
    found["log.jsonl"] = [{k: v for k, v in row.items() if k != "seconds"} for row in rows]
    return found


@pytest.mark.parametrize(
    ("recipe", "data"),
    [(CROWDED, small_images(30)), (TABLE, mixture(300))],
    ids=["with snapshots", "with looks"],
)
def test_killed_after_any_checkpoint_nothing_is_missing(
    recipe: Recipe, data: Tensor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(recipe, data, tmp_path / "straight", 0, show=False)
    monkeypatch.setattr(run_module, "SECONDS_BETWEEN_CHECKPOINTS", 0.0)
    save = checkpoint.save
    for at in range(1, 9):
        with monkeypatch.context() as patch:

            def saved_and_killed(state: Any, folder: Any, at: int = at) -> Path:
                save(state, folder)
                if state.step == at:
                    raise Killed
                return Path()

            patch.setattr(checkpoint, "save", saved_and_killed)
            with pytest.raises(Killed):
                train(recipe, data, tmp_path / str(at), 0, show=False)
        train(recipe, data, tmp_path / str(at), 0, show=False)
        assert left(tmp_path / str(at)) == left(tmp_path / "straight")
