r"""Anomalies made from in-distribution points alone, as the literature makes them.

Steinbuss & Böhm (2021) and ADBench (Han et al., 2022) tell four kinds apart. Two are drawn from a
Gaussian mixture :math:`\sum_k w_k N(\mu_k, \Sigma_k)` fitted to the points, with the number of
components, up to nine, that has the lowest BIC:

==========  ==========================================================================
local       covariances :math:`5\,\Sigma_k`: the same centres, √5 times as far from them
cluster     means :math:`m + 5\,(\mu_k - m)`, m the points' mean: groups of their own
global      uniform on the points' box, 1.1 times as wide about its middle
dependency  each column from its own values, independently of the other columns
==========  ==========================================================================

Where this departs from ADBench, whose normal points are drawn from the fitted model as well:

- Normal points are the real ones, so a detector may see where the mixture errs, not the anomaly.
- Means and box are scaled about their middle, not about the origin: degrees Celsius and Kelvin give
  the same anomalies. One component has nowhere to go, so ``cluster`` takes at least two.
- The mixture is fitted to standardised columns; with ADBench's raw ones, units decide.
- Dependency anomalies resample a column's values. ADBench smooths them by a kernel, which betrays
  columns of whole numbers; its normal points are a vine copula's.

Not every anomaly lies where the data do not: no detector reaches an AUROC of 1 on all of these.
"""

import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from ..support.randomness import generator

Points = NDArray[np.float64]

SCALE = 5.0  # of covariances and of means; this and the next two as in ADBench
MARGIN = 1.1  # of the box
COMPONENTS = 9  # at most


def local(X: ArrayLike, n: int, seed: int) -> Points:
    """About the data's centres, √5 times as far from them: ``(n, d)``."""
    return _from_mixture(X, n, numpy_generator(seed, "local"), fewest=1, covariance=SCALE)


def cluster(X: ArrayLike, n: int, seed: int) -> Points:
    """Groups shaped like the data's, five times as far from the data's mean: ``(n, d)``."""
    return _from_mixture(X, n, numpy_generator(seed, "cluster"), fewest=2, mean=SCALE)


def global_(X: ArrayLike, n: int, seed: int) -> Points:
    """Uniform on the data's box, 1.1 times as wide about its middle: ``(n, d)``."""
    x = finite_table(X)
    middle, half = (x.max(0) + x.min(0)) / 2, (x.max(0) - x.min(0)) / 2
    at = numpy_generator(seed, "global").uniform(-1, 1, (n, x.shape[1]))
    return np.asarray(middle + MARGIN * half * at, np.float64)


def dependency(X: ArrayLike, n: int, seed: int) -> Points:
    """Rows whose columns are drawn from the data's, each by itself: ``(n, d)``."""
    x, chance = finite_table(X), numpy_generator(seed, "dependency")
    if x.shape[1] < 2:
        raise ValueError("dependency anomalies need at least 2 columns; there is 1")
    return np.stack([chance.choice(column, n) for column in x.T], axis=1)


ANOMALY_KINDS: dict[str, Callable[[ArrayLike, int, int], Points]] = {
    "local": local,
    "cluster": cluster,
    "global": global_,
    "dependency": dependency,
}


def numpy_generator(seed: int, *purpose: str | int) -> np.random.Generator:
    """NumPy's generator for one purpose, as :mod:`uspebm.support.randomness` has torch's."""
    return np.random.default_rng(generator(seed, *purpose).initial_seed())


def finite_table(X: ArrayLike) -> Points:
    """``X`` as a table of finite numbers, of two rows at least."""
    x = np.asarray(X, np.float64)
    if x.ndim != 2 or len(x) < 2 or not x.shape[1]:
        raise ValueError(f"data must be a table of at least 2 rows, got shape {x.shape}")
    if bad := int((~np.isfinite(x)).any(1).sum()):
        raise ValueError(
            f"{bad} of {len(x)} rows hold a value that is missing or infinite: fill or drop them"
        )
    return x


def _from_mixture(
    X: ArrayLike,
    n: int,
    chance: np.random.Generator,
    fewest: int,
    mean: float = 1.0,
    covariance: float = 1.0,
) -> Points:
    x = finite_table(X)
    middle, spread = x.mean(0), x.std(0)
    # A constant column is all zeros here, and the constant again on the way back.
    z = (x - middle) / np.where(spread > 0, spread, 1.0)
    state = int(chance.integers(2**31))
    with warnings.catch_warnings():
        # Of rows that repeat, components may be fewer than asked for; BIC judges these too.
        warnings.simplefilter("ignore", ConvergenceWarning)
        mixtures = [
            GaussianMixture(k, random_state=state).fit(z)
            for k in range(fewest, min(COMPONENTS, len(z)) + 1)
        ]
    best = min(mixtures, key=lambda mixture: float(mixture.bic(z)))
    # By Cholesky factors, which are unique: scikit-learn's own sampling leaves signs to rounding.
    roots = np.linalg.cholesky(covariance * best.covariances_)
    parts = zip(chance.multinomial(n, best.weights_), mean * best.means_, roots, strict=True)
    drawn = [centre + chance.normal(size=(m, len(root))) @ root.T for m, centre, root in parts]
    return np.asarray(middle + spread * np.concatenate(drawn), np.float64)
