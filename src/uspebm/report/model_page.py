"""A fitted detector as a page: what it is good for, what it calls strange, and its thresholds."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..data.points import described
from ..detector.energy_detector import EnergyDetector
from ..detector.folder import ABOUT, describe, load
from ..detector.verdict import known_looks
from ..evaluation.calibration import rate_at
from .curves import line_trace, moment_remarks, training_charts
from .diagnoses import Moment
from .drift_record import drift_in, drift_remarks, drift_sections
from .evidence import Evidence, evidence_in
from .page import Block, Chart, Code, Gallery, Page, Picture, Remark, Section, Sheet, Words
from .run_page import command_section, said_seconds
from .thresholds import below, threshold_dial, threshold_sheet

POOR = 0.3
"""Of made-up outliers, a share found at the model's own rate that is said to be little."""
PRIVATE = Remark(
    "This page shows some of the data",
    "Rows or images of the user's are part of it, and of evidence.json beside it. Do not give them "
    "to anyone who may not see the data.",
)
FITTED_TO = (
    "The model was fitted to most of these images, and some it holds: they look more usual to it "
    "than new ones do. Their p-values order them, and promise nothing."
)
MADE_UP = (
    "Nobody has the outliers of tomorrow. Made-up ones stand in for them: how many of them are "
    "found tells little of yours, which can be easier or harder; evaluate measures those you have."
)


def is_model(folder: Path) -> bool:
    """Whether ``folder`` is a model's."""
    return (folder / ABOUT).is_file()


def model_page(folder: Path) -> Page:
    """From a model's folder, and from what was looked at when it was fitted, if that is there."""
    about, _ = describe(folder)
    try:
        detector = load(folder)
    except ValueError as error:
        raise ValueError(f"no page can be made of this model: {error}") from error
    kept, drift = evidence_in(folder), drift_in(folder)
    seen = {} if kept is None else kept.looked_at
    outliers = {n: np.asarray(s, np.float64) for n, s in seen.get("stand_ins", {}).items()}
    moments = [Moment(*moment) for moment in seen.get("moments", [])]
    private = (PRIVATE,) if "least" in seen else ()
    once_more = () if kept is None else (command_section(kept.command),)
    return Page(
        title=str(about.get("title") or "Energy-based model"),
        verdict=(*_verdict(detector, outliers, moments), *drift_remarks(drift), *private),
        facts=_facts(detector, about, kept),
        sections=(
            *drift_sections(drift),
            *_strangest(seen),
            _thresholds(detector, outliers),
            *_columns(detector),
            *_points(seen),
            *_training(detector, seen, moments),
            Section("Settings", (Code(json.dumps(about.get("recipe"), indent=1), "Recipe"),)),
            *once_more,
        ),
    )


def _verdict(
    detector: EnergyDetector, outliers: Mapping[str, Any], moments: Sequence[Moment]
) -> tuple[Remark, ...]:
    verdict = detector.verdict()
    good = (
        "It tells points unlike the data from points like them, with a stated rate of false alarms "
        "as long as new normal points are drawn like the old ones."
    )
    bad = "Its scores order points and are no densities. " if detector.log_z_error_ is None else ""
    remarks = [
        Remark("What it is good for", f"{good} {verdict[0].upper()}{verdict[1:]}.", tone="good"),
        Remark(
            "What it is not good for",
            f"{bad}It does not say which kind an outlier is, nothing is promised of how many "
            "outliers are found, and where normal data change over time, so does the rate of false "
            "alarms.",
        ),
    ]
    if (check := _check(detector, outliers)) is not None:
        remarks.append(check)
    return (*remarks, *moment_remarks(moments))


def _check(detector: EnergyDetector, outliers: Mapping[str, Any]) -> Remark | None:
    """How many made-up outliers are found, where that is few of some."""
    missed = {n: f for n, s in outliers.items() if (f := below(s, detector.offset_)) < POOR}
    if not missed:
        return None
    names = ", ".join(f"{name} ({found:.0%})" for name, found in missed.items())
    images = len(detector.event_shape_) == 3
    advice = "train longer, or on more images, if yours may be of that kind"
    if not images:
        advice = (
            "where columns hardly depend on each other, as may be, such rows are like the others; "
            "otherwise add columns, or rows"
        )
    return Remark(
        f"A check {'failed' if images else 'to look at'}: of these made-up outliers few are found "
        f"at the model's own threshold: {names}",
        MADE_UP,
        advice=advice,
        tone="bad" if images else "plain",
    )


def _facts(
    detector: EnergyDetector, about: Mapping[str, Any], kept: Evidence | None
) -> tuple[tuple[str, str], ...]:
    scores = detector.calibration_scores_
    how = "each scored without its fold" if detector.folded_ else "kept for that alone"
    recipe = "an energy trained elsewhere" if detector.recipe_ is None else detector.recipe_.name
    facts = [
        ("fitted to", str(about.get("data") or "data that nobody named")),
        ("one point", described(detector.event_shape_)),
        ("recipe", recipe),
        ("calibrated by", f"{len(scores):,} points, {how}"),
        ("threshold", f"{detector.offset_:.6g}"),
        ("seed", str(detector.seed_)),
        ("made", f"{about.get('date')}, by uspebm {about.get('uspebm')}"),
    ]
    if kept is not None:
        facts.insert(3, ("time", said_seconds(kept.seconds)))
    return tuple(facts)


