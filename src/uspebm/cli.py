"""The command ``uspebm``."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from . import __version__
from .checkpoint import CheckpointError
from .experiments import demo
from .progress import console
from .types import NonFiniteError


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="uspebm",
        description="Train energy-based models whose density can be trusted.",
        epilog="'uspebm COMMAND --help' explains a command.",
    )
    parser.add_argument("--version", action="version", version=f"uspebm {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)

    command = commands.add_parser(
        "demo",
        help="train PS-USP and SRLMC on a 2-D mixture and compare (about a minute)",
        description=(
            "Train PS-USP and short-run Langevin (SRLMC) on a mixture of six Gaussians, with all "
            "points started in one of them, and compare the densities they learn. Smaller than "
            "the paper's Fig. 4: narrower network, fewer points."
        ),
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    command.add_argument(
        "--out", type=Path, default=Path("runs/demo"), metavar="DIR", help="folder for the results"
    )
    command.add_argument(
        "--steps", type=int, default=demo.Config.steps, help="updates of each model"
    )
    command.add_argument("--seed", type=int, default=demo.Config.seed, help="seed of every draw")
    command.add_argument(
        "--fresh", action="store_true", help="start over instead of resuming an interrupted run"
    )
    command.set_defaults(run=_demo)
    return parser


def _demo(arguments: argparse.Namespace) -> None:
    if arguments.steps < 1:
        raise ValueError(f"--steps {arguments.steps} must be at least 1")
    out: Path = arguments.out
    config = demo.Config(steps=arguments.steps, seed=arguments.seed)
    try:
        measured = demo.run(out, config, fresh=arguments.fresh)
    except KeyboardInterrupt:
        console.print("\nInterrupted; the state is saved. The same command resumes it.")
        raise
    console.print(demo.table(measured))
    console.print(
        "OOD share: of the region outside 99.9 % of p, the part where the model's density "
        "exceeds its median over the data. The demo is smaller than the paper's experiment "
        "(128 units instead of 512, 2,000 points instead of 5,000)."
    )
    console.print(f"Picture, figures and log: {out}/demo.png, results.json, metrics.jsonl")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; errors of the user's are one line on stderr and exit code 2."""
    arguments = _parser().parse_args(argv)
    try:
        arguments.run(arguments)
    except KeyboardInterrupt:
        return 130
    except (ValueError, OSError, CheckpointError, NonFiniteError) as error:
        print(f"uspebm: {error}", file=sys.stderr)  # noqa: T201
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
