"""The card of a model: what a person should know before using it."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from torch import Tensor

from .. import __version__
from ..data.points import described
from ..energies.features import FeatureEnergy, Joined, Pixels
from ..energies.kernel import TiltedEnergy
from ..energies.neighbour import NeighbourEnergy
from ..evaluation.calibration import interval
from ..recipes.held_out import Curve
from ..recipes.plain import as_plain
from ..support.extras import MissingExtraError
from ..support.plots import COLOURS, new_figure, save_figure
from .energy_detector import EnergyDetector
from .fitting import KnownScores
from .reasons import held_rows
from .verdict import known_looks

RATES = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1)
LISTED_COLUMNS = 30
"""More than these are not listed."""


def card(detector: EnergyDetector, title: str, data: str | None = None, curve: bool = True) -> str:
    """In Markdown. ``data``: what they were; ``curve``: whether its picture was drawn."""
    parts = (
        [f"# {title}"],
        [f"{_sentence(detector.verdict())}"],
        _data(detector, data),
        _model(detector, curve),
        _thresholds(detector),
        _training(detector),
    )
    filled = (lines for part in parts if (lines := list(part)))
    return "\n".join(line for lines in filled for line in (*lines, "")).rstrip("\n") + "\n"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _data(detector: EnergyDetector, data: str | None) -> Iterator[str]:
    scores = detector.calibration_scores_
    yield "## Data\n"
    if data is not None:
        yield f"- Fitted to {data}."
    resized = "; images of other sizes were resized, and will be" if detector.resized_ else ""
    yield f"- One point: {described(detector.event_shape_)}{resized}."
    kept = "points, each scored without its fold" if detector.folded_ else "points kept"
    yield (
        f"- {len(scores):,} {kept} for calibration; their scores: "
        f"{scores[0]:.4g} to {scores[-1]:.4g}, median {scores[len(scores) // 2]:.4g}."
    )
    for column in detector.encoding_.columns if detector.encoding_ is not None else ():
        yield f"- Column {column.name!r}: {column.said()}."
    if getattr(detector.scorer_.energy, "fills", False):
        yield "- Gaps are filled from the rows that are most alike."
    if detector.dropped_columns_:
        yield f"- Columns left out: {', '.join(map(repr, detector.dropped_columns_))}."
    energy = detector.scorer_.energy
    if isinstance(energy, FeatureEnergy):
        what = "" if isinstance(energy.network, Pixels) else "features of "
        yield f"- The model holds {what}{len(energy.centres):,} of the images it was fitted to."
    try:
        held = held_rows(detector.scorer_)
    except ValueError:  # there are none
        return
    yield f"- The model holds {len(held):,} of the points it was fitted to."
    if len(detector.event_shape_) == 1:
        yield from _columns(detector, held)


def _columns(detector: EnergyDetector, held: Tensor) -> Iterator[str]:
    yield "\nOf the points that the model holds:\n"
    yield "| column | mean | min | max |"
    yield "|:---|---:|---:|---:|"
    means, lows, highs = held.mean(0), held.amin(0), held.amax(0)
    count = detector.event_shape_[0]
    names = getattr(detector, "feature_names_in_", [f"number {k + 1}" for k in range(count)])
    if detector.encoding_ is not None:
        names = np.array(detector.encoding_.names, dtype=object)
    for k, name in enumerate(names[:LISTED_COLUMNS]):
        shown = " ".join(str(name).split()).replace("|", "\\|")
        yield f"| {shown} | {means[k]:.6g} | {lows[k]:.6g} | {highs[k]:.6g} |"
    if count > LISTED_COLUMNS:
        yield f"\nAnd {count - LISTED_COLUMNS} more columns."


def _training(detector: EnergyDetector) -> Iterator[str]:
    if detector.recipe_ is None:
        return
    yield "## Training\n"
    yield f"Recipe `{detector.recipe_.name}`, seed {detector.seed_}, uspebm {__version__}.\n"
    yield f"```json\n{json.dumps(as_plain(detector.recipe_), indent=1)}\n```"


def _model(detector: EnergyDetector, curve: bool) -> Iterator[str]:
    energy = detector.scorer_.energy
    yield "## Model\n"
    if detector.log_z_error_ is None:
        yield (
            "- Scores are energy scores, minus the energy: the higher, the more like the data. "
            "They order points; they are no densities, since log Z is not known."
        )
    else:
        yield (
            "- Scores are normalised log-densities in the data's own units: the higher, the more "
            f"like the data. Their common constant, log Z, has a standard error of "
            f"{detector.log_z_error_:.2g}."
        )
    if isinstance(energy, NeighbourEnergy):
        yield f"- No network: neighbours in {len(energy.views)} kinds of units."
    else:
        network = energy.network if isinstance(energy, TiltedEnergy | FeatureEnergy) else energy
        parts = network.networks if isinstance(network, Joined) else [network]
        said = (
            f"{type(part).__name__}, {sum(p.numel() for p in part.parameters()):,} weights"
            for part in parts
        )
        yield f"- Network: {'; beside it, not trained: '.join(said)}."
    if isinstance(energy, TiltedEnergy):
        yield (
            f"- Reference density: {len(energy.reference.centres):,} Gaussians of width "
            f"{energy.reference.bandwidth.item():.4g} in scaled units."
        )
    known = known_looks(detector.curve_)
    if known and known[0].update == 0:
        best = max(known, key=lambda look: look.log_likelihood)
        yield (
            f"- Held-out log-likelihood, in scaled units: {known[0].log_likelihood:.4g} of the "
            f"reference alone; the best of {len(known)} looks is {best.log_likelihood:.4g}."
        )
    if curve:
        yield "\n![Held-out log-likelihood over the updates](curve.png)"


def _thresholds(detector: EnergyDetector) -> Iterator[str]:
    known = detector.calibrated_by()
    yield "## Thresholds\n"
    whose, other = "the data", ""
    if known.weights is not None:
        whose = "the data shifted by the weights it was calibrated by"
        other = (
            " Thresholds are those of a point of mean weight: the weight of a point decides, too. "
            "By weights there is no law of how far one calibration may be off."
        )
    yield (
        "A point is called an outlier if it scores below the threshold. Of points drawn like "
        f"{whose}, at most this share is, on average over calibration sets; nothing is promised of "
        f"points that are not. The model's own threshold is {detector.offset_:.6g}.{other}\n"
    )
    head, *lines = threshold_lines(known)
    yield f"| {' | '.join(head)} |"
    yield f"|{'---:|' * len(head)}"
    for line in lines:
        yield f"| {' | '.join(line)} |"


def threshold_lines(known: KnownScores) -> Iterator[tuple[str, ...]]:
    """A table of the usual rates, with its head: thresholds, and what else is known of them."""
    head = ("false-alarm rate", "threshold", "95 % of such calibrations keep it within")
    width = len(head) if known.weights is None else 2  # under weights no interval is known
    yield head[:width]
    for rate in RATES:
        try:
            low, high = interval(len(known.scores), rate)
        except ValueError:
            line = (f"{rate:.1%}", "needs more calibration points", "")
        else:
            line = (f"{rate:.1%}", f"{known.threshold_at(rate):.6g}", f"{low:.2%} to {high:.2%}")
        yield line[:width]


def draw_curve(curve: Curve, path: Path) -> bool:
    """Held-out log-likelihood over the updates, as a picture.

    False if there is none to draw, or nothing to draw it with.
    """
    known = known_looks(curve)
    if len(known) < 2:
        return False
    try:
        figure, (panel,) = new_figure(columns=1, size=3.2)
    except MissingExtraError:  # a card can do without
        return False
    panel.plot([k.update for k in known], [k.log_likelihood for k in known], color=COLOURS["data"])
    panel.set_xlabel("updates", fontsize=8)
    panel.set_ylabel("held-out log-likelihood", fontsize=8)
    panel.tick_params(labelsize=7)
    save_figure(figure, path.with_suffix(""), formats=("png",))
    return True
