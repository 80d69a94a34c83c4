r"""From points to what a detector is made of: an energy in its units, and scores to calibrate by.

Two ways to calibrate. A *split* keeps a share of the points for nothing else; what it promises
holds exactly. *Folds* keep none: every point is scored by an energy made without its fold, and
new points by the energy of all. That is for recipes that train nothing, whose energies are made in
a moment; small tables lose no row by it. Were new points scored by the folds' energies, too, a rate
of :math:`\alpha` would be :math:`2 \alpha` at most, and a little (cross-conformal, CV+). By the
energy of all nothing is proven unless a fifth of the points hardly changes it; simulated, alarms
are as rare as stated (RESULTS.md).

Rows that are there more than once stay together, on one side of a split and in one fold: a copy in
the other part would make a row look more usual than new ones will. Not so rows of which there are
more than half of such a part: they are no copies but a common kind, new rows will be of it, too,
and whoever learns nothing of it finds it strange.

References:
    Vovk (2015), *Cross-conformal predictors*.
    Foygel Barber, Candès, Ramdas, Tibshirani (2021), *Predictive inference with the jackknife+*.
"""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from ..energies.kernel import TiltedEnergy, affordable
from ..energies.neighbour import NeighbourRule
from ..energies.scaling import Scaling
from ..evaluation.calibration import alarms, loosened, threshold, weighted_p_values
from ..recipes import Recipe, train
from ..recipes.held_out import LOG_Z_DRAWS, Curve
from ..recipes.named import RecipeName
from ..support.randomness import generator
from ..training.precision import placed
from .choice import budgeted, units_and_recipe
from .scorer import Scorer, calibration_scores
from .worth import Worth, held_back, scored

USUAL_SHARE = 0.2
FOLDS = 5
FEWEST_FOLDED = 4 * FOLDS
"""Points that differ; of fewer a fold leaves too little."""
MOST_FOLDED = 10_000
"""Points; of more a fifth is not missed, and folds would take minutes."""
FAR_OUT = 1000.0
"""Interquartile ranges from the median: no value of a measurement is so far, but 99999 may be."""
QUARTILES_OF = 20, 10_000
"""Rows that decide about those: at least, and at most."""


class Plan(NamedTuple):
    """How to train."""

    recipe: Recipe | RecipeName
    seed: int
    max_updates: int | None = None
    minutes: float | None = None
    folder: Path | None = None
    device: str = "cpu"
    verbose: bool = False
    contamination: float = 0.0
    """Share of the points that may be faults: so many, the least likely, are not learned from."""
    names: tuple[str, ...] = ()
    """Of a table's numbers, for what is said of them; none: they are counted."""


class KnownScores(NamedTuple):
    """Calibration scores of points that are not at hand, or were scored otherwise; ascending."""

    scores: NDArray[np.float64]
    event_shape: tuple[int, ...]
    folded: bool = False
    """Whether each is by an energy made without the point's fold."""
    weights: NDArray[np.float64] | None = None
    """How much each counts; None: all alike."""

    def threshold_at(self, rate: float) -> float:
        """The first score whose p exceeds the rate; by weights, p of a point of mean weight."""
        alarms(len(self.scores), rate)
        if self.weights is None:
            return threshold(self.scores, rate)
        typical = np.full(len(self.scores), self.weights.mean())
        p = weighted_p_values(self.scores, self.weights, self.scores, typical)
        return float(self.scores[min(int((p <= rate).sum()), len(p) - 1)])

    def tensors(self) -> dict[str, Tensor]:
        """For a file."""
        found = {"calibration_scores": torch.from_numpy(self.scores)}
        if self.weights is not None:
            found["calibration_weights"] = torch.from_numpy(self.weights)
        return found

    @classmethod
    def from_tensors(
        cls, tensors: dict[str, Tensor], event_shape: tuple[int, ...], folded: bool
    ) -> "KnownScores":
        """From a file's, checked; they are taken out of ``tensors``."""
        scores = tensors.pop("calibration_scores").numpy()
        if scores.ndim != 1 or scores.dtype != np.float64 or not np.isfinite(scores).all():
            raise ValueError("the calibration scores are no finite numbers")
        found = tensors.pop("calibration_weights", None)
        weights = None if found is None else found.numpy()
        if weights is not None and (weights.dtype != np.float64 or weights.shape != scores.shape):
            raise ValueError("the calibration weights are no numbers, one for each score")
        return cls(scores, event_shape, folded, weights)


class LearnedEnergy(NamedTuple):
    """An energy, and what it came from."""

    energy: nn.Module
    units: Scaling
    recipe: Recipe
    curve: Curve
    worth: Worth | None


