"""``uspebm watch``: the page of a run while it trains."""

from argparse import Namespace
from pathlib import Path

from .flags import Commands, new_command, number_flag, whole
from .output import say

USUAL_PORT = 8765


def add_watch(commands: Commands) -> None:
    """Add the command."""
    command = new_command(
        commands,
        "watch",
        run_watch,
        "follow a training in a browser",
        "Serve the report of a run to a browser of this machine, and keep it up to date while the "
        "training goes on. Ctrl-C ends it; the training is not touched.",
    )
    command.add_argument(
        "folder",
        type=Path,
        metavar="RUN",
        help="the folder of a run, of a model that is being fitted, or of results",
    )
    number_flag(command, "--port", whole(0, 65535), USUAL_PORT, "of this machine; 0 takes any")


def run_watch(arguments: Namespace) -> None:
    """Serve until interrupted."""
    from ..report.html import check_report_extra
    from ..report.live import LiveServer

    check_report_extra()
    with LiveServer(arguments.folder, arguments.port) as server:
        say(f"Watching {arguments.folder}: open {server.address} in a browser; Ctrl-C ends it")
        server.serve_forever(poll_interval=0.2)
