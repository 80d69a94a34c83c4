"""Calibration by folds: its rates, rows that repeat, and what cannot be folded."""

import math
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from tests.detector.common import X, with_centres
from uspebm import EnergyDetector
from uspebm.detector import fitting
from uspebm.detector.fitting import Plan, fitted, fold_scores, split
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


def common_kinds(draws: np.random.Generator, n: int) -> np.ndarray:
    """Nine of ten rows are of two kinds, the others differ."""
    x = np.repeat(draws.integers(2, size=(n, 1)), 2, axis=1).astype(float)
    other = draws.random(n) < 0.1
    x[other] = draws.normal(size=(other.sum(), 2))
    return np.asarray(x)


@pytest.mark.parametrize("seed", range(5))
def test_common_kinds_are_on_both_sides_and_others_on_one(seed: int) -> None:
    points = torch.from_numpy(common_kinds(np.random.default_rng(seed), 2000))
    points[-60:] = torch.randn(12, 2, dtype=torch.float64).repeat(5, 1)
    inside, held_out = split(points, 400, seed)
    assert 400 <= len(held_out) <= 404
    assert torch.equal(torch.cat([inside, held_out]).sort().values, torch.arange(2000))
    learned, known = ({str(row) for row in points[k].tolist()} for k in (inside, held_out))
    assert learned & known == {"[0.0, 0.0]", "[1.0, 1.0]"}
    # About four of five of those that differ: a hypergeometric law, but for the twelve groups.
    different = len(learned | known) - 2
    spread = math.sqrt(different * 0.8 * 0.2)
    assert abs(len(learned) - 2 - 0.8 * different) < 4 * spread + 4 * 5 * math.sqrt(12 * 0.16)


def test_large_groups_come_no_earlier_than_small_ones() -> None:
    """Forty equal rows, no more than half of what is wanted, have a uniform place among singles."""
    points = torch.cat([torch.zeros(40, 1), torch.arange(1.0, 161.0)[:, None]])
    parts = [split(points, 80, seed)[1] for seed in range(200)]
    assert all(len(part) == 80 for part in parts)
    held = [int((part < 40).sum()) for part in parts]
    assert set(held) == {0, 40}
    chance = 41 / 161  # at most forty singles come before
    assert abs(np.mean(held) / 40 - chance) < 4 * math.sqrt(chance * (1 - chance) / 200)


@pytest.mark.parametrize("calibration", ["folds", 0.3])
def test_common_kinds_are_learned_from(calibration: object) -> None:
    """Rows of none of the kinds are found, and alarms are as rare as stated."""
    draws, shares, found = np.random.default_rng(0), [], []
    far = draws.normal((4, -4), 1.0, size=(200, 2))
    for seed in range(10):
        model = EnergyDetector(calibration=calibration, random_state=seed)  # type: ignore[arg-type]
        model.fit(common_kinds(draws, 400))
        shares.append((model.predict(common_kinds(draws, 500)) == -1).mean())
        found.append((model.predict(far) == -1).mean())
    assert np.mean(found) > 0.9
    assert np.mean(shares) < 0.05 + 4 * np.std(shares) / math.sqrt(10)


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


@pytest.mark.parametrize("value", [99999.0, -1e9])
def test_a_value_that_nobody_measured_is_pointed_out(value: float) -> None:
    rows = np.random.default_rng(0).normal(size=(300, 3))
    rows[:, 2] = rows[:, 0] < 1.5  # mostly one value: no quartiles to tell by
    rows[5, 2] = 1e6
    rows[::7, 1] = np.nan
    found = EnergyDetector(random_state=0)
    found.fit(rows)  # nothing is said of that column
    rows[40, 1] = value
    said = f"column 2 has the value {value:g}, more than 1,000 interq"
    with pytest.warns(UserWarning, match=re.escape(said)) as caught:
        found.fit(rows)
    assert [Path(one.filename) for one in caught] == [Path(__file__)]  # one, where fit was called
    named = Plan("tables", 0, names=("a", "b", "c"))
    with pytest.warns(UserWarning, match=r"column 'b' has .* remove it, or fit with contamin"):
        fitted(named, torch.from_numpy(rows), "folds", lambda _: 0.05)
    found.fit(rows, contamination=0.01)  # it is not learned from


def test_values_within_a_thousand_quartiles_are_not_pointed_out() -> None:
    """Of a column whose quartiles are known: a hair within, and a hair beyond."""
    rows = np.zeros((101, 1)) + np.arange(101.0)[:, None]  # from 25 to 75, median 50
    for value, beyond in ((50_049.0, False), (50_051.0, True), (-49_949.0, False)):
        rows[100] = value
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            EnergyDetector(random_state=0).fit(rows)
        assert bool(caught) == beyond
    few = np.random.default_rng(0).normal(size=(3, 20_000))  # whose quartiles are near by chance
    EnergyDetector(random_state=0, calibration=0.5).fit(few)