def learn(plan: Plan, inside: Tensor) -> LearnedEnergy:
    """What the plan makes of training points in the user's units."""
    units, recipe = units_and_recipe(plan.recipe, inside, plan.max_updates)
    z = units(inside)
    if recipe.phase is None:
        if (precision := placed(plan.device)[1]) != "full":
            raise ValueError(
                f"precision={precision!r}: recipe {recipe.name} trains nothing; leave it out"
            )
        return LearnedEnergy(recipe.energy.build(z, plan.seed), units, recipe, [], None)
    z, held = held_back(recipe, z.float())
    recipe = budgeted(recipe, z, plan.minutes, plan.folder, plan.seed, plan.device)
    run = train(recipe, z, plan.folder, plan.seed, plan.verbose, plan.device)
    energy, worth = scored(recipe, run.energy.cpu(), z, held, plan.seed)
    return LearnedEnergy(energy, units, recipe, run.curve, worth)


def fitted(
    plan: Plan,
    points: Tensor,
    calibration: float | Literal["auto", "folds"],
    rate: Callable[[int], float],
) -> tuple[LearnedEnergy, ArrayLike | KnownScores]:
    """What is learned, and what to calibrate it by: held-back points, or the scores of all.

    ``rate``: of false alarms, given how many points there are to calibrate by; too few of them are
    refused before the work.
    """
    if points.dim() == 2 and bool(points.isnan().any()):
        _refuse_gaps(plan, points)
    if plan.contamination:
        points = points[_trimmed(plan, points)]
    if points.dim() == 2:
        _tell_far_out(points, plan.names)
    by_folds = calibration == "folds"
    if calibration == "auto":
        by_folds = _can_fold(plan, points)
    if by_folds:
        alarms(len(points), rate(len(points)))
        scores = loosened(fold_scores(plan, points).numpy())
        return learn(plan, points), KnownScores(scores, tuple(points.shape[1:]), folded=True)
    share = USUAL_SHARE if isinstance(calibration, str) else float(calibration)
    kept = min(max(1, round(share * len(points))), len(points) - 1)
    alarms(kept, rate(kept))
    inside, held_out = (points[part] for part in split(points, kept, plan.seed))
    # Channels last: narrow images, channels first, would be taken for something else.
    known = held_out if points.dim() == 2 else held_out.movedim(1, -1)
    return learn(plan, inside), known


def _trimmed(plan: Plan, points: Tensor) -> Tensor:
    """Which points are left without those that an energy of all of them finds least likely."""
    if not 0 < plan.contamination < 0.5:
        raise ValueError(f"contamination={plan.contamination} must lie between 0 and 0.5")
    if units_and_recipe(plan.recipe, points, 0)[1].phase is not None:
        raise ValueError("contamination is for recipes that train nothing, such as tables")
    made = learn(plan, points)
    scores = Scorer(made.units, made.energy).eval().in_parts(points)
    kept = len(points) - round(plan.contamination * len(points))
    return scores.argsort(descending=True, stable=True)[:kept].sort().values


