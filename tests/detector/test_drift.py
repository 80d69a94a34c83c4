"""Drift: alarms at the stated rate, shifts that are noticed, constant memory."""

import math
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from torch import Tensor, nn

from tests.detector.common import Values
from uspebm import EnergyDetector, load, save_model
from uspebm.detector import drift
from uspebm.detector.drift import DriftMonitor, Streams, batch_drift
from uspebm.detector.reasons import held_rows

DRAWS = np.random.default_rng(0)


def rows(n: int, columns: int = 10, tied: bool = False) -> Values:
    x = DRAWS.normal(size=(n, columns))
    return np.asarray(np.round(x) if tied else x)


@pytest.mark.parametrize(("calibration", "tied"), [("folds", False), ("folds", True), (0.3, False)])
def test_streams_like_the_data_seldom_raise_alarms(calibration: object, tied: bool) -> None:
    """At 10 %, over 40 fits and streams; the batch test, too."""
    alarms = batches = 0
    for seed in range(40):
        found = EnergyDetector(calibration=calibration, random_state=seed)  # type: ignore[arg-type]
        streams = Streams(found.fit(rows(150, 2, tied)))
        monitor = DriftMonitor(streams, 0.1, seed).update(rows(400, 2, tied))
        alarms += monitor.alarm_at is not None
        batches += batch_drift(streams, rows(100, 2, tied)).p_value <= 0.1
    most = 40 * 0.1 + 3 * math.sqrt(40 * 0.1 * 0.9)
    assert alarms <= most
    assert batches <= most


def test_a_shift_in_one_of_ten_columns_is_noticed_within_500_rows() -> None:
    found = Streams(EnergyDetector(random_state=0).fit(rows(600)))
    noticed, named, by_batch = 0, 0, 0
    for seed in range(20):
        monitor = DriftMonitor(found, 0.01, seed).update(rows(300))
        assert monitor.alarm_at is None
        new = rows(500)
        new[:, 3] += 0.5
        monitor.update(new)
        noticed += monitor.alarm_at is not None
        named += monitor.suspects()[0][0] == "column 4"
        batch = batch_drift(found, new)
        by_batch += batch.p_value < 0.01 and batch.name == "column 4"
    assert min(noticed, named, by_batch) >= 18


def test_columns_that_did_not_move_are_seldom_named() -> None:
    """At 10 %, over 40 streams; the three of most evidence, the mutant, name others in most."""
    found, others, by_order = Streams(EnergyDetector(random_state=0).fit(rows(600))), 0, 0
    for seed in range(40):
        new = rows(500)
        new[:, 3] += 1
        monitor = DriftMonitor(found, 0.1, seed).update(new)
        named = monitor.moved()
        assert "column 4" in named
        others += not {"column 4", None} >= set(named)  # the score moved, too
        first = {name for name, value in monitor.suspects()[:3] if value > 0}
        by_order += not {"column 4", "score"} >= first
    assert others <= 40 * 0.1 + 3 * math.sqrt(40 * 0.1 * 0.9) < by_order


def test_a_category_is_named_once_and_by_its_column() -> None:
    frame = pd.DataFrame({"x": rows(400, 1)[:, 0], "kind": DRAWS.choice(["a", "b"], 400)})
    found = EnergyDetector(random_state=0).fit(frame)
    new = frame.assign(kind="a")
    monitor = DriftMonitor(found).update(new)
    assert {name for name, value in monitor.suspects() if value > 5} >= {"kind = a", "kind = b"}
    assert [column for column in monitor.moved() if column] == ["kind"]
    assert batch_drift(found, new).column == "kind"
    # What drifted is still known when the drift is over and its evidence is used up.
    monitor = DriftMonitor(found).update(new[:60])
    assert monitor.alarm_at is not None
    while monitor.suspects()[0][1] > 0:
        monitor.update(frame)
    assert "kind" in monitor.moved()


def test_evidence_that_would_raise_an_alarm_by_itself_is_named() -> None:
    monitor = DriftMonitor(EnergyDetector(random_state=0).fit(rows(100, 3)), 0.01)
    enough = 2 + math.log10(4)  # the score and three columns
    monitor._highest = np.array([0.0, enough, enough - 0.01, enough + 1])
    assert monitor.moved() == ["column 3", "column 1"]
    monitor._highest = np.array([0.0, enough - 0.02, enough - 0.01, 0.1])  # an alarm by both
    assert monitor.moved() == ["column 2"]


def test_rows_in_the_order_of_time_are_no_drift() -> None:
    """Which they were if times of day and days of the week, the mutant, were watched."""
    moments = pd.date_range("2026-01-05", periods=3880, freq="7min")  # two weeks, and more
    frame = pd.DataFrame({"x": np.random.default_rng(1).normal(size=3880), "when": moments})
    streams = Streams(EnergyDetector(random_state=0).fit(frame[:2880]))
    assert streams.dates == ("when",)
    assert DriftMonitor(streams).update(frame[2880:]).alarm_at is None
    held = held_rows(streams._detector.scorer_).numpy()
    streams._watched = np.arange(held.shape[1])
    streams.references = [streams.references[0], *held.T]
    assert DriftMonitor(streams).update(frame[2880:]).alarm_at is not None


