"""Calibration by folds: its rates, rows that repeat, and what cannot be folded."""

import math

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from tests.detector.common import X, with_centres
from uspebm import EnergyDetector
from uspebm.detector import fitting
from uspebm.detector.fitting import Plan, fold_scores, split
from uspebm.detector.scorer import Scorer
from uspebm.evaluation.calibration import threshold

RATES = (0.01, 0.05, 0.1)


def rates(make: str, fits: int = 40, rows: int = 199) -> tuple[np.ndarray, np.ndarray]:
    """Shares of alarms among new points, and their standard errors."""
    draws = np.random.default_rng(0)

    def drawn(n: int) -> np.ndarray:
        if make == "counts":
            return draws.poisson(2, size=(n, 3)).astype(float)
        return draws.normal(size=(n, 3))

    shares = []
    for seed in range(fits):
        found = EnergyDetector(random_state=seed, calibration="folds").fit(drawn(rows))
        scores = found.score_samples(drawn(500))
        known = found.calibration_scores_
        shares.append([(scores < threshold(known, rate)).mean() for rate in RATES])
    return np.mean(shares, 0), np.std(shares, 0) / math.sqrt(fits)


@pytest.mark.parametrize("make", ["normal", "counts"])
def test_false_alarms_of_folds_are_no_more_than_stated(make: str) -> None:
    """On average over fits. New rows meet a fourth more rows than the folds did: rather fewer."""
    mean, error = rates(make)
    assert (mean < np.array(RATES) + 4 * error).all()
    if make == "normal":
        assert (mean > 0.5 * np.array(RATES) - 4 * error).all()


def test_scores_by_energies_that_know_the_points_break_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The mutant: rows a hair from themselves score too well, and new ones raise alarms."""

    def leaky(plan: Plan, points: torch.Tensor) -> torch.Tensor:
        made = fitting.learn(plan, points)
        return Scorer(made.units, made.energy).eval().in_parts(points + 1e-4)

    monkeypatch.setattr(fitting, "fold_scores", leaky)
    mean, error = rates("normal", fits=10)
    assert (mean > np.array(RATES) + 4 * error).all()


def test_rows_that_repeat_stay_together() -> None:
    kinds = torch.randn(40, 3, dtype=torch.float64)
    kinds[::3, 1] = math.nan  # gaps are equal where they are
    points = kinds.repeat(5, 1)
    inside, held_out = split(points, 40, seed=0)
    assert len(inside) + len(held_out) == 200
    assert len(held_out) >= 40
    both = ({str(row) for row in points[part].tolist()} for part in (inside, held_out))
    assert not set.intersection(*both)
    # In folds too: each kind is scored by an energy that never saw it, the same for all copies.
    scores = fold_scores(Plan("tables", 0), points).view(5, 40)
    assert torch.equal(scores, scores[:1].expand(5, 40))


def test_where_all_rows_are_alike_they_are_split_anyway() -> None:
    inside, held_out = split(torch.ones(10, 2), 2, seed=0)
    assert (len(inside), len(held_out)) == (8, 2)
    assert not EnergyDetector(random_state=0).fit(np.ones((30, 2))).folded_


def test_folds_are_for_what_is_made_in_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert EnergyDetector(random_state=0).fit(X).folded_
    assert len(EnergyDetector(random_state=0).fit(X).calibration_scores_) == len(X)
    assert not EnergyDetector(random_state=0, calibration=0.2).fit(X).folded_
    trained = EnergyDetector(with_centres(20), max_updates=1, random_state=0)
    assert not trained.fit(X).folded_
    with pytest.raises(ValueError, match="calibration='folds' is for recipes that train nothing"):
        trained.set_params(calibration="folds").fit(X)
    with pytest.raises(ValueError, match="calibration='often' must be one of 'auto', 'folds'"):
        trained.set_params(calibration="often").fit(X)
    monkeypatch.setattr(fitting, "MOST_FOLDED", len(X) - 1)
    assert not EnergyDetector(random_state=0).fit(X).folded_


def test_faults_in_the_training_table_are_found_in_it() -> None:
    """One in twenty rows is of another kind, and none of them has a neighbour of its own."""
    draws = np.random.default_rng(0)
    rows = draws.normal(size=(1000, 4)) @ draws.normal(size=(4, 4))
    faults = np.arange(1000) < 50
    rows[faults] = 4 * draws.normal(size=(50, 4))
    found = EnergyDetector(random_state=0, false_alarm_rate=0.05)
    assert roc_auc_score(~faults, found.fit(rows).score_samples(rows)) > 0.9
    shares = []
    for contamination in (0.0, 0.05):
        alarms = found.fit(rows, contamination=contamination).predict(rows) == -1
        shares.append(alarms[faults].mean())
        assert alarms[~faults].mean() < 0.1
    assert shares[1] > shares[0] + 0.05
    with pytest.raises(ValueError, match=r"contamination=0\.7 must lie between 0 and 0\.5"):
        found.fit(rows, contamination=0.7)
    with pytest.raises(ValueError, match="recipes that train nothing"):
        EnergyDetector("tables-density").fit(rows, contamination=0.1)
