"""Thresholds as a table, and as a slider that shows alarms and misses at each rate."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..detector.card import threshold_lines
from ..detector.fitting import KnownScores
from ..evaluation.calibration import interval, threshold
from .curves import label
from .evidence import FARTHEST_SCORE
from .page import Dial, Figure, Sheet

ScoreArray = NDArray[np.float64]
STOPS = 31
HIGHEST_RATE = 0.3
SCORE_BINS = 60
SET_COLOURS = ("@ood", "@srlmc", "@importance", "@third", "@fourth")
DASHES = ("solid", "dash", "dot")
SEEN = (0.005, 0.999)
"""Quantiles of each set between which scores are drawn: a few are far out."""


def threshold_sheet(calibration: ScoreArray, weights: ScoreArray | None = None) -> Sheet:
    """The rates of a model's card; ``weights`` of the calibration scores, where they have some."""
    head, *body = threshold_lines(KnownScores(calibration, (), weights=weights))
    return Sheet("Alarms are scores below the threshold", head, tuple(body))


def threshold_dial(
    calibration: ScoreArray,
    normal: Mapping[str, ScoreArray],
    outliers: Mapping[str, ScoreArray],
    rate: float,
    note: str,
) -> Dial:
    """Scores of all sets, and what a threshold makes of each.

    ``normal`` sets, beside the calibration points, are to raise no alarms, ``outliers`` are.
    """
    lowest = 1 / (len(calibration) + 1)
    rates = np.geomspace(min(lowest, HIGHEST_RATE), HIGHEST_RATE, STOPS).tolist()
    rates = sorted({*(r for r in rates if r >= lowest), max(rate, lowest)})
    stops = tuple(_stop(calibration, normal, outliers, one) for one in rates)
    sets = {"calibration": calibration, **normal, **outliers}
    alt = "Histograms of scores: " + "; ".join(
        f"{name}, median {np.median(scores):.4g}" for name, scores in sets.items()
    )
    at = rates.index(max(rate, lowest))
    figure = score_figure(calibration, normal, outliers)
    return Dial("Scores, and where alarms begin", figure, f"{alt}.", stops, at, note)


def score_figure(
    calibration: ScoreArray, normal: Mapping[str, ScoreArray], outliers: Mapping[str, ScoreArray]
) -> Figure:
    """Histograms over common bins; normal sets are filled."""
    filled = {"fill": "tozeroy"}
    sets: dict[str, tuple[ScoreArray, Figure, Figure]] = {
        "calibration": (calibration, {"color": "@data"}, filled),
        **{name: (scores, {"color": "@ps_usp"}, filled) for name, scores in normal.items()},
    }
    for k, (name, scores) in enumerate(outliers.items()):
        again, colour = divmod(k, len(SET_COLOURS))
        look = {"color": SET_COLOURS[colour], "dash": DASHES[again % len(DASHES)]}
        sets[name] = (scores, look, {})
    finite = {name: scores[scores > FARTHEST_SCORE] for name, (scores, _, _) in sets.items()}
    ends = [np.quantile(scores, SEEN) for scores in finite.values() if len(scores)]
    low, high = min(end[0] for end in ends), max(end[1] for end in ends)
    edges = np.linspace(low, high if high > low else low + 1, SCORE_BINS + 1)
    data = [
        {
            "type": "scatter",
            "mode": "lines",
            "x": ((edges[1:] + edges[:-1]) / 2).tolist(),
            "y": (np.histogram(finite[name], edges)[0] / max(1, len(scores))).tolist(),
            "name": label(name),
            "line": {"width": 1.8, "shape": "hvh", **look},
            **fill,
        }
        for name, (scores, look, fill) in sets.items()
    ]
    return {
        "data": data,
        "layout": {
            "xaxis": {"title": {"text": "score: higher is more like the data"}},
            "yaxis": {"title": {"text": "share of the set"}, "rangemode": "tozero"},
            "showlegend": True,
        },
    }


def _stop(
    calibration: ScoreArray,
    normal: Mapping[str, ScoreArray],
    outliers: Mapping[str, ScoreArray],
    rate: float,
) -> dict[str, Any]:
    limit = threshold(calibration, rate)
    low, high = interval(len(calibration), rate)
    lines = [
        f"Points like the data: at most {rate:.2%} raise a false alarm, on average over "
        f"calibration sets; 95 % of such calibrations keep it within {low:.2%} to {high:.2%}."
    ]
    lines += [
        f"{name}: {below(scores, limit):.2%} raise a false alarm."
        for name, scores in normal.items()
    ]
    for name, scores in outliers.items():
        found = below(scores, limit)
        lines.append(f"{name}: {found:.1%} are found, {1 - found:.1%} are missed.")
    return {"rate": rate, "threshold": limit, "lines": lines}


def below(scores: ScoreArray | Sequence[float], limit: float) -> float:
    """The share of scores that raise an alarm."""
    values = np.asarray(scores, np.float64)
    return float((values < limit).mean()) if len(values) else math.nan
