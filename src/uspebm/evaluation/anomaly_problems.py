"""Problems to compare detectors on: points to learn from, and points to tell apart.

A problem is a set of training points, held-out points of the same kind (30 %), and anomalies: a
class that was left out, or the four kinds of :mod:`uspebm.evaluation.anomalies`. The data ship with
scikit-learn or are drawn; nothing is downloaded, and nothing is standardised.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import datasets

from .anomalies import ANOMALY_KINDS, Points, finite_table, numpy_generator

TEST_SHARE = 0.3
FEWEST_ROWS = 30  # of a user's table: 21 are for training, and LOF looks at 20 neighbours


@dataclass(frozen=True)
class AnomalyProblem:
    """Points to learn from, and points to tell apart; a family is one row of the table."""

    name: str
    family: str
    train: Points
    inside: Points
    outside: Points


def class_held_out(X: Points, y: NDArray[Any], c: object) -> tuple[Points, Points]:
    """The points of all classes but ``c``, and those of ``c``."""
    held_out = y == c
    if not held_out.any() or held_out.all():
        raise ValueError(f"class {c} cannot be held out of {np.unique(y).tolist()}")
    return X[~held_out], X[held_out]


def standard_problems(seed: int) -> list[AnomalyProblem]:
    """Those of scikit-learn's data, and of drawn ones, split by ``seed``."""
    cancer, digits = datasets.load_breast_cancer(), datasets.load_digits()
    benign, malignant = class_held_out(cancer.data, cancer.target, 0)
    moons, _ = datasets.make_moons(1000, noise=0.05, random_state=seed)
    rings, _ = datasets.make_circles(1000, noise=0.05, factor=0.5, random_state=seed)
    return [
        _problem(seed, "breast cancer", "breast cancer", benign, malignant),
        *_every_class(seed, "wine", *datasets.load_wine(return_X_y=True)),
        *_every_class(seed, "iris", *datasets.load_iris(return_X_y=True)),
        *_every_class(seed, "digits", digits.images, digits.target),
        *_every_kind(seed, "benign", benign),
        *_every_kind(seed, "diabetes", datasets.load_diabetes().data),
        *_every_kind(seed, "moons", moons),
        *_every_kind(seed, "rings", rings),
        *_every_kind(seed, "mixture", _mixture(seed, 1000)),
    ]


def user_problem(X: ArrayLike, seed: int) -> list[AnomalyProblem]:
    """Every kind of anomaly against a user's own table; of one column, no dependency can break."""
    x = finite_table(X)
    if len(x) < FEWEST_ROWS:
        raise ValueError(f"a comparison needs at least {FEWEST_ROWS} rows; there are {len(x)}")
    return _every_kind(seed, "data", x)


def own_faults(X: ArrayLike, faults: ArrayLike, seed: int) -> list[AnomalyProblem]:
    """Faults that a user knows, against their own table."""
    x, outside = finite_table(X), finite_table(faults)
    if len(x) < FEWEST_ROWS:
        raise ValueError(f"a comparison needs at least {FEWEST_ROWS} rows; there are {len(x)}")
    return [_problem(seed, "faults", "faults", x, outside)]


def _every_class(seed: int, name: str, X: Points, y: NDArray[Any]) -> list[AnomalyProblem]:
    parts = {c: class_held_out(X, y, c) for c in np.unique(y)}
    return [_problem(seed, f"{name} without {c}", name, *both) for c, both in parts.items()]


def _every_kind(seed: int, name: str, X: Points) -> list[AnomalyProblem]:
    """As many anomalies as held-out points."""
    kinds = [kind for kind in ANOMALY_KINDS if X.shape[1] > 1 or kind != "dependency"]
    made = {
        f"{name}, {kind}": ANOMALY_KINDS[kind](X, round(TEST_SHARE * len(X)), seed)
        for kind in kinds
    }
    return [_problem(seed, family, family, X, outside) for family, outside in made.items()]


def _problem(seed: int, name: str, family: str, X: Points, outside: Points) -> AnomalyProblem:
    order = numpy_generator(seed, "split").permutation(len(X))
    inside, train = np.split(np.asarray(X, np.float64)[order], [round(TEST_SHARE * len(X))])
    return AnomalyProblem(name, family, train, inside, np.asarray(outside, np.float64))


def _mixture(seed: int, n: int) -> Points:
    """Of three Gaussians in ten dimensions, each with its own correlations."""
    chance = numpy_generator(seed, "mixture")
    centres, roots = chance.normal(0, 3, (3, 10)), chance.normal(0, 1, (3, 10, 10))
    which, z = chance.integers(3, size=n), chance.normal(size=(n, 10))
    return np.asarray(centres[which] + np.einsum("nij,nj->ni", roots[which], z), np.float64)
