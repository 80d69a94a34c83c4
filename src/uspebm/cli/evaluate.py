"""``uspebm evaluate``: how well known outliers are found."""

import argparse
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from .flags import Commands, drop_flag, json_flag, model_argument, new_command, skip_flag
from .output import answering, files_skipped, print_json, refuse_without_folder, say

if TYPE_CHECKING:
    from ..evaluation.metrics import Interval

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
    json_flag(command)


def _named(text: str) -> tuple[str, Path]:
    name, _, path = text.partition("=")
    if not name or not path:
        raise argparse.ArgumentTypeError(f"{text} should be NAME=DATA")
    return name, Path(path)


@answering
def run_evaluate(arguments: Namespace) -> None:
    """Measure how well known outliers are found."""
    import numpy as np

    from ..detector.folder import load
    from ..evaluation.calibration import rate_at
    from ..evaluation.metrics import intervals
    from .user_data import open_for, scores_of, tell_skipped

    names = [name for name, _ in arguments.ood]
    if len(set(names)) < len(names):
        raise ValueError(f"--ood: {', '.join(names)} should be different names")
    paths = [arguments.id, *(path for _, path in arguments.ood)]
    refuse_without_folder("--skip-bad", arguments.skip_bad, paths)
    detector = load(arguments.model)
    limit = detector.offset_
    inside, *others = (open_for(detector, p, arguments.drop, arguments.skip_bad) for p in paths)
    outside = dict(zip(names, others, strict=True))
    known = np.concatenate([s for _, s in scores_of(detector, inside, "normal")])
    found = {}
    for name, source in outside.items():
        scores = np.concatenate([s for _, s in scores_of(detector, source, name)])
        found[name] = Found(intervals(known, scores), _share_below(limit, scores), len(scores))
    skipped = sum(map(tell_skipped, (inside, *others)))
    false_alarms = _share_below(limit, known)
    expected = rate_at(detector.calibration_scores_, limit)
    if arguments.json:
        against = {
            name: {k: v._asdict() for k, v in one.figures.items()}
            | {"alarms": one.alarms, "rows": one.rows}
            for name, one in found.items()
        }
        print_json(
            {
                "threshold": limit,
                "rows": len(known),
                "skipped": skipped,
                "false_alarms": false_alarms,
                "false_alarms_expected": expected,
                "against": against,
            }
        )
        return
    _show(arguments.id.name, found)
    say(
        f"Alarms are scores below the model's threshold, {limit:.6g}. "
        f"Of {arguments.id.name}, {100 * false_alarms:.2f} % raise one; "
        f"at most {100 * expected:.2f} % was to be expected on average"
        f"{files_skipped(skipped)}"
    )


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
