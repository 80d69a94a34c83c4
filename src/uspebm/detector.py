"""An energy-based model as a scikit-learn outlier detector, with alarms at a stated rate."""

import copy
import math
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from . import calibration, scaling
from .checks import at_least, positive
from .inputs import as_bytes, described, points
from .learning import DRAWS, Curve, Method, Recipe, Split, check_network, learn, network_for, split
from .metrics import Interval, intervals
from .randomness import generator
from .reference import KernelReference, TiltedEnergy, likeliest_bandwidth
from .scorer import Scorer

Values = NDArray[np.float64]
METHODS: tuple[Method, ...] = ("importance", "ps-usp", "srlmc")
USUAL_RATE = 0.05


class EnergyDetector(OutlierMixin, BaseEstimator):  # type: ignore[misc]
    r"""Learns the density of the data; calls outliers what has less of it than the data do.

    The energy is :math:`-\log r(x) + f_\theta(x)`: a kernel density estimate r and what a network
    adds to it, trained by maximum likelihood until held-out likelihood stops rising. A further part
    of the data, used for nothing else, calibrates alarms: of points drawn like the data, at most
    the stated share is called outliers, on average over such parts (see :mod:`uspebm.calibration`).
    Settings that were chosen by looking at the same data, as a grid search does, weaken that.

    Tables ``(N, d)`` (arrays, DataFrames, tensors), or images as :mod:`uspebm.inputs` says.

    Arguments:
        method: What stands for the model in its gradient: draws from r with weights (the default:
            the steadiest where there is an r), PS-USP's partition points, or short-run Langevin
            with a replay buffer.
        network: f, a module from points ``(N, *event)`` in scaled units to ``(N,)``, copied. Left
            out: a small MLP for tables, a small CNN for images.
        centres: Training points that r is made of; more of them are chosen from at random.
        max_updates: Training ends there at the latest; 0 leaves r as it is, and so do fewer than 50
            training points.
        patience: It ends after so many looks, one every 50 updates, without a better one.
        learning_rate: Of Adam.
        batch_size: Data points per update.
        calibration: Share of the data kept for calibration.
        false_alarm_rate: Of :meth:`predict`. ``"auto"``: 5 %, or what the calibration points allow.
        random_state: Seed of every draw.
        verbose: Show how far training is.

    Attributes:
        offset_: The score below which points are called outliers.
        calibration_scores_: In ascending order, lowered by what rounding may do to a score.
        curve_: Held-out log-likelihood over the updates, in scaled units.
        log_normaliser_: What makes minus the energy a log-density.
        scorer_: The model, as a torch module.
        n_features_in_: Numbers in a point.
        event_shape_: Shape of a point, channels first.
        of_bytes_: Whether it was fitted to bytes, as images often are.

    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> detector = EnergyDetector(random_state=0, max_updates=50).fit(X)
    >>> detector.predict([[0.0, 0.0], [8.0, 8.0]])
    array([ 1, -1])
    >>> detector.predict([[8.0, 8.0]], false_alarm_rate=0.02)
    array([-1])
    """

    event_shape_: tuple[int, ...]
    of_bytes_: bool

    def __init__(
        self,
        method: Method = "importance",
        *,
        network: nn.Module | None = None,
        centres: int = 2000,
        max_updates: int = 2000,
        patience: int = 6,
        learning_rate: float = 1e-3,
        batch_size: int = 250,
        calibration: float = 0.2,
        false_alarm_rate: float | Literal["auto"] = "auto",
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
    ) -> None:
        self.method = method
        self.network = network
        self.centres = centres
        self.max_updates = max_updates
        self.patience = patience
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.calibration = calibration
        self.false_alarm_rate = false_alarm_rate
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Learn from ``X``; ``y`` is ignored."""
        recipe = self._recipe()
        x = self._points(X, reset=True)
        seed = int(check_random_state(self.random_state).randint(2**31))
        parts = split(x, self.calibration, seed)
        calibration.alarms(len(parts.calibration), self._rate(len(parts.calibration)))
        fit_scaling = scaling.of_table if x.dim() == 2 else scaling.of_images
        to_units = fit_scaling(parts.train)
        inside = Split(*(to_units(part).float() for part in parts))
        network = (
            network_for(self.event_shape_, seed)
            if self.network is None
            else copy.deepcopy(self.network)
        )
        check_network(network, inside.train)
        chosen = to_units(parts.train[: self.centres])
        energy = TiltedEnergy(network, KernelReference(chosen, likeliest_bandwidth(chosen)[0]))
        self.curve_: Curve = learn(energy, inside, recipe, seed, self.verbose)
        log_z = energy.eval().log_z(DRAWS, generator(seed, "log z"))
        self.scorer_ = Scorer(to_units, energy, log_z - to_units.log_det).eval()
        self.calibration_scores_: Values = calibration.loosened(
            self.scorer_.in_parts(parts.calibration).numpy()
        )
        self.offset_ = calibration.threshold(
            self.calibration_scores_, self._rate(len(parts.calibration))
        )
        return self

    def score_samples(self, X: ArrayLike) -> Values:
        """Log-densities in the data's own units: higher for points like the data.

        Of images: with noise of r's bandwidth, and bytes scaled to [−1, 1]. Up to a constant for a
        model without a reference, whose :attr:`log_normaliser_` is zero.
        """
        check_is_fitted(self)
        return np.asarray(self.scorer_.in_parts(self._points(X, reset=False)).numpy())

    @property
    def log_normaliser_(self) -> float:
        """log Z in the data's units, estimated once; zero where there is no reference."""
        return self.scorer_.log_normaliser.item()

    def decision_function(self, X: ArrayLike) -> Values:
        """Scores above the threshold: negative for outliers."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: ArrayLike, false_alarm_rate: float | None = None) -> NDArray[np.int64]:
        """1 for points like the data, −1 for outliers, at the rate given here or to begin with."""
        scores = self.score_samples(X)
        offset = self.offset_
        if false_alarm_rate is not None:
            offset = calibration.threshold(self.calibration_scores_, false_alarm_rate)
        return np.where(scores < offset, -1, 1)

    def p_values(self, X: ArrayLike) -> Values:
        """Conformal p-values: of points drawn like the data, at most a share p has p or less."""
        return calibration.p_values(self.calibration_scores_, self.score_samples(X))

    def discoveries(self, X: ArrayLike, false_discovery_rate: float = 0.1) -> NDArray[np.bool_]:
        """Which of ``X`` to call outliers; on average, at most this share of the calls is wrong."""
        return calibration.benjamini_hochberg(self.p_values(X), false_discovery_rate)

    def score(self, X: ArrayLike, y: object = None) -> float:
        """Mean log-density of ``X``: models of the same data can be compared by it."""
        return float(self.score_samples(X).mean())

    def sample(self, n: int, random_state: int = 0) -> Values:
        """``n`` points of the model: draws from r, chosen by exp(−f). Bytes as in [−1, 1]."""
        check_is_fitted(self)
        energy = self.scorer_.energy
        draws = generator(random_state, "sample")
        reference = energy.reference
        if reference is None:
            raise ValueError("this model has no reference density to draw from")
        z = reference.sample(max(20 * n, 1000), draws)
        with torch.no_grad():
            weight = torch.softmax(-energy.tilt(z).double(), 0)
        chosen = z[torch.multinomial(weight, n, replacement=True, generator=draws)]
        return np.asarray(self.scorer_.scaling.inverse(chosen).numpy())

    def evaluate(self, inside: ArrayLike, outside: ArrayLike) -> dict[str, Interval]:
        """How well scores tell the two apart: FPR95, AUROC and both AUPRs, with intervals."""
        return intervals(self.score_samples(inside), self.score_samples(outside))

    def _points(self, X: ArrayLike, *, reset: bool) -> Tensor:
        if isinstance(X, Tensor):
            X = X.detach().cpu().numpy()
        fewest = 2 if reset else 1
        if np.asarray(X).ndim > 2:
            array = check_array(X, allow_nd=True, ensure_min_samples=fewest, input_name="X")
            if not reset and self.of_bytes_:
                array = as_bytes(array)
        elif not reset and len(self.event_shape_) == 3:
            raise ValueError(
                f"X has shape {np.shape(X)}, but this detector was fitted to images of "
                f"{described(self.event_shape_)}: give them as (N, height, width), one as X[None]"
            )
        else:
            array = validate_data(self, X, reset=reset, dtype=np.float64, ensure_min_samples=fewest)
        x = points(array)
        event = tuple(x.shape[1:])
        if reset:
            if len(event) == 3 and hasattr(self, "feature_names_in_"):
                del self.feature_names_in_  # of a table that it was fitted to before
            self.event_shape_ = event
            self.of_bytes_ = len(event) == 3 and array.dtype == np.uint8
            self.n_features_in_ = math.prod(event)
        elif event != self.event_shape_:
            raise ValueError(
                f"X has points of {described(event)}, but this detector was fitted to points of "
                f"{described(self.event_shape_)}"
            )
        return x

    def _rate(self, points: int) -> float:
        rate = _plain(self.false_alarm_rate)
        if rate == "auto":
            return max(USUAL_RATE, 1 / (points + 1))
        if not isinstance(rate, int | float):
            raise ValueError(f'false_alarm_rate={rate!r} must be "auto" or a number')
        return rate

    def _recipe(self) -> Recipe:
        recipe = Recipe(
            self.method,
            _plain(self.max_updates),
            _plain(self.patience),
            _plain(self.learning_rate),
            _plain(self.batch_size),
        )
        at_least(0, max_updates=recipe.max_updates)
        at_least(
            1, patience=recipe.patience, batch_size=recipe.batch_size, centres=_plain(self.centres)
        )
        positive(learning_rate=recipe.learning_rate, calibration=_plain(self.calibration))
        if self.method not in METHODS:
            raise ValueError(f"method={self.method!r} must be one of {', '.join(METHODS)}")
        if not self.calibration < 1:
            raise ValueError(f"calibration={self.calibration} must lie between 0 and 1")
        if not isinstance(self.network, nn.Module | None):
            raise ValueError(f"network={self.network!r} must be a torch module")
        return recipe


def _plain(value: Any) -> Any:
    """A number of numpy's, as grids of settings hold, as one of Python's."""
    return value.item() if isinstance(value, np.generic) else value
