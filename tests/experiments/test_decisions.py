"""What is promised of decisions: a smoke run, and a promise that is broken is told."""

from pathlib import Path

import numpy as np

from uspebm.experiments import decisions


def test_everything_is_measured(tmp_path: Path) -> None:
    claims = decisions.run(tmp_path, decisions.SMOKE, 1)
    names = " ".join(claim.name for claim in claims)
    for what in ("split", "folds", "other rows", "weights", "confidence", "discoveries", "causes"):
        assert what in names
    assert (tmp_path / "results.json").exists()


def test_a_rate_that_is_not_kept_is_told() -> None:
    wrong = decisions._judged("alarms, ≤ 0.05", [np.full(200, 0.06) + 0.001 * np.arange(200) / 200])
    assert not wrong.holds
    assert decisions._judged("alarms, ≤ 0.05", [np.array([0.0, 0.1, 0.04, 0.08])]).holds
    assert not decisions._judged("found, ≥ 0.9", [np.array([0.8, 0.9])]).holds
