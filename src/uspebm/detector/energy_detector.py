"""An energy-based model as a scikit-learn outlier detector, with alarms at a stated rate."""

import copy
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import nn

from ..energies.features import FeatureEnergy
from ..energies.kernel import TiltedEnergy
from ..energies.scaling import Scaling, as_is
from ..evaluation.metrics import Interval, intervals
from ..recipes import Recipe
from ..recipes.held_out import Curve
from ..recipes.named import RECIPE_NAMES, RecipeName
from ..support.checks import at_least, one_of
from ..support.randomness import generator
from .choice import OWN
from .decisions import DecisionMixin, plain_number
from .fitting import KnownScores, Plan, fitted, log_z_of
from .heat import heat_maps
from .reasons import Reasons, reasons
from .scorer import Scorer
from .verdict import verdict_on, verdict_on_images
from .worth import Worth

Values = NDArray[np.float64]


class EnergyDetector(DecisionMixin, OutlierMixin, BaseEstimator):  # type: ignore[misc]
    r"""Learns an energy; calls outliers what has more of it than the data do.

    What is learned is a recipe's. Tables get distances to their own rows in several kinds of units
    (:class:`~uspebm.energies.neighbour.NeighbourEnergy`), and nothing is trained; images get a
    convolutional network, trained by crowded PS-USP, and are scored by how far its features are
    from the data's (:class:`~uspebm.energies.features.FeatureEnergy`). Such scores order points and
    are no densities. Recipe ``"tables-density"`` gives tables a kernel density and what a network
    adds to it, :math:`E(x) = -\log r(x) + f_\theta(x)`: its scores are normalised log-densities.

    Points that an energy was not made of calibrate alarms: of points drawn like the data, at most
    the stated share is called outliers, on average over calibrations (see
    :mod:`uspebm.evaluation.calibration`; by folds that was simulated, and is not proven). Settings
    that were chosen by looking at the same data, as a grid search does, weaken that.

    Tables ``(N, d)`` (arrays, DataFrames, tensors), or images as :mod:`uspebm.data.points` says.

    Arguments:
        recipe: How to train, a :class:`~uspebm.Recipe` or a name. ``"auto"``: ``"tables"`` for
            tables; ``"images"`` for images, or ``"pixels"`` (neighbours in pixels) for few ones. A
            recipe of your own sees tables as they are, and images in [−1, 1].
        max_updates: Instead of the recipe's own number; 0 trains no network.
        calibration: Share of the data kept for calibration; or ``"folds"``, for recipes that train
            nothing: none is kept, and every point is scored without its fold. ``"auto"``: folds
            where that takes a moment, otherwise a fifth.
        false_alarm_rate: Of :meth:`predict`. ``"auto"``: 5 %, or what the calibration points allow.
        random_state: Seed of every draw.
        verbose: Show how far training is.

    Attributes:
        recipe_: The recipe that ran, with all its numbers; None for an energy trained elsewhere.
        seed_: What it ran with.
        offset_: The score below which points are called outliers.
        calibration_scores_: In ascending order, lowered by what rounding may do to a score.
        calibration_weights_: Of those, under a known shift (:meth:`recalibrated`); None: all equal.
        folded_: Whether those are of all points, each by an energy made without its fold.
        curve_: Held-out log-likelihood over the updates, in scaled units, where there is one.
        worth_: What the network of an image model finds, beside pixels; None where nobody looked.
        log_z_error_: Standard error of log Z; None where it is not known, and scores are energies.
        scorer_: The model, as a torch module.
        n_features_in_: Numbers in a point.
        event_shape_: Shape of a point, channels first.
        of_bytes_: Whether it was fitted to bytes, as images often are.
        encoding_: How columns of a table became numbers (:mod:`uspebm.data.encoding`); None where
            they were.
        dropped_columns_: Columns of the user's file that were left out.
        resized_: Whether images of other sizes are brought to its own when a folder is scored.

    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> detector = EnergyDetector(random_state=0, max_updates=50).fit(X)
    >>> detector.predict([[0.0, 0.0], [8.0, 8.0]])
    array([ 1, -1])
    >>> detector.predict([[8.0, 8.0]], false_alarm_rate=0.02)
    array([-1])
    """

    recipe_: Recipe | None
    seed_: int | None
    offset_: float
    calibration_scores_: Values
    calibration_weights_: Values | None
    folded_: bool
    curve_: Curve
    worth_: Worth | None
    log_z_error_: float | None
    scorer_: Scorer
    dropped_columns_: tuple[str, ...]

    def __init__(
        self,
        recipe: Recipe | RecipeName = "auto",
        *,
        max_updates: int | None = None,
        calibration: float | Literal["auto", "folds"] = "auto",
        false_alarm_rate: float | Literal["auto"] = "auto",
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
    ) -> None:
        self.recipe = recipe
        self.max_updates = max_updates
        self.calibration = calibration
        self.false_alarm_rate = false_alarm_rate
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        X: ArrayLike,
        y: object = None,
        *,
        folder: Path | str | None = None,
        minutes: float | None = None,
        device: str = "cpu",
        contamination: float = 0.0,
    ) -> Self:
        """Learn from ``X``; ``y`` is ignored.

        Rows that may be faults themselves: a row that was learned from is judged by the others, so
        that ``fit(X).predict(X)`` finds those that are alone. ``contamination`` is the share of
        faults in ``X``, if that is known: so many rows, the least likely, are neither learned from
        nor calibrated by. If fewer are faults, there are as many more false alarms.

        ``folder`` keeps the training as it goes: the same call goes on with one that was
        interrupted. ``minutes`` is how long it may take; the recipe's own number of updates is
        still the most. ``device`` is where images are trained on, such as ``"cuda"``, or
        ``"cuda+bf16"`` for gradients in bfloat16; scores are computed on the CPU.
        """
        self._check_settings()
        # By another one, so that a fit that fails changes nothing.
        seen = type(self)(**self.get_params(deep=False))
        x = seen._points(X, reset=True)
        plan = Plan(
            self.recipe,
            self._seed(),
            self.max_updates,
            minutes,
            None if folder is None else Path(folder),
            device,
            self.verbose,
            contamination,
            seen.columns().names if hasattr(seen, "feature_names_in_") else (),
        )
        learned, known = fitted(plan, x, self.calibration, self._rate)
        made = type(self).from_energy(
            learned.energy,
            known,
            scaling=learned.units,
            log_z=log_z_of(learned.energy, plan.seed),
            of_bytes=seen.of_bytes_,
            **self.get_params(deep=False),
        )
        made.recipe_, made.seed_ = learned.recipe, plan.seed
        made.curve_, made.worth_ = learned.curve, learned.worth
        found = vars(made) | vars(seen)  # which knows the columns, and how they became numbers
        own = {name: value for name, value in vars(self).items() if not name.endswith("_")}
        self.__dict__ = {name: value for name, value in found.items() if name.endswith("_")} | own
        return self

    @classmethod
    def from_energy(
        cls,
        energy: nn.Module,
        held_out: ArrayLike | KnownScores,
        *,
        scaling: Scaling | None = None,
        log_z: tuple[float, float] | None = None,
        of_bytes: bool = False,
        **settings: Any,
    ) -> Self:
        """A trained energy as a fitted detector: the only way to one.

        Arguments:
            energy: From points ``(N, *event)`` in its own units to ``(N,)``, lower is more like
                the data. It is copied.
            held_out: Points in the user's units that it was not trained on, to calibrate by.
            scaling: From the user's units to the energy's. Left out: they are the same.
            log_z: log ∫ exp(−E) in the energy's units and its standard error, if known.
            of_bytes: Whether points may also come as bytes, which stand for [−1, 1].
            settings: As the constructor takes them; a recipe given here is said to have trained it,
                and without one the detector can be used but not fitted again.
        """
        detector = cls(**{"recipe": OWN} | settings)
        if isinstance(held_out, KnownScores):
            detector._set_event(held_out.event_shape, of_bytes)
        else:
            x = detector._points(held_out, reset=True, fewest=1)
            detector.of_bytes_ |= of_bytes
        units = scaling or as_is(detector.event_shape_)
        normaliser = 0.0 if log_z is None else log_z[0] - units.log_det
        detector.scorer_ = Scorer(units, copy.deepcopy(energy), normaliser).eval()
        detector.log_z_error_ = None if log_z is None else log_z[1]
        if not isinstance(held_out, KnownScores):
            held_out = detector._known(x)
        detector._set_calibration(held_out)
        detector.recipe_ = detector.recipe if isinstance(detector.recipe, Recipe) else None
        detector.seed_ = detector.random_state if isinstance(detector.random_state, int) else None
        detector.curve_, detector.dropped_columns_, detector.worth_ = [], (), None
        return detector

    def score(self, X: ArrayLike, y: object = None) -> float:
        """Mean score of ``X``: models of the same data compare by it where it is a log-density."""
        return float(self.score_samples(X).mean())

    def sample(self, n: int, random_state: int = 0) -> Values:
        """``n`` points of the model: draws from r, chosen by exp(−f). Bytes as in [−1, 1]."""
        check_is_fitted(self)
        energy = self.scorer_.energy
        if not isinstance(energy, TiltedEnergy):
            raise ValueError("this model has no reference density to draw from")
        draws = generator(random_state, "sample")
        z = energy.reference.sample(max(20 * n, 1000), draws)
        with torch.no_grad():
            weight = torch.softmax(-energy.tilt(z).double(), 0)
        chosen = z[torch.multinomial(weight, n, replacement=True, generator=draws)]
        return np.asarray(self.scorer_.scaling.inverse(chosen).numpy())

    def evaluate(self, inside: ArrayLike, outside: ArrayLike) -> dict[str, Interval]:
        """How well scores tell the two apart: FPR95, AUROC and both AUPRs, with intervals."""
        return intervals(self.score_samples(inside), self.score_samples(outside))

    def explain(self, X: ArrayLike) -> Reasons | Values:
        """Why points have the scores they have.

        Of tables: for each column what the score would gain if it were as expected given the rest
        (:mod:`.reasons`). Of images: heat ``(N, height, width)``, what the score gains where a part
        is painted over (:mod:`.heat`).
        """
        x = self._points(X, reset=False)
        if len(self.event_shape_) == 1:
            return reasons(self.scorer_, x, self.columns())
        return np.asarray(heat_maps(self.scorer_, x).numpy())

    def verdict(self) -> str:
        """One sentence: which recipe ran, what was kept of it, and what it was worth."""
        check_is_fitted(self)
        if isinstance(self.scorer_.energy, FeatureEnergy):
            return verdict_on_images(self.recipe_, self.scorer_.energy, self.worth_)
        return verdict_on(self.recipe_, self.scorer_.energy, self.curve_, self.log_z_error_)

    def _seed(self) -> int:
        state = self.random_state
        if isinstance(state, int | np.integer) and not isinstance(state, bool):
            return int(state)
        return int(check_random_state(state).randint(2**31))

    def _check_settings(self) -> None:
        if not isinstance(self.recipe, Recipe) and self.recipe not in (*RECIPE_NAMES, OWN):
            raise ValueError(
                f"recipe={self.recipe!r} must be a Recipe, or one of {', '.join(RECIPE_NAMES)}"
            )
        if self.max_updates is not None:
            at_least(0, max_updates=plain_number(self.max_updates))
        share = plain_number(self.calibration)
        if isinstance(share, str):
            one_of(("auto", "folds"), calibration=share)
        elif not 0 < share < 1:
            raise ValueError(f"calibration={share} must lie between 0 and 1")