def _thresholds(detector: EnergyDetector, outliers: Mapping[str, Any]) -> Section:
    scores, weights = detector.calibration_scores_, detector.calibration_weights_
    if weights is not None:  # of which a dial knows nothing
        return Section("Thresholds", (threshold_sheet(scores, weights),))
    rate = rate_at(scores, detector.offset_)
    dial = threshold_dial(scores, {}, outliers, rate, MADE_UP if outliers else "")
    return Section("Thresholds", (dial, threshold_sheet(scores)))


def _columns(detector: EnergyDetector) -> tuple[Section, ...]:
    encoding = detector.encoding_
    names = getattr(detector, "feature_names_in_", None)
    if encoding is not None:
        body = [(column.name, column.said()) for column in encoding.columns]
    elif names is not None:
        body = [(str(name), "numbers, as they are") for name in names]
    else:
        return ()
    body += [(name, "dropped, as was asked for") for name in detector.dropped_columns_]
    sheet = Sheet("What was done with each column", ("column", "taken as"), tuple(body), texts=True)
    return (Section("Columns", (sheet,)),)


def _strangest(seen: Mapping[str, Any]) -> tuple[Section, ...]:
    """Rows or images least like the rest."""
    if not seen.get("least"):
        return ()
    of = f"Of all {seen['rows']:,} that were read."
    if seen["scored"] < seen["rows"]:
        of = f"Of {seen['scored']:,} of the {seen['rows']:,} that were read, drawn at random."
    if "most" in seen:
        of += " " + FITTED_TO
    blocks = (Words(of), *shown_points("Least like the rest", seen["least"]))
    if "most" in seen:
        most = _shown("Most like the rest", seen["most"], "picture")
        return (Section("Most surprising images inside", (*blocks, most)),)
    return (Section("Rows least like the rest", blocks),)


def shown_points(title: str, found: Sequence[Mapping[str, Any]]) -> tuple[Block, ...]:
    """Rows as a table, with reasons; images as pictures, with heat maps if there are some."""
    if not found or not found[0]["picture"]:
        body = tuple(
            (f"{one['row']:,}", f"{one['p']:.2g}", f"{one['score']:.4g}", str(one["why"]))
            for one in found
        )
        return (Sheet(title, ("row", "p-value", "score", "why"), body, texts=True),)
    pictures = _shown(title, found, "picture")
    if not found[0]["heat"]:
        return (pictures,)
    return pictures, _shown("Why: red is what makes it strange", found, "heat")


def _shown(title: str, found: Sequence[Mapping[str, Any]], which: str) -> Gallery:
    pictures = []
    for one in found:
        # Nobody can count to an image in a folder; evidence of older versions has no names.
        name = str(one.get("name") or f"{one['row']:,}")
        alt, caption = f"Image {name}, score {one['score']:.4g}", f"{name}: p {one['p']:.2g}"
        pictures.append(Picture(_image(one[which]), alt, caption))
    return Gallery(title, tuple(pictures))


def _image(source: Any) -> str:
    """Only pictures that stand in the file itself."""
    if not str(source).startswith("data:image/png;base64,"):
        raise ValueError("a picture of the evidence is none: remove evidence.json")
    return str(source)


def _points(seen: Mapping[str, Any]) -> tuple[Section, ...]:
    """Partition points beside the nearest images."""
    if not seen.get("pairs"):
        return ()
    pictures = []
    for k, (point, image) in enumerate(seen["pairs"]):
        pictures.append(Picture(_image(point), f"Partition point {k + 1}", "point"))
        pictures.append(Picture(_image(image), f"The image nearest to point {k + 1}", "nearest"))
    note = (
        f"After update {seen['pairs_after']:,}. Points that are copies of their nearest image "
        "teach nothing of what surrounds the data; points like nothing at all teach little more."
    )
    return (
        Section("Partition points", (Gallery("Beside the nearest images", tuple(pictures), note),)),
    )


def _training(
    detector: EnergyDetector, seen: Mapping[str, Any], moments: Sequence[Moment]
) -> tuple[Section, ...]:
    blocks: list[Block] = list(training_charts(seen.get("log", []), moments))
    known = known_looks(detector.curve_)
    if len(known) > 1:
        steps, values = [k.update for k in known], [k.log_likelihood for k in known]
        trace = line_trace(steps, values, "held out", "@ps_usp")
        layout = {"xaxis": {"title": {"text": "updates"}}}
        alt = f"Held-out log-likelihood over the updates, from {values[0]:.4g} to {values[-1]:.4g}."
        note = "Of points that were not trained on; where it is highest, the network is kept."
        figure = {"data": [trace], "layout": layout}
        blocks.insert(0, Chart("Held-out log-likelihood", figure, alt, note))
    return (Section("Training curves", tuple(blocks)),) if blocks else ()
