"""The card of a model: what a person should know before using it."""

from pathlib import Path

from .calibration import alarms, threshold
from .detector import EnergyDetector
from .inputs import described
from .learning import Curve
from .plots import COLOURS, new_figure, save_figure

RATES = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1)


def card(detector: EnergyDetector, title: str) -> str:
    """In Markdown."""
    scores = detector.calibration_scores_
    names = getattr(detector, "feature_names_in_", None)
    columns = "" if names is None else f": {', '.join(map(str, names))}"
    network = detector.scorer_.energy.network
    weights = sum(p.numel() for p in network.parameters())
    reference = detector.scorer_.energy.reference
    text = [
        f"# {title}",
        "",
        "Scores are log-densities up to a constant: the higher, the more like the data.",
        "",
        "## Data",
        "",
        f"- One point: {described(detector.event_shape_)}{columns}.",
        f"- {len(scores)} points kept for calibration, and used for nothing else; their scores: "
        f"{scores[0]:.4g} to {scores[-1]:.4g}, median {scores[len(scores) // 2]:.4g}.",
        "",
        "## Model",
        "",
        f"- Network: {type(network).__name__}, {weights:,} weights; method {detector.method}.",
    ]
    if reference is not None:
        text.append(
            f"- Reference density: {len(reference.centres)} Gaussians of width "
            f"{reference.bandwidth.item():.4g} in scaled units."
        )
    if len(detector.curve_) > 1:
        first, best = detector.curve_[0], max(detector.curve_, key=lambda look: look[1])
        text += [
            f"- Held-out log-likelihood: {first.log_likelihood:.4g} of the reference alone, "
            f"{best.log_likelihood:.4g} after {best.update} updates, which are kept.",
            "",
            "![training curve](curve.png)",
        ]
    text += [
        "",
        "## Thresholds",
        "",
        "A point is called an outlier if it scores below the threshold. Of points drawn like the "
        "data, at most this share is, on average over calibration sets; nothing is promised of "
        "points that are not.",
        "",
        "| false-alarm rate | threshold |",
        "|---:|---:|",
    ]
    for rate in RATES:
        try:
            alarms(len(scores), rate)
        except ValueError:
            text.append(f"| {rate:.1%} | needs more calibration points |")
        else:
            text.append(f"| {rate:.1%} | {threshold(scores, rate):.6g} |")
    return "\n".join(text) + "\n"


def draw_curve(curve: Curve, path: Path) -> None:
    """Held-out log-likelihood over the updates."""
    figure, (panel,) = new_figure(columns=1, size=3.2)
    known = [look for look in curve if look.log_likelihood > float("-inf")]
    panel.plot([k.update for k in known], [k.log_likelihood for k in known], color=COLOURS["data"])
    panel.set_xlabel("updates", fontsize=8)
    panel.set_ylabel("held-out log-likelihood", fontsize=8)
    panel.tick_params(labelsize=7)
    save_figure(figure, path.with_suffix(""), formats=("png",))
