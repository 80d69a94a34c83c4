"""``uspebm report``: what a folder holds, as a page; and how other commands leave one."""

from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

from .flags import Commands, new_command
from .output import say, warn


def add_report(commands: Commands) -> None:
    """Add the command."""
    command = new_command(
        commands,
        "report",
        run_report,
        "write a page on a run, a model or results",
        "Write report.html into the folder of a run, of a model, or of the results of demo, "
        "reproduce, evaluate or compare: one file that needs no network.",
    )
    command.add_argument("folder", type=Path, metavar="RUN", help="the folder to report on")


def run_report(arguments: Namespace) -> None:
    """Write the page."""
    from ..report.build import write_report
    from ..report.html import check_report_extra

    check_report_extra()
    say(f"Report: {write_report(arguments.folder)}")


def leave_report(
    folder: Path,
    arguments: Namespace,
    began: float,
    look: Callable[[], dict[str, Any]] = dict,
) -> Path | None:
    """The page of what was just made; where there can be none, one line says why.

    ``began``: when the command did, by ``time.monotonic``; ``look``: at what else the page shows.
    The work is done by then, and stays whatever becomes of its page.
    """
    from ..report.build import write_report
    from ..report.evidence import Evidence, keep_evidence
    from ..report.html import check_report_extra
    from ..training import CheckpointError

    seconds = monotonic() - began
    try:
        check_report_extra()
        keep_evidence(folder, Evidence(arguments.line, seconds, look()))
        return write_report(folder)
    except (ValueError, OSError, CheckpointError) as error:
        warn(f"no report was written: {error}")
        return None


@contextmanager
def followed(arguments: Namespace, folder: Path, events: Path) -> Iterator[None]:
    """With ``--tensorboard``, runs in or below ``folder`` are written to ``events`` meanwhile."""
    if not arguments.tensorboard:
        yield
        return
    from ..report.tensorboard import check_tensorboard_extra, events_of

    check_tensorboard_extra()
    with events_of(folder, events):
        yield
    if events.exists():
        say(f"For TensorBoard: tensorboard --logdir {events}")
