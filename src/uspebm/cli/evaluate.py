"""``uspebm evaluate``: how well known outliers are found."""

import argparse
import json
from argparse import Namespace
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from .flags import (
    Commands,
    drop_flag,
    folder_flag,
    json_flag,
    model_argument,
    new_command,
    skip_flag,
)
from .output import (
    answering,
    files_skipped,
    print_json,
    refuse_file,
    refuse_inside,
    refuse_without_folder,
    say,
)
from .report import leave_report

if TYPE_CHECKING:
    from ..data.readers import Source
    from ..detector.energy_detector import EnergyDetector, Values
    from ..evaluation.metrics import Interval
    from ..report.listing import Extremes

METRICS = ("FPR95", "AUROC", "AUPR, normal positive", "AUPR, outliers positive")


class Found(NamedTuple):
    """Of one set of outliers."""

    figures: "Mapping[str, Interval]"
    alarms: float
    rows: int


def add_evaluate(commands: Commands) -> None:
    """Add the command."""
    command = new_command(
        commands,
        "evaluate",
        run_evaluate,
        "measure how well known outliers are found",
        "FPR95, AUROC and both AUPRs with 95 % bootstrap intervals.",
    )
    model_argument(command)
    command.add_argument(
        "--id", type=Path, required=True, metavar="DATA", help="normal data, not what was fitted to"
    )
    command.add_argument(
        "--ood",
        action="append",
        required=True,
        type=_named,
        metavar="NAME=DATA",
        help="outliers, and what to call them; repeatable",
    )
    drop_flag(command)
    skip_flag(command)
    folder_flag(command, "runs/evaluate")
    json_flag(command)


def _named(text: str) -> tuple[str, Path]:
    name, _, path = text.partition("=")
    if not name or not path:
        raise argparse.ArgumentTypeError(f"{text} should be NAME=DATA")
    return name, Path(path)


@answering
def run_evaluate(arguments: Namespace) -> None:
    """Measure how well known outliers are found."""
    from ..detector.folder import load
    from ..support.files import check_writable, whole_file
    from .user_data import open_for, tell_skipped

    began = monotonic()
    names = [name for name, _ in arguments.ood]
    if len(set(names)) < len(names):
        raise ValueError(f"--ood: {', '.join(names)} should be different names")
    inside = arguments.id.name if arguments.id.name not in names else f"{arguments.id.name} itself"
    paths = [arguments.id, *(path for _, path in arguments.ood)]
    refuse_without_folder("--skip-bad", arguments.skip_bad, paths)
    refuse_file(arguments.out)
    for path in paths:
        refuse_inside(arguments.out, path)
    detector = load(arguments.model)
    sources = [open_for(detector, p, arguments.drop, arguments.skip_bad) for p in paths]
    check_writable(arguments.out / "evaluate.json")
    sets = dict(zip((inside, *names), sources, strict=True))
    known, found, look = _measured(detector, sets)
    skipped = sum(map(tell_skipped, sources))
    answer = _answer(detector, known, found) | {"skipped": skipped}
    about = {"model": str(arguments.model), "inside": inside}
    with whole_file(arguments.out / "evaluate.json") as file:
        file.write(json.dumps(answer | about, indent=1).encode())
    report = leave_report(arguments.out, arguments, began, look)
    if arguments.json:
        print_json(answer | {"report": None if report is None else str(report)})
        return
    _show(arguments.id.name, found)
    say(
        f"Alarms are scores below the model's threshold, {detector.offset_:.6g}. "
        f"Of {arguments.id.name}, {100 * answer['false_alarms']:.2f} % raise one; "
        f"at most {100 * answer['false_alarms_expected']:.2f} % was to be expected on average"
        f"{files_skipped(skipped)}"
    )
    say(f"Figures: {arguments.out}/" + ("" if report is None else f"; the report is {report}"))


def _measured(
    detector: "EnergyDetector", sets: "Mapping[str, Source]"
) -> "tuple[Values, dict[str, Found], Callable[[], dict[str, Any]]]":
    """Scores of the first set, which is normal, figures of the others, and what to look at."""
    import numpy as np

    from ..evaluation.metrics import intervals
    from ..report.listing import Extremes
    from .user_data import all_names, scored_rows

    scores: dict[str, Values] = {}
    ends: dict[str, Extremes] = {}
    for name, source in sets.items():
        # Surprising are normal points with low scores, and others with high ones.
        ends[name] = Extremes("highest" if scores else "lowest")
        parts = []
        for rows, part in scored_rows(detector, source, name if scores else "normal"):
            ends[name].add(rows, part)
            parts.append(part)
        scores[name] = np.concatenate(parts)
    known, *others = scores.values()
    found = {
        name: Found(intervals(known, one), _share_below(detector.offset_, one), len(one))
        for name, one in zip(list(scores)[1:], others, strict=True)
    }
    files = {name: all_names(source) for name, source in sets.items()}
    return known, found, partial(_look, detector, scores, ends, files)


def _look(
    detector: "EnergyDetector",
    scores: "Mapping[str, Values]",
    ends: "Mapping[str, Extremes]",
    files: Mapping[str, tuple[str, ...]],
) -> dict[str, Any]:
    """What the page shows beside the figures; ``files``: of a set's images, if they have some."""
    from ..report.evidence import quantiles
    from ..report.listing import listed

    (inside, first), *others = ends.items()
    usual = first.usual
    shown = {
        name: [one._asdict() for one in listed(detector, end.rows, end.at, usual, files[name])]
        for name, end in ends.items()
        if end.rows is not None and usual is not None
    }
    return {
        "calibration": detector.calibration_scores_.tolist(),
        "scores": {name: quantiles(one) for name, one in scores.items()},
        "inside": shown.get(inside, []),
        "outside": {name: shown.get(name, []) for name, _ in others},
    }


def _answer(
    detector: "EnergyDetector", known: "Values", found: "Mapping[str, Found]"
) -> dict[str, Any]:
    """The figures, for JSON."""
    from ..evaluation.calibration import rate_at

    limit, calibration = detector.offset_, detector.calibration_scores_
    return {
        "threshold": limit,
        "rows": len(known),
        "calibration_rows": len(calibration),
        "false_alarms": _share_below(limit, known),
        "false_alarms_expected": rate_at(calibration, limit),
        "against": {
            name: {k: v._asdict() for k, v in one.figures.items()}
            | {"alarms": one.alarms, "rows": one.rows}
            for name, one in found.items()
        },
    }


def _share_below(threshold: float, scores: Any) -> float:
    return float((scores < threshold).mean())


def _show(inside: str, found: Mapping[str, Found]) -> None:
    """A row per set of outliers."""
    from rich.table import Table

    from ..support.progress import console

    table = Table(title=f"{inside} against …, per cent with 95 % intervals")
    for heading in ("outliers", *METRICS, "alarms"):
        table.add_column(heading)
    for name, one in found.items():
        cells = (
            f"{100 * v.value:.2f} ({100 * v.low:.2f} to {100 * v.high:.2f})"
            for v in one.figures.values()
        )
        table.add_row(name, *cells, f"{100 * one.alarms:.2f}")
    console.print(table)
