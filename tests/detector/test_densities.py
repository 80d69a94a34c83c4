"""Scores are normalised log-densities where log Z is known, energy scores otherwise."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.detector.common import (
    NEW,
    Own,
    X,
    fitted,
    own_recipe,
    reference_only,
    small,
    tilted,
    with_centres,
)
from uspebm import EnergyDetector
from uspebm.detector.card import card
from uspebm.objective import effective_sample_size
from uspebm.recipes.held_out import LOG_Z_DRAWS
from uspebm.support.randomness import generator

MEASURES = "Scores are normalised log-densities"
ORDERS = "Scores are energy scores"


def log_z_error(detector: EnergyDetector) -> float:
    """By the delta method, of other draws: the weights' relative variance over their number."""
    energy = tilted(detector)
    with torch.no_grad():
        log_weight = -energy.tilt(energy.reference.sample(LOG_Z_DRAWS, generator(5)))
    return math.sqrt(1 / effective_sample_size(log_weight) - 1 / LOG_Z_DRAWS)


def assert_total(total: float, detector: EnergyDetector) -> None:
    """One, but for log Z's error; and a mutant that forgets log Z is off by more."""
    error = log_z_error(detector)
    assert 1e-4 < error < 0.1
    # Both are deviations of 4,096 weights, which are known to some per cent.
    assert detector.log_z_error_ == pytest.approx(error, rel=0.2)
    assert abs(total - 1) < 5 * error
    scorer = detector.scorer_
    forgotten = math.exp(scorer.log_normaliser.item() + scorer.scaling.log_det)
    assert abs(total * forgotten - 1) > 5 * error


def test_densities_integrate_to_one_in_the_datas_units() -> None:
    x = 1e3 + 50 * np.random.default_rng(0).gamma(2, size=(400, 1))
    found = small(max_updates=100).fit(x)
    assert tilted(found).strength == 1
    grid = np.linspace(-1e3, 4e3, 20_001)[:, None]
    assert_total(np.exp(found.score_samples(grid)).sum() * 0.25, found)
    assert MEASURES in card(found, "Gamma")
    assert f"standard error of {found.log_z_error_:.2g}" in card(found, "Gamma")


def test_densities_of_two_columns_integrate_to_one() -> None:
    """The columns are correlated and have units a million apart."""
    units = np.array([1e3, 1e-3])
    x = np.random.default_rng(0).normal(size=(300, 2)) @ [[1.0, 0.9], [0.0, 0.4]]
    found = small(max_updates=60).fit(np.exp(0.5 * x) * units)
    assert tilted(found).strength == 1
    axis = np.linspace(-3, 12, 401)
    grid = np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2)
    cell = (axis[1] - axis[0]) ** 2 * units.prod()
    assert_total(np.exp(found.score_samples(grid * units)).sum() * cell, found)


def test_the_reference_alone_is_normalised_exactly() -> None:
    found = reference_only().fit(X[:, :1])
    assert found.log_z_error_ == 0
    grid = np.linspace(-15, 15, 20_001)[:, None]
    assert np.exp(found.score_samples(grid)).sum() * 0.0015 == pytest.approx(1, abs=1e-9)
    assert MEASURES in card(found, "Kernels")


def test_the_score_of_a_known_gaussian_is_its_log_likelihood() -> None:
    """By Gibbs' inequality no model is likelier than the truth; how far below it is, is its KL.

    That of a kernel estimate with n centres is at most some hundredths here: smoothing by h widens
    by 1 + h², and log(1 + h²) − h² / (1 + h²) is below 0.02 for h < 0.45.
    """
    draws = np.random.default_rng(0)
    units, n = np.array([1e3, 1e-2]), 4000
    new = draws.normal(size=(n, 2))
    exact = -0.5 * (new**2).sum(1) - math.log(2 * math.pi) - np.log(units).sum()
    found = reference_only().fit(draws.normal(size=(1500, 2)) * units)
    gaps = exact - found.score_samples(new * units)
    error = gaps.std() / math.sqrt(n)
    assert -4 * error < gaps.mean() < 0.1
    assert found.score(new * units) == pytest.approx(exact.mean() - gaps.mean())


