"""Event files say what the log says."""

from pathlib import Path

import pytest

from uspebm.report import tensorboard
from uspebm.report.tensorboard import events_of
from uspebm.training.run_log import write_rows

from .common import rows, write_run


def written(folder: Path, name: str) -> dict[int, float]:
    """The scalars of a run, by their steps, as TensorBoard's own reader finds them."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder))
    found.Reload()
    return {event.step: event.value for event in found.Scalars(name)}


def test_what_is_logged_is_written_run_by_run(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with events_of(runs, tmp_path / "events"):
        write_run(runs / "one", rows(5))
        write_run(runs / "two", rows(3, lambda step: {"ess": 7.0}))
    assert sorted(written(tmp_path / "events" / "one", "ess")) == [1, 2, 3, 4, 5]
    assert written(tmp_path / "events" / "two", "ess") == {1: 7.0, 2: 7.0, 3: 7.0}
    norms = written(tmp_path / "events" / "one", "gradient_norm")
    assert norms[4] == pytest.approx(0.25)


def test_it_follows_while_the_work_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensorboard, "SECONDS_BETWEEN_LOOKS", 0.01)
    run = write_run(tmp_path / "run", rows(2))
    seen: list[int] = []
    look = tensorboard._Follower.look

    def noted(follower: tensorboard._Follower) -> None:
        look(follower)
        seen.append(len(follower._known[run][1]))

    monkeypatch.setattr(tensorboard._Follower, "look", noted)
    with events_of(run, tmp_path / "events"):
        while 2 not in seen:
            pass
        write_rows(run / "log.jsonl", rows(4))
    assert seen[-1] == 4
    assert sorted(written(tmp_path / "events" / "run", "loss")) == [1, 2, 3, 4]


def test_a_run_that_goes_on_is_not_written_twice(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", rows(3))
    with events_of(run, tmp_path / "events"):
        pass
    with events_of(run, tmp_path / "events"):
        write_rows(run / "log.jsonl", rows(5))
    files = sorted((tmp_path / "events" / "run").glob("events.*"))
    steps = [step for file in files for step in written(file, "loss")]
    assert sorted(steps) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("seen", [False, True])
def test_updates_that_are_made_anew_replace_the_former_ones(tmp_path: Path, seen: bool) -> None:
    """Whether or not somebody looked while the log was shorter."""
    run, events = write_run(tmp_path / "run", rows(6)), tmp_path / "events"
    follower = tensorboard._Follower(run, events)
    follower.look()
    kept = rows(2)
    anew = rows(7, lambda step: {"ess": 7.0, "seconds": 0.02})[2:]
    for log in ([kept] if seen else []) + [[*kept, *anew]]:
        write_rows(run / "log.jsonl", log)
        follower.look()
    follower.close()
    assert list(written(events / "run", "ess").values()) == [100.0] * 2 + [7.0] * 5
    files = sorted((events / "run").glob("events.*"))
    assert [list(written(file, "ess")) for file in files] == [[*range(1, 7)], [*range(3, 8)]]


def test_a_damaged_log_does_not_stop_the_work(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", rows(3))
    with events_of(run, tmp_path / "events"):
        (run / "log.jsonl").write_text("damaged\nlines\n")
