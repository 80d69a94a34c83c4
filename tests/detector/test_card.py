"""What people read of a model: the card, and the verdict in one sentence."""

import copy
import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.detector.common import (
    Own,
    X,
    fitted,
    own_recipe,
    reference_only,
    small,
    tilted,
    with_centres,
)
from tests.detector.models import FRAME, TABLE, made
from uspebm import EnergyDetector, load, save_model
from uspebm.detector.card import card, draw_curve
from uspebm.energies.neighbour import NeighbourRule
from uspebm.energies.scaling import Scaling
from uspebm.recipes.held_out import HeldOut, Look
from uspebm.report.thresholds import threshold_sheet


def test_the_card_says_what_one_should_know() -> None:
    detector = made("data frame")
    text = card(detector, "Pumps", "120 rows of pumps.csv")
    assert text.startswith(
        "# Pumps\n\nRecipe tables-density: a kernel density and a network, kept after "
    )
    assert "\n## Data\n\n- Fitted to 120 rows of pumps.csv.\n" in text
    assert "3 columns" in text
    assert "- Columns left out: 'id', 'größe'." in text
    assert f"{len(detector.calibration_scores_)} points kept for calibration" in text
    held = tilted(detector).reference.centres
    mean = detector.scorer_.scaling.inverse(held).mean(0)
    assert f"| α | {mean[0]:.6g} | " in text
    assert f"| d\\|e | {mean[2]:.6g} | " in text
    row = next(line for line in text.splitlines() if line.startswith("| b, c |"))
    low, high = map(float, row.split("|")[3:5])
    # Six digits: known to five millionths.
    assert TABLE[:, 1].min() * 1.000005 <= low < high <= TABLE[:, 1].max() * 1.000005
    best = max(detector.curve_, key=lambda look: look.log_likelihood)
    assert f"{detector.curve_[0].log_likelihood:.4g} of the reference alone" in text
    assert f"the best of 2 looks is {best.log_likelihood:.4g}" in text
    assert f"| 5.0% | {detector.offset_:.6g} |" in text
    assert "| 0.1% | needs more calibration points |" in text
    assert "](curve.png)" in text
    assert "](curve.png)" not in card(detector, "Pumps", curve=False)
    assert "8 × 8 pixels of 3 channels" in card(made("colour"), "Pictures")
    assert "| number 1 | " in card(made("table"), "Nameless")
    assert "Columns left out" not in card(fitted(), "All of them")


def test_thresholds_by_weights_are_those_that_decide() -> None:
    """At each rate, for points of mean weight; no interval is claimed."""
    draws = np.random.default_rng(0)
    known, new = draws.normal(size=(600, 2)), 3 * draws.normal(size=(500, 2))
    plain = EnergyDetector(random_state=0).fit(draws.normal(size=(200, 2))).recalibrated(known)
    weights = np.exp(known[:, 0])
    found = plain.recalibrated(known, weights)
    text = card(found, "Shifted")
    lines = [line for line in text.splitlines() if line.startswith(("| 1.0%", "| 5.0%", "| 10.0%"))]
    assert f"| 5.0% | {found.offset_:.6g} |" in lines
    scores, mean = found.score_samples(new), np.full(500, weights.mean())
    for line, rate in zip(lines, (0.01, 0.05, 0.1), strict=True):
        limit = found.calibrated_by().threshold_at(rate)
        assert line == f"| {rate:.1%} | {limit:.6g} |"
        assert np.array_equal(scores < limit, found.predict(new, rate, weights=mean) == -1)
    assert "By weights there is no law" in text
    assert "95 % of such calibrations" not in text
    sheet = threshold_sheet(found.calibration_scores_, found.calibration_weights_)
    assert sheet.head == ("false-alarm rate", "threshold")
    assert ("5.0%", f"{found.offset_:.6g}") in sheet.body
    # The control: without weights, thresholds are others, and there is an interval.
    assert f"| 5.0% | {plain.offset_:.6g} | " in card(plain, "Plain")
    assert abs(plain.offset_ - found.offset_) > 0.01


def test_the_card_tells_the_recipe_and_the_seed() -> None:
    text = card(made("chains"), "Chains")
    assert "Recipe `tables-srlmc`, seed 0, uspebm " in text
    assert '"kind": "TiltChains"' in text
    assert '"updates": 1' in text
    assert "## Training" not in card(EnergyDetector.from_energy(Own(), X), "From elsewhere")


def test_a_card_lists_thirty_columns() -> None:
    wide = reference_only().fit(np.random.default_rng(0).normal(size=(60, 33)))
    text = card(wide, "Wide")
    assert "| number 30 |" in text
    assert "| number 31 |" not in text
    assert "And 3 more columns." in text


def test_the_card_of_neighbours_lists_columns_and_claims_no_density() -> None:
    text = card(made("neighbours"), "Neighbours")
    assert text.startswith("# Neighbours\n\nRecipe tables: distances to 120 rows of the data in ")
    assert "- No network: neighbours in " in text
    low, high = map(float, text.split("| number 1 |")[1].splitlines()[0].split("|")[1:3])
    assert low == pytest.approx(TABLE[:, 0].min(), rel=1e-4)
    assert high == pytest.approx(TABLE[:, 0].max(), rel=1e-4)
    assert "log-densities" not in text


