"""``uspebm reproduce``: an experiment of the paper, and what it claims, measured."""

from argparse import Namespace
from importlib import import_module
from pathlib import Path
from time import monotonic

from .flags import Commands, folder_flag, new_command, tensorboard_flag
from .output import refuse_file, say
from .report import followed, leave_report

FIGURES = ("fig1", "fig2", "fig3", "fig4", "props")
"""What ``reproduce all`` runs: minutes each."""
ON_IMAGES = ("table1", "fig5")
"""What takes hours and needs image sets."""
OURS = ("own-images", "one-class", "decisions", "choice", "ablation")
"""What the paper does not have."""
ROLLBACKS = 5
INSIDE = "fashion-mnist"
"""The paper's in-distribution set."""


def add_reproduce(commands: Commands) -> None:
    """Add the command."""
    command = new_command(
        commands,
        "reproduce",
        run_reproduce,
        "run an experiment of the paper and measure its claims",
        "Run an experiment of the paper, measure what it claims, and draw its figure. An "
        "interrupted run goes on where it stopped when the same command is given again.",
    )
    command.add_argument(
        "figure",
        choices=[*FIGURES, "all", *ON_IMAGES, *OURS],
        help="which experiment; 'all' means those before it, table1 takes hours",
    )
    command.add_argument(
        "--preset",
        choices=["paper", "fast", "smoke"],
        default="fast",
        help="the appendix's settings, the same conclusion in minutes, or only that it runs "
        "(default: %(default)s)",
    )
    command.add_argument(
        "--seeds",
        type=int,
        default=1,
        metavar="INT",
        help="how many seeds, from 0 on (default: %(default)s)",
    )
    command.add_argument(
        "--inside",
        default=INSIDE,
        metavar="NAME",
        help="of table1 and fig5, the in-distribution set: fashion-mnist, mnist, or a folder or "
        "file of images of yours (default: %(default)s)",
    )
    command.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="METHOD",
        help="of table1 and fig5, only the rows of this method; repeatable",
    )
    command.add_argument(
        "--on-divergence",
        choices=["stop", "rollback"],
        default="stop",
        help="of table1 and fig5: leave a seed out that diverges, or go back some fifty updates, "
        f"halve the learning rate and go on, {ROLLBACKS} times at most (default: %(default)s)",
    )
    tensorboard_flag(command)
    folder_flag(command, "runs", "folder for the results, which go to DIR/PRESET/FIGURE")


def run_reproduce(arguments: Namespace) -> None:
    """Run what was asked for, one after the other."""
    if arguments.seeds < 1:
        raise ValueError(f"--seeds {arguments.seeds} must be at least 1")
    if arguments.figure not in ON_IMAGES:
        if arguments.only:
            raise ValueError(f"--only {arguments.only[0]} is for {' and '.join(ON_IMAGES)}")
        if arguments.inside != INSIDE:
            raise ValueError(f"--inside {arguments.inside} is for {' and '.join(ON_IMAGES)}")
        if arguments.on_divergence != "stop":
            raise ValueError(f"--on-divergence is for {' and '.join(ON_IMAGES)}")
    refuse_file(arguments.out)

    from ..experiments import claims
    from ..support.progress import console

    for figure in FIGURES if arguments.figure == "all" else [arguments.figure]:
        experiment = import_module(f"uspebm.experiments.{figure.replace('-', '_')}")
        config = getattr(experiment, arguments.preset.upper())
        if figure in ON_IMAGES:
            config = config.inside(arguments.inside)
            if arguments.on_divergence == "rollback":
                config = config.rolling_back(ROLLBACKS)
        if arguments.only:
            config = config.only(arguments.only)
        out = arguments.out / arguments.preset / _folder(figure, arguments.inside)
        began = monotonic()
        with followed(arguments, out, out / "tensorboard"):
            found = experiment.run(out, config, arguments.seeds)
        console.print(claims.table(f"{figure}, preset {arguments.preset}", found))
        if arguments.preset == "smoke":
            say("A smoke run shows that everything works; its claims mean nothing.")
        report = leave_report(out, arguments, began)
        say(f"Figure and claims: {out}/" + ("" if report is None else f"; the report is {report}"))


def _folder(figure: str, inside: str) -> str:
    """Of another in-distribution set it is another one: no run takes the place of the paper's."""
    return figure if inside == INSIDE else f"{figure}-{Path(inside).resolve().name}"
