"""Detectors side by side: how well each finds points unlike those it was fitted to.

A problem is a set of training points, held-out points of the same kind (30 %), and anomalies: a
class that was left out, or the four kinds of :mod:`uspebm.anomalies`. The data ship with
scikit-learn or are drawn; nothing is downloaded.

Problems are not standardised. The classical detectors do as a user would: tables get a
``StandardScaler``; images are flattened and divided by the largest training pixel. Otherwise they
are as they come, none tuned. A mean rank depends on the problems and detectors it is taken over.
"""

import importlib.util
import statistics
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rich.table import Column, Table
from sklearn import datasets
from sklearn.ensemble import IsolationForest
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import KernelDensity, LocalOutlierFactor
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import OneClassSVM

from .anomalies import KINDS, Points, checked, draws
from .metrics import detection

TEST_SHARE = 0.3
FEWEST_ROWS = 30  # of a user's table: 21 are for training, and LOF looks at 20 neighbours


@dataclass(frozen=True)
class Problem:
    """Points to learn from, and points to tell apart; a family is one row of the table."""

    name: str
    family: str
    train: Points
    inside: Points
    outside: Points


class Detector(Protocol):
    """What is compared: scikit-learn's convention, a higher score for points like the data."""

    def fit(self, X: Points, /) -> object: ...
    def score_samples(self, X: Points, /) -> ArrayLike: ...


Make = Callable[[int], Detector]  # for a seed, not yet fitted


@dataclass(frozen=True)
class Result:
    """One detector on one problem; ``ap``, average precision with anomalies as the positives."""

    problem: str
    family: str
    detector: str
    seed: int
    auroc: float
    ap: float
    fit_seconds: float
    score_seconds: float


def class_held_out(X: Points, y: NDArray[Any], c: object) -> tuple[Points, Points]:
    """The points of all classes but ``c``, and those of ``c``."""
    held_out = y == c
    if not held_out.any() or held_out.all():
        raise ValueError(f"class {c} cannot be held out of {np.unique(y).tolist()}")
    return X[~held_out], X[held_out]


def standard_problems(seed: int) -> list[Problem]:
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


def user_problem(X: ArrayLike, seed: int) -> list[Problem]:
    """Every kind of anomaly against a user's own table; of one column, no dependency can break."""
    x = checked(X)
    if len(x) < FEWEST_ROWS:
        raise ValueError(f"a comparison needs at least {FEWEST_ROWS} rows; there are {len(x)}")
    return _every_kind(seed, "data", x)


def _every_class(seed: int, name: str, X: Points, y: NDArray[Any]) -> list[Problem]:
    parts = {c: class_held_out(X, y, c) for c in np.unique(y)}
    return [_problem(seed, f"{name} without {c}", name, *both) for c, both in parts.items()]


def _every_kind(seed: int, name: str, X: Points) -> list[Problem]:
    """As many anomalies as held-out points."""
    kinds = [kind for kind in KINDS if X.shape[1] > 1 or kind != "dependency"]
    made = {f"{name}, {kind}": KINDS[kind](X, round(TEST_SHARE * len(X)), seed) for kind in kinds}
    return [_problem(seed, family, family, X, outside) for family, outside in made.items()]


def _problem(seed: int, name: str, family: str, X: Points, outside: Points) -> Problem:
    order = draws(seed, "split").permutation(len(X))
    inside, train = np.split(np.asarray(X, np.float64)[order], [round(TEST_SHARE * len(X))])
    return Problem(name, family, train, inside, np.asarray(outside, np.float64))


def _mixture(seed: int, n: int) -> Points:
    """Of three Gaussians in ten dimensions, each with its own correlations."""
    chance = draws(seed, "mixture")
    centres, roots = chance.normal(0, 3, (3, 10)), chance.normal(0, 1, (3, 10, 10))
    which, z = chance.integers(3, size=n), chance.normal(size=(n, 10))
    return np.asarray(centres[which] + np.einsum("nij,nj->ni", roots[which], z), np.float64)


def _not_outlying(estimator: Any, x: Points) -> Points:
    return -np.asarray(estimator.decision_function(x), np.float64)  # pyod's is high for outliers


def _one_by_one(estimator: Any, x: Points) -> Points:
    """ECOD counts the points of a call among its data: many anomalies would seem usual. Slow."""
    return np.concatenate([_not_outlying(estimator, point) for point in x[:, None]])


@dataclass
class Classical:
    """An estimator made for the number of training points, and how to score with it."""

    make: Callable[[int], Any]
    score: Callable[[Any, Points], ArrayLike] = lambda e, x: e.score_samples(x)

    def fit(self, X: Points) -> None:
        peak = np.abs(X).max()
        scaler = StandardScaler() if X.ndim == 2 else FunctionTransformer(lambda x: x / peak)
        self.scaler_ = scaler.fit(X.reshape(len(X), -1))
        with warnings.catch_warnings():
            # Of rows that repeat, a mixture's components may be fewer than asked for.
            warnings.simplefilter("ignore", ConvergenceWarning)
            self.estimator_ = self.make(len(X)).fit(self._scaled(X))

    def score_samples(self, X: Points) -> ArrayLike:
        return self.score(self.estimator_, self._scaled(X))

    def _scaled(self, X: Points) -> Points:
        return np.asarray(self.scaler_.transform(X.reshape(len(X), -1)), np.float64)


