"""Each kind of anomaly: its law, given the points; and what it must not depend on."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from tests.laws import assert_law, dkw_bound
from uspebm.evaluation import anomalies
from uspebm.evaluation.anomalies import ANOMALY_KINDS, Points, cluster, dependency, global_, local

N = 20_000
SIGMAS = 5.0  # a right implementation fails one such check with probability below 1e-6
CENTRES = np.array([[-40.0, 0.0, 5.0], [40.0, 3.0, 5.0]])
ROOTS = np.array(
    [
        [[1.0, 0.0, 0.0], [0.9, 0.3, 0.0], [0.0, 0.0, 2.0]],
        [[2.0, 0.0, 0.0], [-1.5, 0.5, 0.0], [0.0, 1.0, 1.0]],
    ]
)


def groups() -> list[Points]:
    """Two Gaussian groups so far apart that every fitted component is a group's own."""
    chance = np.random.default_rng(0)
    return [
        centre + chance.normal(size=(n, 3)) @ root.T
        for centre, root, n in zip(CENTRES, ROOTS, (300, 600), strict=True)
    ]


def assert_groups(points: Points, mean: float, covariance: float) -> None:
    """Of a third and two thirds: means m + ``mean`` (μ − m) and ``covariance`` Σ of the groups."""
    known = groups()
    middle = np.concatenate(known).mean(0)
    between = middle[0] + mean * (np.mean([group[:, 0].mean() for group in known]) - middle[0])
    found = [points[points[:, 0] < between], points[points[:, 0] >= between]]
    assert abs(len(found[0]) / N - 1 / 3) < SIGMAS * math.sqrt(2 / 9 / N)
    for group, x in zip(known, found, strict=True):
        centre = middle + mean * (group.mean(0) - middle)
        root = np.linalg.cholesky(covariance * np.cov(group.T, bias=True))
        white = np.linalg.solve(root, (x - centre).T)  # (3, n), standard normal
        n = white.shape[1]
        assert np.abs(white.mean(1)).max() < SIGMAS / math.sqrt(n)
        # Variances of the entries: 2 / n on the diagonal, 1 / n off it.
        assert np.abs(np.cov(white, bias=True) - np.eye(3)).max() < SIGMAS * math.sqrt(2 / n)
        assert_law(torch.from_numpy(white[1].copy()), torch.special.ndtr)


def test_local_anomalies_keep_the_means_and_have_five_times_the_covariances() -> None:
    assert_groups(local(np.concatenate(groups()), N, 0), mean=1.0, covariance=5.0)


def test_cluster_anomalies_keep_the_covariances_and_go_five_times_as_far() -> None:
    assert_groups(cluster(np.concatenate(groups()), N, 0), mean=5.0, covariance=1.0)


@pytest.mark.parametrize("scale", [4.5, 5.5])
def test_another_scale_fails_the_same_checks(scale: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anomalies, "SCALE", scale)
    x = np.concatenate(groups())
    with pytest.raises(AssertionError):
        assert_groups(local(x, N, 0), mean=1.0, covariance=5.0)
    with pytest.raises(AssertionError):
        assert_groups(cluster(x, N, 0), mean=5.0, covariance=1.0)


def test_one_group_still_has_cluster_anomalies() -> None:
    """A mixture of one Gaussian would leave them where the data are, with the data's spread."""
    x = np.random.default_rng(0).normal(size=(500, 2))
    assert cluster(x, N, 0).var(0).sum() > 2 * x.var(0).sum()


def uniform(low: float, high: float) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: ((x - low) / (high - low)).clamp(0, 1)


def test_global_anomalies_are_uniform_on_a_box_a_tenth_wider() -> None:
    x = np.random.default_rng(0).normal([100.0, -3.0], [1.0, 5.0], (400, 2))
    points = global_(x, N, 0)
    for column, known in zip(points.T, x.T, strict=True):
        margin = 0.05 * (known.max() - known.min())
        law = uniform(known.min() - margin, known.max() + margin)
        assert_law(torch.from_numpy(column.copy()), law)
        # Uniform on the data's own box: a share of 1 − 1 / 1.1 is missing.
        outside = ((column < known.min()) | (column > known.max())).mean()
        assert abs(outside - (1 - 1 / 1.1)) < SIGMAS * math.sqrt(0.1 / N)
    assert np.abs(np.corrcoef(points.T) - np.eye(2)).max() < SIGMAS / math.sqrt(N)


