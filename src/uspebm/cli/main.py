"""The command ``uspebm``: its parser, and what becomes of errors, warnings and interrupts."""

import argparse
import io
import logging
import sys
import warnings
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout

from .bench import add_bench
from .calibrate import add_calibrate
from .compare import add_compare
from .config import with_config
from .demo import add_demo
from .drift import add_drift
from .evaluate import add_evaluate
from .export import add_export
from .fit import add_fit
from .flags import Parser
from .info import add_info
from .output import warn
from .proxies import add_proxies
from .report import add_report
from .reproduce import add_reproduce
from .rerun import add_rerun
from .score import add_score
from .serve import add_serve
from .watch import add_watch

COMMANDS = (
    add_fit,
    add_score,
    add_calibrate,
    add_drift,
    add_serve,
    add_evaluate,
    add_export,
    add_info,
    add_compare,
    add_demo,
    add_report,
    add_watch,
    add_reproduce,
    add_rerun,
    add_proxies,
    add_bench,
)

SHARED = ("fit",)
"""Commands whose work several processes share."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; errors of the user's are one line on stderr and exit code 2."""
    parser = _parser()
    given = sys.argv[1:] if argv is None else list(argv)
    try:
        arguments = parser.parse_args(with_config(given))
    except (ValueError, OSError) as error:
        warn(error)
        return 2
    arguments.line = ("uspebm", *given)
    if arguments.version:
        from .. import __version__

        sys.stdout.write(f"uspebm {__version__}\n")
    elif arguments.command is None:
        parser.print_help()
    else:
        try:
            return _run(arguments)
        except KeyboardInterrupt:
            return 130
    return 0


def _parser() -> Parser:
    parser = Parser(
        prog="uspebm",
        description=(
            "Energy-based models by uniform support partitioning, and outlier detectors made of "
            "them."
        ),
        epilog="'uspebm COMMAND --help' explains a command.",
    )
    parser.add_argument("--version", action="store_true", help="show the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for add in COMMANDS:
        add(commands)
    return parser


def _run(arguments: argparse.Namespace) -> int:
    from ..support.group import LostProcessError, speaks

    try:
        return _one_of_them(arguments)
    except LostProcessError as error:
        if speaks():
            warn(error)
        return 2


def _one_of_them(arguments: argparse.Namespace) -> int:
    """The command in this process; that another one was lost is for those who started them."""
    from .. import CheckpointError, NonFiniteError
    from ..support.group import LostProcessError, speaks

    logging.basicConfig(level=logging.INFO, format="%(message)s")
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: warn(message)
        try:
            return _run_together(arguments)
        except LostProcessError:
            raise
        except (ValueError, OSError, CheckpointError, NonFiniteError) as error:
            if speaks():
                warn(error)
            return 2


def _run_together(arguments: argparse.Namespace) -> int:
    """Run the command with the other processes, if there are any; only the main one speaks."""
    from ..support.group import started_together, together

    alone, processes = started_together() == 1, getattr(arguments, "processes", 1)
    if not alone and arguments.command not in SHARED:
        raise ValueError(
            f"uspebm {arguments.command} is one process's work; torchrun is for {', '.join(SHARED)}"
        )
    if processes > 1 and alone:
        from ..support.launch import launched

        arguments.processes = 1  # each of them is one
        return launched(_one_of_them, arguments, processes=processes)
    if processes > 1:
        raise ValueError(f"--processes {processes} is for one machine, torchrun starts its own")
    with together() as group:
        if group.main:
            arguments.run(arguments)
        else:
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
                arguments.run(arguments)
    return 0
