"""``uspebm demo``: the paper's Fig. 4 in a minute and a half."""

from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from .flags import Commands, folder_flag, new_command
from .output import refuse_file, say
from .report import leave_report

if TYPE_CHECKING:
    from rich.table import Table

    from ..experiments.mixture import MixtureFit


def add_demo(commands: Commands) -> None:
    """Add the command."""
    command = new_command(
        commands,
        "demo",
        run_demo,
        "train PS-USP and SRLMC on a 2-D mixture and compare (a minute and a half)",
        "Train PS-USP and short-run Langevin (SRLMC) on a mixture of six Gaussians, with all "
        "points started in one of them, and compare the densities they learn. Smaller than "
        "the paper's Fig. 4: narrower network, fewer points.",
    )
    folder_flag(command, "runs/demo")
    command.add_argument(
        "--steps",
        type=int,
        default=500,
        metavar="INT",
        help="updates of each model (default: %(default)s)",
    )
    command.add_argument(
        "--seed", type=int, default=0, metavar="INT", help="of every draw (default: %(default)s)"
    )
    command.add_argument(
        "--fresh",
        action="store_true",
        help="begin anew instead of going on with an interrupted run, also with other settings",
    )


def run_demo(arguments: Namespace) -> None:
    """Train both, and show what they learned."""
    if arguments.steps < 1:
        raise ValueError(f"--steps {arguments.steps} must be at least 1")
    if not 0 <= arguments.seed < 2**32:
        raise ValueError(f"--seed {arguments.seed} must be between 0 and {2**32 - 1}")
    out: Path = arguments.out
    refuse_file(out)
    began = monotonic()

    from ..experiments import fig4
    from ..experiments.run_folders import unfinished
    from ..support.progress import console

    try:
        measured = fig4.demo(
            out, updates=arguments.steps, seed=arguments.seed, fresh=arguments.fresh
        )
    except KeyboardInterrupt:
        if unfinished(out):
            again = f"uspebm demo --out {out} --steps {arguments.steps} --seed {arguments.seed}"
            say(f"\nInterrupted; the state is saved. Resume with: {again}")
        raise
    console.print(_table(measured))
    console.print(
        "OOD share: of the region outside 99.9 % of p, the part where the model's density "
        "exceeds its median over the data. The demo is smaller than the paper's experiment "
        "(128 units instead of 512, 2,000 points instead of 5,000)."
    )
    say(f"Picture, figures, log and models: {out}/")
    if (report := leave_report(out, arguments, began)) is not None:
        say(f"Report, to be opened in a browser: {report}")


def _table(measured: "Mapping[str, MixtureFit]") -> "Table":
    """The figures of the run, for a terminal."""
    from rich.table import Table

    result = Table(title="Six-mode mixture, everything started in the rightmost mode")
    for heading in ("method", "KL(p‖q)", "mass per mode (each 0.167)", "OOD share", "seconds"):
        result.add_column(heading)
    for name, m in measured.items():
        masses = " ".join(f"{mass:.3f}" for mass in m.mode_mass)
        result.add_row(name, f"{m.kl:.3f}", masses, f"{m.ood_share:.1%}", f"{m.seconds:.0f}")
    return result
