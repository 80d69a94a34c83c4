"""``uspebm drift``: whether new data still look like those that a model was fitted to."""

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from .flags import (
    DATA_FILES,
    Commands,
    drop_flag,
    json_flag,
    model_argument,
    new_command,
    number_flag,
    share,
)
from .output import answering, print_json, say

if TYPE_CHECKING:
    from ..data.readers import Source
    from ..detector.drift import DriftMonitor, Streams
    from ..detector.energy_detector import EnergyDetector

NAMED_SUSPECTS = 3


def add_drift(commands: Commands) -> None:
    """Add the command."""
    command = new_command(
        commands,
        "drift",
        run_drift,
        "ask whether new data still look like the old",
        "Watch rows or images, in their order and in constant memory, by a test martingale: if "
        "they are drawn like the data that the model was fitted to, an alarm is raised with at "
        "most the stated probability, however many there are.",
    )
    model_argument(command)
    command.add_argument("data", type=Path, metavar="DATA", help=DATA_FILES)
    number_flag(command, "--false-alarm-rate", share, 0.01, "of an alarm at any time")
    command.add_argument(
        "--batch",
        action="store_true",
        help="one test of all of them together, whatever their order, instead of watching them",
    )
    command.add_argument(
        "--out", type=Path, metavar="FILE", help="a .png or .svg of the evidence over time"
    )
    command.add_argument(
        "--report",
        action="store_true",
        help="show the evidence over time in the model's report, too (drift.json in its folder)",
    )
    drop_flag(command)
    json_flag(command)


@answering
def run_drift(arguments: Namespace) -> None:
    """Watch rows, or test them together."""
    from ..detector.folder import load
    from ..support.extras import need
    from ..support.files import check_writable
    from .user_data import open_for

    if arguments.out is not None:
        if arguments.batch:
            raise ValueError(f"--out {arguments.out}: a batch has no time to draw")
        if arguments.out.suffix not in (".png", ".svg"):
            raise ValueError(f"--out {arguments.out} must end in .png or .svg")
        need("matplotlib", "drawing", "plots")
        check_writable(arguments.out)
    if arguments.report:
        _check_report(arguments)
    detector = load(arguments.model)
    source = open_for(detector, arguments.data, arguments.drop)
    (_batch if arguments.batch else _stream)(arguments, detector, source)


def _check_report(arguments: Namespace) -> None:
    from ..detector.folder import ABOUT, DRIFT
    from ..report.html import check_report_extra
    from ..support.files import check_writable

    if arguments.batch:
        raise ValueError("--report: a batch has no time to show")
    folder = Path(arguments.model)
    if not (folder / ABOUT).exists():
        raise ValueError(f"--report is for a model in a folder of yours, not for {folder}")
    check_report_extra()
    check_writable(folder / DRIFT)


def _batch(arguments: Namespace, detector: "EnergyDetector", source: "Source") -> None:
    from ..detector.drift import batch_drift
    from .user_data import columns_found

    with columns_found():
        found = batch_drift(detector, source.read())
    drifted = found.p_value <= arguments.false_alarm_rate
    if arguments.json:
        print_json(found._asdict() | {"drift": drifted})
        return
    say(
        f"{'Drift' if drifted else 'No drift'}: p = {found.p_value:.3g}, most in "
        f"{_called(found.column)} (rate {arguments.false_alarm_rate:g})"
    )


def _stream(arguments: Namespace, detector: "EnergyDetector", source: "Source") -> None:
    from ..data.readers.source import at_a_time
    from ..detector.drift import DriftMonitor, Streams
    from ..support.progress import counted
    from ..support.words import point_word, said_count
    from .user_data import columns_found

    images = len(detector.event_shape_) > 1
    streams = Streams(detector)
    monitor = DriftMonitor(streams, arguments.false_alarm_rate)
    chunks = source.chunks(at_a_time(source.event_shape, 4096))
    for chunk in counted(chunks, source.rows, "watching", images):
        with columns_found():
            monitor.update(chunk)
    if arguments.out is not None:
        monitor.draw(arguments.out)
    page = _reported(arguments, monitor, images) if arguments.report else None
    moved = [] if monitor.alarm_at is None else monitor.moved()
    suspects = [(name, value) for name, value in monitor.suspects() if value > 0]
    if arguments.json:
        print_json(
            {
                "rows": monitor.rows,
                "alarm_at": monitor.alarm_at,
                "log10_capital": monitor.log10_capital,
                "alarm_level": monitor.alarm_level,
                "suspects": dict(suspects),
                "columns": [column for column in moved if column is not None],
                "out": None if arguments.out is None else str(arguments.out),
                "report": None if page is None else str(page),
            }
        )
        return
    if monitor.alarm_at is None:
        verdict = f"No drift in {said_count(monitor.rows, images)}"
    else:
        at = f"{point_word(images)} {monitor.alarm_at:,} of {monitor.rows:,}"
        verdict = f"Drift: noticed at {at}, {_most(moved, streams)}"
    say(
        f"{verdict} (evidence 10^{monitor.log10_capital:.1f} now, alarm at "
        f"10^{monitor.alarm_level:.1f})"
        + ("" if arguments.out is None else f"; picture: {arguments.out}")
        + ("" if page is None else f"; report: {page}")
    )


def _most(moved: list[str | None], streams: "Streams") -> str:
    """Where the drift is; if no column shows it by itself, how to find out which are in it."""
    said = f"most in {', '.join(map(_called, moved[:NAMED_SUSPECTS]))}"
    if moved != [None] or len(streams.names) == 1:
        return said
    dates = ", ".join(map(repr, streams.dates))
    unwatched = f", and dates ({dates}) are watched in the score alone" if dates else ""
    return f"{said}: no column shows it by itself{unwatched}; uspebm score --why names the columns"


def _called(column: str | None) -> str:
    return "the score" if column is None else repr(column)


def _reported(arguments: Namespace, monitor: "DriftMonitor", images: bool) -> Path:
    from ..report.build import write_report
    from ..report.drift_record import keep_drift

    keep_drift(Path(arguments.model), monitor, arguments.data.name, images)
    return write_report(Path(arguments.model))