def test_a_change_that_no_column_shows_is_seen_by_the_score() -> None:
    x = rows(500, 2)
    x[:, 1] = x[:, 0] + 0.1 * x[:, 1]
    found = EnergyDetector(random_state=0).fit(x)
    new = rows(500, 2)  # the same columns, and no dependence
    monitor = DriftMonitor(found).update(new * x.std(0))
    assert monitor.alarm_at is not None
    assert monitor.suspects()[0][0] == "score"
    assert monitor.moved() == [None]
    assert batch_drift(found, new * x.std(0))[1:] == ("score", None)


def test_memory_is_constant_and_history_has_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drift, "REMEMBERED", 50)
    monitor = DriftMonitor(EnergyDetector(random_state=0).fit(rows(100, 2)))
    sizes = []
    for _ in range(8):
        monitor.update(rows(500, 2))
        sizes.append(sum(sys.getsizeof(v) for v in vars(monitor).values()))
        assert len(monitor.history) <= 50
        # Each on its own: a part of an array would hold all of its chunk.
        assert all(capitals.base is None for _, capitals in monitor.history)
    assert max(sizes[2:]) <= 2 * sizes[2]
    steps = np.diff([row for row, _ in monitor.history])
    assert monitor.rows == 4000
    assert len(set(steps.tolist())) == 1
    assert monitor.history[0][0] == 1


def test_pieces_of_a_stream_and_models_from_disk(tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": rows(300, 1)[:, 0], "kind": DRAWS.choice(["a", "b"], 300)})
    frame["when"] = pd.date_range("2026-01-01", periods=300, freq="h")  # rises: is not watched
    found = EnergyDetector(random_state=0).fit(frame)
    save_model(found, tmp_path / "m")
    new = frame.sample(200, random_state=1).assign(x=lambda f: f["x"] + 2)
    new.iloc[::7, 0] = None
    monitor = DriftMonitor(load(tmp_path / "m"))
    assert set(monitor.names) == {"score", "x", "kind = a", "kind = b", "kind = other"}
    for part in np.array_split(np.arange(200), 7):
        monitor.update(new.iloc[part])
    assert monitor.rows == 200
    assert monitor.update(new.iloc[:0]).rows == 200  # an empty batch is none
    at, lines = monitor.over_time()
    assert (at[0], at[-1]) == (0, 200)
    assert lines[0][1][-1] == monitor.log10_capital
    assert monitor.suspects()[0][0] == "x"
    monitor.draw(tmp_path / "drift.png")
    assert (tmp_path / "drift.png").read_bytes().startswith(b"\x89PNG")


def test_the_picture_counts_images_or_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []

    def note(figure: Figure, *_: object, **__: object) -> None:
        drawn.append(figure.axes[0].get_xlabel())

    monkeypatch.setattr(drift, "save_figure", note)
    for data in (DRAWS.normal(size=(40, 6, 6)), rows(40)):
        found = EnergyDetector(random_state=0).fit(data)
        DriftMonitor(found).update(data[:9]).draw(Path("x.png"))
    assert drawn == ["images", "rows"]


def test_few_images_that_folds_calibrate() -> None:
    """At 10 %, over 100 fits to 24 images; scores by folds for reference, the mutant, break it."""
    draws, alarms, by_folds = np.random.default_rng(0), 0, 0
    pattern = draws.normal(size=(6, 6))

    def images(n: int) -> Values:
        return np.asarray(draws.normal(size=(n, 1, 1)) * pattern + draws.normal(0, 0.02, (n, 6, 6)))

    for seed in range(100):
        found, new = EnergyDetector(random_state=seed).fit(images(24)), images(1000)
        assert found.folded_
        streams = Streams(found)
        assert len(streams.references[0]) == 24 // 5
        alarms += DriftMonitor(streams, 0.1, seed).update(new).alarm_at is not None
        streams._scorer, streams.references = found.scorer_, [found.calibration_scores_]
        by_folds += DriftMonitor(streams, 0.1, seed).update(new).alarm_at is not None
    assert alarms <= 10 + 3 * math.sqrt(9)
    assert by_folds > 10 + 3 * math.sqrt(9)


def test_kinds_of_rows_that_a_split_may_have_taken_are_told_of() -> None:
    kinds = rows(12, 3)
    x = kinds[DRAWS.choice(12, 300)]
    split = EnergyDetector(calibration=0.3, random_state=0).fit(x)
    with pytest.warns(
        UserWarning, match="rows repeat, and the model is not .* calibration 'folds'"
    ):
        DriftMonitor(split)
    once = np.concatenate([rows(200, 3), np.zeros((50, 3))])  # one kind, whichever side it is on
    for seed in range(4):
        with pytest.warns(UserWarning, match="rows repeat"):
            batch_drift(EnergyDetector(calibration=0.5, random_state=seed).fit(once), x)
    DriftMonitor(EnergyDetector(calibration="folds", random_state=0).fit(x))  # no warning
    DriftMonitor(EnergyDetector(calibration=0.3, random_state=0).fit(rows(300, 3)))


def test_what_holds_no_rows_is_watched_by_its_scores() -> None:
    class Bowl(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.square().sum(1)

    found = EnergyDetector.from_energy(Bowl(), rows(200, 2))
    assert DriftMonitor(found).names == ("score",)
    assert DriftMonitor(found).update(rows(300, 2)).alarm_at is None
    assert DriftMonitor(found).update(2 * rows(300, 2)).alarm_at is not None
    with pytest.raises(ValueError, match="false_alarm_rate=0 must lie between 0 and 1"):
        DriftMonitor(found, 0)