def test_without_log_z_scores_are_minus_the_energy() -> None:
    found = small(own_recipe(Own())).fit(X)
    assert found.log_z_error_ is None
    assert found.scorer_.log_normaliser == 0
    with torch.no_grad():
        energy = found.scorer_.energy(torch.from_numpy(NEW)).numpy()
    assert np.array_equal(found.score_samples(NEW), -energy)
    text = card(found, "Own")
    assert ORDERS in text
    assert MEASURES not in text
    with pytest.raises(ValueError, match="no reference density to draw from"):
        found.sample(3)


def test_a_known_log_z_of_an_energy_trained_elsewhere_makes_densities() -> None:
    """A Gaussian of standard deviations 1 / √0.1 in every direction, its log Z known exactly."""
    exact = 1.5 * math.log(2 * math.pi / 0.1)
    found = EnergyDetector.from_energy(Own(), X, log_z=(exact, 0.0))
    law = torch.distributions.Normal(0.0, math.sqrt(1 / 0.1))
    expected = law.log_prob(torch.from_numpy(NEW)).sum(1).numpy()
    assert np.allclose(found.score_samples(NEW), expected, rtol=1e-6)
    assert MEASURES in card(found, "Known")
    assert ORDERS in card(EnergyDetector.from_energy(Own(), X), "Unknown")


def test_samples_look_like_the_data() -> None:
    found = small(with_centres(200)).fit(X)
    drawn = found.sample(2000)
    assert drawn.shape == (2000, 3)
    # Standard errors of 300 data points' moments; smoothing adds to the second.
    assert np.abs(drawn.mean(0) - X.mean(0)).max() < 5 * X.std() / math.sqrt(200)
    assert np.allclose(drawn.std(0), X.std(0), rtol=0.35)


# Invariances


@settings(max_examples=5)
@given(st.lists(st.integers(-20, 20), min_size=3, max_size=3))
def test_units_of_columns_do_not_change_ranks(powers: list[int]) -> None:
    """Powers of two, so that rounding is the same; log-densities differ by the units' logarithm."""
    units = 2.0 ** np.array(powers)
    scores = small().fit(X * units).score_samples(NEW * units)
    expected = fitted().score_samples(NEW)
    assert np.array_equal(np.argsort(scores), np.argsort(expected))
    assert np.allclose(scores + np.log(units).sum(), expected, rtol=1e-9, atol=1e-9)


def test_shifts_and_other_units_change_ranks_no_more_than_rounding() -> None:
    units, shift = np.array([3.7e5, 1e-4, 11.0]), np.array([1e3, 0.1, -7.0])
    scores = reference_only().fit(X * units + shift).score_samples(NEW * units + shift)
    expected = reference_only().fit(X).score_samples(NEW)
    assert np.array_equal(np.argsort(scores), np.argsort(expected))
    assert np.allclose(scores + np.log(units).sum(), expected, rtol=1e-6)


def test_a_constant_on_the_energy_changes_nothing_that_is_decided() -> None:
    """E + c: other scores, the same p-values and calls; and the same densities where Z is known."""

    class Shifted(Own):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) + 3.0

    one, other = (EnergyDetector.from_energy(e, X) for e in (Own(), Shifted()))
    assert np.allclose(one.score_samples(NEW) - 3, other.score_samples(NEW))
    assert np.array_equal(one.predict(NEW), other.predict(NEW))
    assert np.array_equal(one.p_values(NEW), other.p_values(NEW))
    exact = 1.5 * math.log(2 * math.pi / 0.1)
    one, other = (
        EnergyDetector.from_energy(e, X, log_z=(exact - c, 0.0))
        for e, c in ((Own(), 0.0), (Shifted(), 3.0))
    )
    assert np.allclose(one.score_samples(NEW), other.score_samples(NEW), rtol=1e-12)


def test_more_updates_than_are_any_good_are_not_kept() -> None:
    """At a rate that ruins the weights, the reference alone is what is left, and its densities."""
    ruined = with_centres(200, rate=0.5)
    found = small(ruined, max_updates=50).fit(X)
    alone = reference_only(ruined).fit(X)
    assert tilted(found).strength == 0
    assert np.array_equal(found.score_samples(NEW), alone.score_samples(NEW))
