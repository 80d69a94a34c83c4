"""How well scores tell in-distribution (ID) from out-of-distribution (OOD) points.

A higher score means "more like the data". ID is the positive class, as in the paper, except in
``aupr_ood``. AUPR depends on the sizes of the two sets; the other figures do not.
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from ..support.checks import at_least

Scores = NDArray[np.float64]
Whole = NDArray[np.int64]


class Detection(NamedTuple):
    """The figures of the paper's Table 1, as shares of one.

    >>> found = detection([1.0, 2.0, 3.0, 4.0], [0.0, 2.5])
    >>> found.fpr95  # one of the two is above the lowest ID score
    0.5
    """

    fpr95: float
    """Share of OOD points scored at least as high as the 5 % quantile of ID: lower is better."""
    auroc: float
    """Chance that an ID point scores higher than an OOD one, ties counted half."""
    aupr_id: float
    """Average precision with ID as the positive class."""
    aupr_ood: float
    """Average precision with OOD as the positive class."""


def detection(id_scores: ArrayLike, ood_scores: ArrayLike) -> Detection:
    """All figures for these scores, ``(N,)`` of data and ``(M,)`` of what is to be told from them.

    >>> detection(id_scores=[1.0, 2.0, 3.0, 4.0], ood_scores=[0.0, 2.5]).auroc  # 6 of 8 pairs
    0.75
    """
    return _detection(*_levels(_checked(id_scores, "ID"), _checked(ood_scores, "OOD")))


def fpr_at_tpr(id_scores: ArrayLike, ood_scores: ArrayLike, tpr: float = 0.95) -> float:
    """Share of OOD points accepted by the strictest threshold that accepts ``tpr`` of ID."""
    if not 0 < tpr <= 1:
        raise ValueError(f"tpr={tpr} must lie above 0, and be at most 1")
    return _fpr_at_tpr(_checked(id_scores, "ID"), _checked(ood_scores, "OOD"), tpr)


class Interval(NamedTuple):
    """A figure with its bootstrap interval."""

    value: float
    low: float
    high: float


def intervals(
    id_scores: ArrayLike,
    ood_scores: ArrayLike,
    level: float = 0.95,
    resamples: int = 200,
    seed: int = 0,
) -> dict[str, Interval]:
    """Every figure of :class:`Detection` with a percentile interval over resampled points.

    It speaks of the chance of the test points alone, not of that of training. Where resampling
    cannot change a figure, as with an FPR95 of zero, the interval has no width and is too narrow.
    """
    if not 0 < level < 1:
        raise ValueError(f"level={level} must lie between 0 and 1")
    at_least(1, resamples=resamples)
    inside, outside = _levels(_checked(id_scores, "ID"), _checked(ood_scores, "OOD"))
    draws = np.random.default_rng(seed)
    drawn = [
        _detection(draws.choice(inside, len(inside)), draws.choice(outside, len(outside)))
        for _ in range(resamples)
    ]
    low, high = np.quantile(np.array(drawn), [(1 - level) / 2, (1 + level) / 2], axis=0)
    value = _detection(inside, outside)
    return {
        name: Interval(v, float(a), float(b))
        for name, v, a, b in zip(Detection._fields, value, low, high, strict=True)
    }


def _levels(inside: Scores, outside: Scores) -> tuple[Whole, Whole]:
    """Scores as their places among all: only their order counts, and infinite ones have one too."""
    _, places = np.unique(np.concatenate([inside, outside]), return_inverse=True)
    return places[: len(inside)], places[len(inside) :]


def _detection(inside: Whole, outside: Whole) -> Detection:
    """The figures by counts per level, in which resamples differ; places are in :func:`_levels`."""
    levels = max(inside.max(), outside.max()) + 1
    known = np.bincount(inside, minlength=levels)[::-1]  # the highest level first
    unknown = np.bincount(outside, minlength=levels)[::-1]
    accepted, passed = known.cumsum(), unknown.cumsum()  # by a threshold at each level
    needed = _needed(0.95, len(inside))
    pairs = len(inside) * len(outside)
    return Detection(
        fpr95=float(passed[np.searchsorted(accepted, needed)] / len(outside)),
        auroc=float(unknown @ (accepted - known / 2) / pairs),
        aupr_id=_average_precision(known, unknown),
        aupr_ood=_average_precision(unknown[::-1], known[::-1]),
    )


def _average_precision(found: Whole, others: Whole) -> float:
    """The mean, over what is to be found, of the precision of a threshold at its level."""
    taken = found.cumsum()
    precision = taken / np.maximum(taken + others.cumsum(), 1)
    return float(found @ precision / taken[-1])


def _fpr_at_tpr(inside: Scores, outside: Scores, tpr: float) -> float:
    threshold = np.sort(inside)[len(inside) - _needed(tpr, len(inside))]
    return float((outside >= threshold).mean())


def _needed(tpr: float, count: int) -> int:
    """How many of ``count`` have to be accepted."""
    return int(np.ceil(tpr * count - 1e-9))


def _checked(scores: ArrayLike, name: str) -> Scores:
    if isinstance(scores, torch.Tensor):
        scores = scores.detach().cpu()
    values = np.asarray(scores, np.float64)
    if values.ndim != 1 or not len(values):
        raise ValueError(f"{name} scores must be a list of numbers, got shape {values.shape}")
    if missing := int(np.isnan(values).sum()):
        raise ValueError(f"{missing} of {len(values)} {name} scores are NaN")
    return values
