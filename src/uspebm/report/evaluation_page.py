"""How well known outliers are found, as a page."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..support.reading import reading
from .evidence import evidence_in
from .model_page import PRIVATE, shown_points
from .page import Page, Remark, Section, Sheet
from .run_files import read_object
from .run_page import command_section, said_seconds
from .thresholds import threshold_dial, threshold_sheet

EVALUATED = "evaluate.json"
SURELY = 3.0
"""Standard errors by which more false alarms than promised are no chance."""
FOUND_WELL, FOUND_BADLY = 0.9, 0.6
"""AUROC from which on outliers are said to be told apart, and below which they hardly are."""

HEADINGS = {
    "fpr95": "FPR95",
    "auroc": "AUROC",
    "aupr_id": "AUPR, normal positive",
    "aupr_ood": "AUPR, outliers positive",
}
"""What figures are called."""


def is_evaluation(folder: Path) -> bool:
    """Whether a model was evaluated in ``folder``."""
    return (folder / EVALUATED).is_file()


def evaluation_page(folder: Path) -> Page:
    """From ``evaluate.json``, and what was looked at."""
    path = folder / EVALUATED
    found = read_object(path)
    kept = evidence_in(folder)
    seen = {} if kept is None else kept.looked_at
    with reading(path):
        return Page(
            title=f"How well {found['model']} finds outliers",
            verdict=(
                *(_judged(name, one) for name, one in found["against"].items()),
                _false_alarms(found),
                *((PRIVATE,) if seen else ()),
            ),
            facts=(
                ("model", str(found["model"])),
                ("normal data", f"{found['rows']:,} points of {found['inside']}"),
                *((name, f"{one['rows']:,} points") for name, one in found["against"].items()),
                ("threshold", f"{found['threshold']:.6g}"),
                *(() if kept is None else (("time", said_seconds(kept.seconds)), *kept.facts)),
            ),
            sections=(
                Section("Figures", (_sheet(found["against"]),)),
                *_looked(found, seen),
                *(() if kept is None else (command_section(kept.command),)),
            ),
        )


def _judged(name: str, one: Mapping[str, Any]) -> Remark:
    auroc, alarms = one["auroc"]["value"], one["alarms"]
    text = (
        f"AUROC is {auroc:.1%}: so often an outlier scores below a normal point. At the model's "
        f"threshold, {alarms:.1%} raise an alarm and {1 - alarms:.1%} are missed."
    )
    if auroc >= FOUND_WELL:
        return Remark(f"{name} are told from normal data", text, tone="good")
    if auroc > FOUND_BADLY:
        return Remark(f"{name} are told from normal data in part", text)
    advice = "fit with columns or images in which they differ, or on more data"
    return Remark(f"{name} are hardly told from normal data", text, advice=advice, tone="bad")


def _false_alarms(found: Mapping[str, Any]) -> Remark:
    share, promised = found["false_alarms"], found["false_alarms_expected"]
    chance = math.sqrt(
        promised * (1 - promised) * (1 / found["rows"] + 1 / found["calibration_rows"])
    )
    text = f"Of the normal data, {share:.2%} raise an alarm; at most {promised:.2%} were promised."
    if share <= promised + SURELY * chance:
        return Remark("The rate of false alarms is kept", text, tone="good")
    return Remark(
        "A check failed: more false alarms than promised",
        f"{text} That is no chance: these data are unlike those that the model was fitted to.",
        advice="fit the model again to data that are as they are now",
        tone="bad",
    )


def _sheet(against: Mapping[str, Any]) -> Sheet:
    body = tuple(
        (name, *(_interval(one[figure]) for figure in HEADINGS), f"{one['alarms']:.2%}")
        for name, one in against.items()
    )
    head = ("outliers", *HEADINGS.values(), "alarms")
    return Sheet("Per cent, with 95 % bootstrap intervals", head, body)


def _interval(value: Mapping[str, float]) -> str:
    low, high = 100 * value["low"], 100 * value["high"]
    return f"{100 * value['value']:.2f} ({low:.2f} to {high:.2f})"


def _looked(found: Mapping[str, Any], seen: Mapping[str, Any]) -> tuple[Section, ...]:
    if not seen:
        return ()
    calibration = np.asarray(seen["calibration"], np.float64)
    scores = {name: np.asarray(one, np.float64) for name, one in seen["scores"].items()}
    normal = {found["inside"]: scores.pop(found["inside"])}
    rate = found["false_alarms_expected"]
    dial = threshold_dial(calibration, normal, scores, rate, "Move it to see alarms and misses.")
    sections = [Section("Thresholds", (dial, threshold_sheet(calibration)))]
    least = shown_points("Normal, and least like the rest", seen["inside"])
    sections.append(Section("Most surprising inside", least))
    for name, one in seen["outside"].items():
        blocks = shown_points(f"{name}, and most like normal data", one)
        sections.append(Section(f"Most surprising outside: {name}", blocks))
    return tuple(sections)