def _tell_far_out(points: Tensor, names: tuple[str, ...]) -> None:
    """A warning of the value farthest out, if beside it all others of its column are alike."""
    ranked = points[:: -(-len(points) // QUARTILES_OF[1])].sort(0).values  # gaps last
    most = ((~ranked.isnan()).sum(0) - 1).clamp_min(0)
    low, median, high = (ranked.gather(0, (q * most).long()[None])[0] for q in (0.25, 0.5, 0.75))
    least, largest = points.nan_to_num(torch.inf).amin(0), points.nan_to_num(-torch.inf).amax(0)
    ends = torch.stack([least, largest])
    # Where the quartiles are equal nobody can tell: the column is mostly one value.
    told = (high > low) & (most + 1 >= QUARTILES_OF[0])
    far = ((ends - median) / (high - low)).abs().where(told, 0.0)
    if far.max() <= FAR_OUT:
        return
    end, k = divmod(int(far.argmax()), points.shape[1])
    column = f"column {names[k]!r}" if names else f"column {k + 1}"
    warnings.warn(
        f"{column} has the value {ends[end, k]:g}, more than {FAR_OUT:,.0f} interquartile ranges "
        f"from its median {median[k]:g}, which may hide other faults: if it is wrong, or stands "
        "for what is missing, remove it, or fit with contamination=...",
        stacklevel=4,  # where fit was called
    )


def _refuse_gaps(plan: Plan, points: Tensor) -> None:
    recipe = units_and_recipe(plan.recipe, points, plan.max_updates)[1]
    if not isinstance(recipe.energy, NeighbourRule):
        raise ValueError(f"recipe {recipe.name} takes no gaps: fill them, or take recipe tables")


def log_z_of(energy: nn.Module, seed: int) -> tuple[float, float] | None:
    """log Z and its standard error, of energies that know it."""
    if not isinstance(energy, TiltedEnergy):
        return None
    draws = affordable(LOG_Z_DRAWS, energy.reference.centres)
    return energy.log_z(draws, generator(seed, "log z"))


def _can_fold(plan: Plan, points: Tensor) -> bool:
    """Whether energies of these points are made in a moment, and there are points for folds."""
    if len(points) > MOST_FOLDED or int(_groups(points).max()) + 1 < FEWEST_FOLDED:
        return False
    return units_and_recipe(plan.recipe, points, 0)[1].phase is None


def fold_scores(plan: Plan, points: Tensor) -> Tensor:
    """Scores ``(N,)``, each by an energy made without the point's fold."""
    if units_and_recipe(plan.recipe, points, 0)[1].phase is not None:
        raise ValueError("calibration='folds' is for recipes that train nothing: give a share")
    scores = torch.empty(len(points), dtype=torch.float64)
    folds = torch.empty(len(points), dtype=torch.int64)
    order, groups = _together(points, len(points) // FOLDS, plan.seed)
    for fold, part in enumerate(order.tensor_split(min(FOLDS, len(points)))):
        folds[part] = fold
    # A group of equal rows that was cut in two goes where its first row is.
    first = torch.full((int(groups.max()) + 1,), FOLDS)
    first.scatter_reduce_(0, groups, folds[order], "amin")
    folds[order] = first[groups]
    for fold in folds.unique().tolist():
        inside, outside = points[folds != fold], points[folds == fold]
        if len(inside) < 2:
            raise ValueError("all points are alike, or they are too few: there is nothing to learn")
        made = learn(plan, inside)
        scorer = Scorer(made.units, made.energy).eval()
        scores[folds == fold] = calibration_scores(scorer, outside)
    return scores


def split(points: Tensor, kept: int, seed: int) -> tuple[Tensor, Tensor]:
    """Which points to learn from, and which ``kept`` ones to calibrate by, or a few more.

    Groups of equal rows go to calibration whole, in random order; those that are larger than what
    is still wanted are passed over.
    """
    order, groups = _together(points, kept, seed)
    sizes, wanted = groups.bincount(), kept
    held = torch.zeros(len(sizes), dtype=torch.bool)
    ahead = groups.flip(0).unique_consecutive()
    for group, size in zip(ahead.tolist(), sizes[ahead].tolist(), strict=True):
        if size <= wanted:
            held[group] = True
            wanted -= size
        if not wanted:
            break
    if wanted:  # and no group is so small: one more than is needed, if enough is left
        least = int(torch.where(held, len(points), sizes).argmin())
        if len(points) - kept + wanted - int(sizes[least]) >= 2:
            held[least], wanted = True, 0
    inside, outside = order[~held[groups]], order[held[groups]]
    cut = len(inside) - wanted
    return inside[:cut], torch.cat([inside[cut:], outside])


def _groups(points: Tensor) -> Tensor:
    """A number for each point; equal rows of a table share theirs."""
    if points.dim() > 2:
        return torch.arange(len(points))
    # NaN equals nothing: where the gaps are is a part of what makes rows equal.
    gaps = points.isnan()
    key = torch.cat([points.nan_to_num(0.0), gaps], 1) if bool(gaps.any()) else points
    groups: Tensor = torch.unique(key, dim=0, return_inverse=True)[1]
    return groups


def _together(points: Tensor, part: int, seed: int) -> tuple[Tensor, Tensor]:
    """A random order in which equal rows follow each other, and the numbers of their groups in it.

    Groups that are larger than half of a ``part`` are taken apart, into one for each row.
    """
    groups, each = _groups(points), torch.arange(len(points))
    common = groups.bincount()[groups] > max(1, part // 2)
    groups = torch.where(common, len(points) + each, groups).unique(return_inverse=True)[1]
    order = torch.randperm(len(points), generator=generator(seed, "split"))
    # The place of one row of each group: by the least of all, large groups would come first.
    one = torch.full((int(groups.max()) + 1,), len(points)).scatter_reduce_(0, groups, each, "amin")
    place = order.argsort()[one]
    order = order[place[groups[order]].argsort(stable=True)]
    return order, groups[order]