def test_held_points_are_in_the_users_units_whatever_the_models_are() -> None:
    table = torch.from_numpy(TABLE)
    units = Scaling(table.mean(0), 1 / table.std(0))
    neighbours = NeighbourRule().build(units(table), seed=0)
    detector = EnergyDetector.from_energy(neighbours, TABLE, scaling=units)
    line = card(detector, "Neighbours").split("| number 2 |")[1].splitlines()[0]
    expected = [TABLE[:, 1].mean(), TABLE[:, 1].min(), TABLE[:, 1].max()]
    assert [float(cell) for cell in line.split("|")[:3]] == pytest.approx(expected, rel=1e-4)


def test_unknown_likelihoods_are_not_drawn(tmp_path: Path) -> None:
    odd = copy.deepcopy(made("table"))
    odd.curve_ = [Look(0, math.nan), Look(50, -math.inf), Look(100, 1.5)]
    assert not draw_curve(odd.curve_, tmp_path / "curve.png")
    assert "Held-out" not in card(odd, "Odd", curve=False)
    odd.curve_ = [Look(0, 1.0), Look(50, -math.inf), Look(100, 1.5)]
    assert draw_curve(odd.curve_, tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    assert "1 of the reference alone; the best of 2 looks is 1.5" in card(odd, "Odd")


def test_without_matplotlib_there_is_a_card_and_no_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    save_model(made("table"), tmp_path / "model")
    assert not (tmp_path / "model" / "curve.png").exists()
    assert "curve.png" not in (tmp_path / "model" / "README.md").read_text()


# The verdict


def test_the_verdict_on_a_network_that_is_kept_names_the_updates_and_the_gain() -> None:
    assert [look.update for look in fitted().curve_] == [0, 20]
    gain = fitted().curve_[1].log_likelihood - fitted().curve_[0].log_likelihood
    assert gain > 0.01
    assert fitted().verdict() == (
        "recipe tables-density: a kernel density and a network, kept after 20 updates and worth "
        f"{gain:.3f} nats per held-out point over the kernel density alone"
    )


def test_the_verdict_is_on_the_weights_that_were_kept() -> None:
    """Not on a later look that gained too little to count."""
    quick = with_centres(20, rate=1e-2)
    often = HeldOut(every=10, patience=50)
    choosy = replace(quick.schedule, held_out=replace(often, least_gain=0.24))
    found = small(replace(quick, schedule=choosy), max_updates=60).fit(X)
    likelihoods = [look.log_likelihood for look in found.curve_]
    kept = choosy.held_out.best(found.curve_)  # type: ignore[union-attr]
    assert 0 < kept.update < found.curve_[int(np.argmax(likelihoods))].update
    assert f"kept after {kept.update} updates and worth " in found.verdict()
    # The network is that of that update, and of no other.
    stopped = small(replace(quick, schedule=choosy), max_updates=kept.update).fit(X)
    ours, theirs = (d.scorer_.energy.state_dict() for d in (found, stopped))
    assert all(torch.equal(value, theirs[name]) for name, value in ours.items())


def test_the_verdict_on_a_reference_alone_says_why() -> None:
    alone = "recipe tables-density: the kernel density alone, no network is kept "
    assert reference_only().fit(X).verdict() == f"{alone}(none was trained)"
    ruined = small(with_centres(200, rate=0.5)).fit(X)
    better = f"{alone}(no network did better on held-out points)"
    assert ruined.verdict() == better
    ruined.curve_ = [ruined.curve_[0], Look(50, -math.inf)]  # a log Z that nobody knows
    assert ruined.verdict() == better


def test_the_verdict_on_images() -> None:
    orders = "whose energies are the scores; they order points and are no densities"
    assert load("fashion-mnist").verdict() == f"recipe images-energy: a network (Conv) {orders}"
    assert load("fashion-mnist-srlmc").verdict() == f"recipe SRLMC: a network (Conv) {orders}"
    pixels = (
        "recipe pixels: scores are scaled distances to 40 images of the data in pixels, and no "
        "network is trained; they order images and are no densities"
    )
    assert made_of_few_images().verdict() == pixels


def made_of_few_images() -> EnergyDetector:
    images = np.random.default_rng(0).integers(0, 256, (40, 8, 8), dtype=np.uint8)
    return EnergyDetector(random_state=0).fit(images)


def test_the_verdict_on_energies_of_ones_own() -> None:
    elsewhere = EnergyDetector.from_energy(Own(), X).verdict()
    assert elsewhere.startswith("an energy trained elsewhere: a network (Own) whose energies are")
    known = EnergyDetector.from_energy(Own(), X, log_z=(1.0, 0.1)).verdict()
    assert known.endswith("a network (Own) whose log Z is known: scores are log-densities")
    mine = small(own_recipe(Own()), max_updates=1).fit(X).verdict()
    assert mine.startswith("recipe mine: a network (Own) whose energies are the scores")


def test_the_verdict_survives_a_folder(tmp_path: Path) -> None:
    for found in (fitted(), reference_only().fit(FRAME), made("images")):
        save_model(found, tmp_path / "model")
        assert load(tmp_path / "model").verdict() == found.verdict()
        verdict = found.verdict()
        text = (tmp_path / "model" / "README.md").read_text()
        assert f"\n{verdict[0].upper()}{verdict[1:]}.\n" in text
