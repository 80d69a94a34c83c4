"""How well scores tell in-distribution (ID) from out-of-distribution (OOD) points.

A higher score means "more like the data". ID is the positive class, as in the paper, except in
``aupr_ood``. AUPR depends on the sizes of the two sets; the other figures do not.
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import average_precision_score, roc_auc_score

from ..support.checks import at_least

Scores = NDArray[np.float64]


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
    return _detection(_checked(id_scores, "ID"), _checked(ood_scores, "OOD"))


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
    inside, outside = _checked(id_scores, "ID"), _checked(ood_scores, "OOD")
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


def _detection(inside: Scores, outside: Scores) -> Detection:
    # Only their order counts; as ranks, infinite scores are scores like any other.
    _, scores = np.unique(np.concatenate([inside, outside]), return_inverse=True)
    is_id = np.repeat([1, 0], [len(inside), len(outside)])
    return Detection(
        _fpr_at_tpr(inside, outside, 0.95),
        float(roc_auc_score(is_id, scores)),
        float(average_precision_score(is_id, scores)),
        float(average_precision_score(1 - is_id, -scores)),
    )


def _fpr_at_tpr(inside: Scores, outside: Scores, tpr: float) -> float:
    accepted = int(np.ceil(tpr * len(inside) - 1e-9))
    threshold = np.sort(inside)[len(inside) - accepted]
    return float((outside >= threshold).mean())


def _checked(scores: ArrayLike, name: str) -> Scores:
    if isinstance(scores, torch.Tensor):
        scores = scores.detach().cpu()
    values = np.asarray(scores, np.float64)
    if values.ndim != 1 or not len(values):
        raise ValueError(f"{name} scores must be a list of numbers, got shape {values.shape}")
    if missing := int(np.isnan(values).sum()):
        raise ValueError(f"{missing} of {len(values)} {name} scores are NaN")
    return values
