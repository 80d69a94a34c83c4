"""The card of a model: what a person should know before using it."""

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .calibration import interval, threshold
from .detector import EnergyDetector
from .inputs import described
from .learning import Curve
from .plots import COLOURS, new_figure, save_figure

RATES = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1)
COLUMNS = 30
"""More than these are not listed."""


def card(
    detector: EnergyDetector,
    title: str,
    data: str | None = None,
    curve: bool = True,
    training: Mapping[str, Any] | None = None,
) -> str:
    """In Markdown.

    ``data``: what they were; ``curve``: whether its picture was drawn; ``training``: how the
    network was trained if not by the detector.
    """
    parts = (
        [f"# {title}"],
        _data(detector, data),
        _model(detector, curve),
        _training(training or {}),
        _thresholds(detector),
    )
    filled = (lines for part in parts if (lines := list(part)))
    return "\n".join(line for lines in filled for line in (*lines, "")).rstrip("\n") + "\n"


def _data(detector: EnergyDetector, data: str | None) -> Iterator[str]:
    scores = detector.calibration_scores_
    yield "## Data\n"
    if data is not None:
        yield f"- Fitted to {data}."
    yield f"- One point: {described(detector.event_shape_)}."
    yield (
        f"- {len(scores):,} points kept for calibration; their scores: "
        f"{scores[0]:.4g} to {scores[-1]:.4g}, median {scores[len(scores) // 2]:.4g}."
    )
    reference = detector.scorer_.energy.reference
    if reference is None:
        return
    yield f"- The model holds {len(reference.centres):,} of the points it was fitted to."
    if len(detector.event_shape_) != 1:
        return
    yield "\nMeans of the training points; least and greatest of those that the model holds:\n"
    yield "| column | mean | min | max |"
    yield "|:---|---:|---:|---:|"
    held = detector.scorer_.scaling.inverse(reference.centres)
    means, lows, highs = detector.scorer_.scaling.shift, held.amin(0), held.amax(0)
    count = detector.event_shape_[0]
    names = getattr(detector, "feature_names_in_", [f"number {k + 1}" for k in range(count)])
    for k, name in enumerate(names[:COLUMNS]):
        shown = " ".join(str(name).split()).replace("|", "\\|")
        yield f"| {shown} | {means[k]:.6g} | {lows[k]:.6g} | {highs[k]:.6g} |"
    if count > COLUMNS:
        yield f"\nAnd {count - COLUMNS} more columns."


def _training(settings: Mapping[str, Any]) -> Iterator[str]:
    if settings:
        yield "## Training\n"
        yield f"```json\n{json.dumps(settings, indent=1)}\n```"


def _model(detector: EnergyDetector, curve: bool) -> Iterator[str]:
    energy = detector.scorer_.energy
    weights = sum(p.numel() for p in energy.network.parameters())
    yield "## Model\n"
    yield (
        "- Scores are log-densities in the data's own units: the higher, the more like the data."
        if energy.reference is not None
        else "- Scores are log-densities up to a constant: the higher, the more like the data."
    )
    yield (
        f"- Network: {type(energy.network).__name__}, {weights:,} weights; method "
        f"{detector.method}."
    )
    if energy.reference is not None:
        yield (
            f"- Reference density: {len(energy.reference.centres):,} Gaussians of width "
            f"{energy.reference.bandwidth.item():.4g} in scaled units."
        )
    known = _known(detector.curve_)
    if known and known[0].update == 0:
        first, best = known[0], max(known, key=lambda look: look.log_likelihood)
        yield (
            f"- Held-out log-likelihood, in scaled units: {first.log_likelihood:.4g} of the "
            "reference alone, "
            + (
                f"{best.log_likelihood:.4g} after {best.update} updates, which are kept."
                if best.update
                else "which is kept: "
                + ("no network did better." if len(known) > 1 else "no network was judged.")
            )
        )
    if curve:
        yield "\n![Held-out log-likelihood over the updates](curve.png)"


def _thresholds(detector: EnergyDetector) -> Iterator[str]:
    scores = detector.calibration_scores_
    yield "## Thresholds\n"
    yield (
        "A point is called an outlier if it scores below the threshold. Of points drawn like the "
        "data, at most this share is, on average over calibration sets; nothing is promised of "
        f"points that are not. The model's own threshold is {detector.offset_:.6g}.\n"
    )
    yield "| false-alarm rate | threshold | 95 % of such calibrations keep it within |"
    yield "|---:|---:|---:|"
    for rate in RATES:
        try:
            low, high = interval(len(scores), rate)
        except ValueError:
            yield f"| {rate:.1%} | needs more calibration points | |"
        else:
            yield f"| {rate:.1%} | {threshold(scores, rate):.6g} | {low:.2%} to {high:.2%} |"


def draw_curve(curve: Curve, path: Path) -> bool:
    """Held-out log-likelihood over the updates, as a picture; False if there is none to draw."""
    known = _known(curve)
    if len(known) < 2:
        return False
    figure, (panel,) = new_figure(columns=1, size=3.2)
    panel.plot([k.update for k in known], [k.log_likelihood for k in known], color=COLOURS["data"])
    panel.set_xlabel("updates", fontsize=8)
    panel.set_ylabel("held-out log-likelihood", fontsize=8)
    panel.tick_params(labelsize=7)
    save_figure(figure, path.with_suffix(""), formats=("png",))
    return True


def _known(curve: Curve) -> Curve:
    """Minus infinity stands for a log Z that nobody knows, NaN for no held-out points."""
    return [look for look in curve if math.isfinite(look.log_likelihood)]
