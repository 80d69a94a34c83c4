"""A run from its record: repeated to the last bit, or the first difference named."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.recipes.common import mixture, small_table
from tests.recipes.test_rollback import made_to_run_away, stopped
from tests.recipes.test_run import CROWDED, LAW, RECIPE, scheduled
from uspebm import CheckpointError, train
from uspebm.recipes import Recipe, Run, repeat
from uspebm.recipes.held_out import HeldOut
from uspebm.recipes.record import RUN_RECORD, environment, note, read_record
from uspebm.recipes.repeat import first_difference, repeated
from uspebm.support.reading import UnreadableError
from uspebm.training.run_log import log_rows, write_rows


def trained(folder: Path, recipe: Recipe = RECIPE, data: Any = LAW) -> Path:
    train(recipe, data, folder, seed=3, show=False)
    return folder


def edited(folder: Path, **changes: Any) -> None:
    record = read_record(folder)._replace(**changes)
    about = {"law": record.law, "weights": record.weights}
    write_rows(folder / RUN_RECORD, [about, *record.environments])


def test_a_record_says_what_a_run_was_made_with(tmp_path: Path) -> None:
    record = read_record(trained(tmp_path / "m"))
    assert record.environments == [environment()]
    assert record.environments[0]["torch"] == torch.__version__
    assert record.law["kind"] == "GaussianMixture"
    assert len(record.weights or "") == 16


def test_a_law_is_drawn_from_again(tmp_path: Path) -> None:
    found = repeated(trained(tmp_path / "m"), tmp_path / "again", None, show=False)
    assert found.difference is None
    assert found.changed == []
    assert found.updates == 8
    assert found.weights == read_record(tmp_path / "m").weights


@pytest.mark.parametrize("kind", ["table", "images"])
def test_points_are_given_again(tmp_path: Path, kind: str) -> None:
    if kind == "table":
        data = mixture(300).double()
        recipe = small_table(updates=30, held_out=HeldOut(every=10))
    else:
        data, recipe = (
            2 * torch.rand(60, 1, 8, 8, generator=torch.Generator().manual_seed(0)) - 1,
            CROWDED,
        )
    trained(tmp_path / "m", recipe, data.float())
    assert repeated(tmp_path / "m", tmp_path / "again", data, show=False).difference is None
    data[7, 0] += 1e-3
    other = repeated(tmp_path / "m", tmp_path / "other", data, show=False)
    assert other.difference is not None
    assert other.difference.startswith("the data: their fingerprint was ")
    assert not (tmp_path / "other").exists()
    with pytest.raises(ValueError, match="give them as --data"):
        repeated(tmp_path / "m", tmp_path / "none", None)


def test_the_first_line_that_differs_is_named(tmp_path: Path) -> None:
    trained(tmp_path / "m")
    rows = log_rows(tmp_path / "m" / "log.jsonl")
    rows[4]["loss"] += 1e-12
    rows[6]["loss"] += 1
    rows[2]["seconds"] += 1  # is no part of the result
    write_rows(tmp_path / "m" / "log.jsonl", rows)
    found = repeated(tmp_path / "m", tmp_path / "again", None, show=False)
    assert found.difference is not None
    assert found.difference.startswith("log.jsonl, 5, loss: was ")


def test_other_weights_after_the_same_log_are_named(tmp_path: Path) -> None:
    edited(trained(tmp_path / "m"), weights="0" * 16)
    found = repeated(tmp_path / "m", tmp_path / "again", None, show=False)
    assert found.difference is not None
    assert found.difference.startswith("the weights: their digest was 0000000000000000, is ")


def test_another_seed_is_another_run(tmp_path: Path) -> None:
    """The mutant: what decides about a run is read from its record."""
    folder = trained(tmp_path / "m")
    settings = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(settings | {"seed": 4}))
    found = repeated(folder, tmp_path / "again", None, show=False)
    assert found.difference is not None
    assert found.difference.startswith("log.jsonl, 1, loss")


def test_other_versions_are_told_and_threads_are_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained(tmp_path / "m")
    now = environment()
    many = now | {"threads": 2, "processes": 4}
    edited(tmp_path / "m", environments=[now | {"torch": "1.0"}, many])
    seen = []

    class Watched(Run):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            seen.append(torch.get_num_threads())

    monkeypatch.setattr(repeat, "Run", Watched)
    found = repeated(tmp_path / "m", tmp_path / "again", None, show=False)
    told = [f"torch was 1.0, is {torch.__version__}", "threads was 1, is 2"]
    assert found.changed == [*told, "processes was 4, is 1"]
    assert seen == [2]
    assert torch.get_num_threads() == 1


def test_an_interrupted_run_is_repeated_as_far_as_it_came(tmp_path: Path) -> None:
    run = Run(scheduled(updates=50), LAW, tmp_path / "m", 0, show=False)
    for record in run:
        if record.step == 5:
            break
    found = repeated(tmp_path / "m", tmp_path / "again", None, show=False)
    assert (found.difference, found.updates, found.weights) == (None, 5, None)


def test_every_environment_of_a_resumed_run_is_kept(tmp_path: Path) -> None:
    run = Run(scheduled(updates=6), LAW, tmp_path / "m", 0, show=False)
    for record in run:
        if record.step == 3:
            break
    made = environment() | {"torch": "1.0"}
    edited(tmp_path / "m", environments=[made])
    train(scheduled(updates=6), LAW, tmp_path / "m", 0, show=False)
    assert read_record(tmp_path / "m").environments == [made, environment()]
    note(tmp_path / "m", "cpu", None, step=0)
    assert read_record(tmp_path / "m").environments == [environment()]


def test_what_cannot_be_repeated_says_why(tmp_path: Path) -> None:
    folder = trained(tmp_path / "m")
    edited(folder, law={"kind": "Mine", "repr": "Mine()"})
    with pytest.raises(ValueError, match="cannot be repeated by its record: Mine is no part"):
        repeated(folder, tmp_path / "again", None)
    content = (folder / RUN_RECORD).read_bytes()
    (folder / RUN_RECORD).write_bytes(content.replace(b"Mine", b"Nine"))
    with pytest.raises(CheckpointError, match=r"record\.jsonl: line 1 is damaged"):
        repeated(folder, tmp_path / "again", None)
    write_rows(folder / RUN_RECORD, [{"law": None, "weights": None}])
    with pytest.raises(UnreadableError, match="what the run was made with is missing"):
        repeated(folder, tmp_path / "again", None)
    (folder / RUN_RECORD).unlink()
    with pytest.raises(UnreadableError, match=r"has no record\.jsonl"):
        repeated(folder, tmp_path / "again", None)
    settings = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(settings | {"seed": "3"}))
    with pytest.raises(UnreadableError, match=r"run\.json is damaged: seed='3' is no whole number"):
        repeated(folder, tmp_path / "again", None)
    shutil.copy(folder / "log.jsonl", folder / "run.json")
    with pytest.raises(UnreadableError, match=r"run\.json is damaged"):
        repeated(folder, tmp_path / "again", None)


def test_differences_are_found_at_any_depth() -> None:
    nan = float("nan")
    assert first_difference({"a": [nan, {"b": None}]}, {"a": [nan, {"b": None}]}, "x") is None
    assert first_difference([1, 2], [1], "x") == "x, length: was 2, is 1"
    assert first_difference({"a": 1}, {"a": 1, "b": [0.5]}, "x") == "x, b: was null, is [0.5]"
    last_bit = first_difference({"a": 0.1}, {"a": 0.1 + 1e-17}, "x")
    assert last_bit == "x, a: was 0.1, is 0.10000000000000002"
    assert first_difference(1, 1.0, "x") == "x: was 1, is 1.0"


@pytest.mark.parametrize("at", [6, 12])
def test_an_interrupted_run_that_had_gone_back_is_repeated_as_far_as_it_came(
    at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had come further before, on the way that it gave up."""
    made_to_run_away(monkeypatch)
    assert stopped(tmp_path / "m", at, times=1).state.step == at
    found = repeated(tmp_path / "m", tmp_path / "again", None, show=False)
    assert found.difference is None
    assert found.updates == at
    rows = log_rows(tmp_path / "m" / "log.jsonl")
    rows[5]["loss"] += 1e-12
    write_rows(tmp_path / "m" / "log.jsonl", rows)
    found = repeated(tmp_path / "m", tmp_path / "other", None, show=False)
    assert (found.difference or "").startswith("log.jsonl, 6, loss: was ")