def classical() -> dict[str, Make]:
    """Detectors that a user would try first; pyod's, slow to import, only where it is installed.

    The Gaussian mixture has ten components, or one for every ten points if these are fewer, and
    ``reg_covar=1e-3``: with scikit-learn's 1e-6, a component can collapse to a few points.
    """
    found: dict[str, Make] = {
        "isolation forest": lambda seed: Classical(lambda n: IsolationForest(random_state=seed)),
        "one-class SVM": lambda _: Classical(lambda n: OneClassSVM()),
        "LOF": lambda _: Classical(lambda n: LocalOutlierFactor(novelty=True)),
        "KDE": lambda _: Classical(lambda n: KernelDensity(bandwidth="scott")),
        "Gaussian mixture": lambda seed: Classical(
            lambda n: GaussianMixture(max(1, min(10, n // 10)), reg_covar=1e-3, random_state=seed)
        ),
    }
    if not left_out():
        ecod, knn = (importlib.import_module(f"pyod.models.{name}") for name in ("ecod", "knn"))
        found["ECOD"] = lambda _: Classical(lambda n: ecod.ECOD(), _one_by_one)
        found["KNN"] = lambda _: Classical(lambda n: knn.KNN(), _not_outlying)
    return found


def left_out() -> str:
    """One line on the detectors that are missing, or nothing."""
    found = importlib.util.find_spec("pyod")
    return "" if found else "ECOD and KNN are left out: they need pyod (pip install 'uspebm[pyod]')"


def compare(
    problems: Callable[[int], Iterable[Problem]],
    detectors: Mapping[str, Make],
    seeds: Iterable[int],
) -> Iterator[Result]:
    """Fit and judge every detector on every problem of every seed, one result at a time."""
    for seed in seeds:
        for problem in problems(seed):
            for name, make in detectors.items():
                yield _judged(problem, name, make, seed)


def _judged(problem: Problem, name: str, make: Make, seed: int) -> Result:
    points = np.concatenate([problem.inside, problem.outside])
    detector = make(seed)
    start = time.perf_counter()
    detector.fit(problem.train)
    fitted = time.perf_counter()
    scores = np.asarray(detector.score_samples(points))
    times = (fitted - start, time.perf_counter() - fitted)
    try:
        found = detection(*np.split(scores, [len(problem.inside)]))
    except ValueError as error:
        raise ValueError(f"{name} on {problem.name}, seed {seed}: {error}") from error
    return Result(problem.name, problem.family, name, seed, found.auroc, found.aupr_ood, *times)


def rows(results: Iterable[Result]) -> list[dict[str, Any]]:
    """For JSON."""
    return [asdict(result) for result in results]


def by_family(results: Sequence[Result], figure: str = "auroc") -> dict[str, dict[str, float]]:
    """For every family, each detector's mean ``figure`` over its problems and the seeds."""
    names = list(dict.fromkeys(r.detector for r in results))
    values: dict[str, dict[str, list[float]]] = {}
    for r in results:
        found = values.setdefault(r.family, {name: [] for name in names})
        found[r.detector].append(getattr(r, figure))
    for family, found in values.items():
        if len({len(v) for v in found.values()}) > 1:
            raise ValueError(f"{family}: some detectors have fewer results; finish the comparison")
    return {f: {n: statistics.fmean(v) for n, v in found.items()} for f, found in values.items()}


def mean_ranks(results: Sequence[Result]) -> dict[str, float]:
    """Mean over families of the rank by AUROC, 1 for the best; equals share their mean rank."""
    summary = list(by_family(results).values())
    values = np.array([list(found.values()) for found in summary]).round(9)  # equal but for sums
    above = (values[:, None, :] > values[:, :, None]).sum(2)
    equal = (values[:, None, :] == values[:, :, None]).sum(2)
    return dict(zip(summary[0], (above + (equal + 1) / 2).mean(0).tolist(), strict=True))


def table(results: Sequence[Result]) -> Table:
    """For a terminal: AUROC in per cent, mean ranks and seconds."""
    names = [Column(name, justify="right") for name in mean_ranks(results)]
    result = Table("problem", *names, title="AUROC, per cent")
    for line in _lines(results, "auroc", "[bold]{}[/]"):
        result.add_row(*line)
    return result


def markdown(results: Sequence[Result]) -> str:
    """AUROC and average precision, a table each."""
    text = "Per cent, mean over a family's problems and the seeds; the best in bold.\n"
    names = list(mean_ranks(results))
    for figure, title in (("auroc", "AUROC"), ("ap", "Average precision, anomalies positive")):
        text += f"\n{title}\n\n| problem | {' | '.join(names)} |\n|---|{'---:|' * len(names)}\n"
        text += "".join(f"| {' | '.join(line)} |\n" for line in _lines(results, figure, "**{}**"))
    return text


def _lines(results: Sequence[Result], figure: str, best: str) -> list[list[str]]:
    lines = []
    for family, found in by_family(results, figure).items():
        cells, top = [f"{100 * v:.1f}" for v in found.values()], f"{100 * max(found.values()):.1f}"
        lines.append([family, *(best.format(cell) if cell == top else cell for cell in cells)])
    if figure == "auroc":
        ranks = mean_ranks(results)
        lines.append(["mean rank", *(f"{rank:.2f}" for rank in ranks.values())])
        for what in ("fit", "score"):
            seconds = dict.fromkeys(ranks, 0.0)
            for r in results:
                seconds[r.detector] += getattr(r, f"{what}_seconds")
            lines.append([f"{what}, s in all", *(f"{s:.2g}" for s in seconds.values())])
    return lines