def test_dependency_anomalies_keep_every_column_and_lose_what_binds_them() -> None:
    chance = np.random.default_rng(0)
    first = chance.exponential(size=700)
    x = np.stack([first, first + 0.1 * chance.normal(size=700), chance.integers(3, size=700)], 1)
    assert np.corrcoef(x.T).flat[1] > 0.99
    points = dependency(x, N, 0)
    for column, known in zip(points.T, x.T, strict=True):
        assert set(column) <= set(known)
        at = np.unique(known)
        theirs = np.searchsorted(np.sort(known), at, side="right") / len(known)
        ours = np.searchsorted(np.sort(column), at, side="right") / N
        assert np.abs(theirs - ours).max() < dkw_bound(N)
    assert np.abs(np.corrcoef(points.T) - np.eye(3)).max() < SIGMAS / math.sqrt(N)


def bent() -> Points:
    """Points along a curve, and one column of whole numbers."""
    chance = np.random.default_rng(1)
    t = chance.uniform(-1, 1, 200)
    noise = 0.1 * chance.normal(size=200)
    return np.stack([t, t**2 + noise, chance.integers(4, size=200).astype(float)], 1)


@pytest.mark.parametrize("kind", ["local", "cluster", "global", "dependency"])
def test_units_and_their_zero_do_not_matter(kind: str) -> None:
    """From Celsius to Kelvin, from metres to millimetres: the same anomalies."""
    scale, shift = np.array([1000.0, 1e-3, 1.0]), np.array([273.0, -1.0, 0.0])
    expected = ANOMALY_KINDS[kind](bent(), 300, 0) * scale + shift
    found = ANOMALY_KINDS[kind](bent() * scale + shift, 300, 0)
    assert np.abs((found - expected) / scale).max() < 1e-6


@pytest.mark.parametrize("kind", ["local", "cluster", "global", "dependency"])
def test_the_seed_decides_and_the_points_are_left_alone(kind: str) -> None:
    x = bent()
    x.setflags(write=False)
    first, again, other = (ANOMALY_KINDS[kind](x, 50, seed) for seed in (0, 0, 1))
    assert first.shape == (50, 3)
    assert first.dtype == np.float64
    assert np.array_equal(first, again)
    assert not np.isin(first[:, 0], other[:, 0]).all()
    assert np.array_equal(x, bent())


@pytest.mark.parametrize("kind", ["local", "cluster", "global", "dependency"])
def test_a_constant_column_stays_constant(kind: str) -> None:
    x = np.concatenate([bent(), np.full((200, 1), 0.1)], axis=1)
    assert ANOMALY_KINDS[kind](x, 50, 0)[:, 3] == pytest.approx(0.1, abs=1e-12)


@pytest.mark.parametrize("kind", ["local", "cluster", "global", "dependency"])
def test_rows_that_repeat_warn_of_nothing(kind: str) -> None:
    """Four different rows cannot make up nine components."""
    answers = np.random.default_rng(0).integers(2, size=(100, 2))
    assert ANOMALY_KINDS[kind](answers, 50, 0).shape == (50, 2)


@pytest.mark.parametrize("kind", ["local", "cluster", "global", "dependency"])
def test_two_points_are_enough(kind: str) -> None:
    assert np.isfinite(ANOMALY_KINDS[kind](np.array([[0.0, 1.0], [1.0, 5.0]]), 10, 0)).all()


@pytest.mark.parametrize("kind", ["local", "cluster", "global", "dependency"])
@pytest.mark.parametrize(
    ("x", "message"),
    [
        (
            [[0.0, 1.0], [math.nan, 1.0], [2.0, math.inf]],
            "2 of 3 rows hold a value that is missing",
        ),
        ([[0.0, 1.0]], r"a table of at least 2 rows, got shape \(1, 2\)"),
        ([0.0, 1.0, 2.0], r"a table of at least 2 rows, got shape \(3,\)"),
    ],
    ids=["missing", "one row", "a list"],
)
def test_what_is_no_table_of_numbers_is_refused(kind: str, x: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ANOMALY_KINDS[kind](x, 10, 0)


def test_one_column_depends_on_none() -> None:
    with pytest.raises(ValueError, match="need at least 2 columns; there is 1"):
        dependency([[0.0], [1.0]], 10, 0)
