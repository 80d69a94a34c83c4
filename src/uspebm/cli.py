"""The command ``uspebm``."""

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from . import commands as on_files

if TYPE_CHECKING:
    from .metrics import Detection

FIGURES = ("fig1", "fig2", "fig3", "fig4", "props")
"""What ``reproduce all`` runs: minutes each."""
IMAGES = ("table1", "fig5")
"""What takes hours and needs image sets."""


def _parser() -> argparse.ArgumentParser:
    parser = on_files.Parser(
        prog="uspebm",
        description="Train energy-based models whose density can be trusted.",
        epilog="'uspebm COMMAND --help' explains a command.",
    )
    parser.add_argument("--version", action="store_true", help="show the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    on_files.add(commands)

    command = commands.add_parser(
        "demo",
        help="train PS-USP and SRLMC on a 2-D mixture and compare (a minute and a half)",
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
    command.add_argument("--steps", type=int, default=500, help="updates of each model")
    command.add_argument("--seed", type=int, default=0, help="seed of every draw")
    command.add_argument(
        "--fresh",
        action="store_true",
        help="begin anew instead of going on with an interrupted run, also with other settings",
    )
    command.set_defaults(run=_demo)

    command = commands.add_parser(
        "reproduce",
        help="run an experiment of the paper and measure its claims",
        description=(
            "Run an experiment of the paper, measure what it claims, and draw its figure. An "
            "interrupted run goes on where it stopped when the same command is given again."
        ),
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    command.add_argument(
        "figure",
        choices=[*FIGURES, "all", *IMAGES],
        help="which experiment; 'all' means those before it, table1 takes hours",
    )
    command.add_argument(
        "--preset",
        choices=["paper", "fast", "smoke"],
        default="fast",
        help="the appendix's settings, the same conclusion in minutes, or only that it runs",
    )
    command.add_argument("--seeds", type=int, default=1, help="how many seeds, from 0 on")
    command.add_argument(
        "--only",
        action="append",
        metavar="METHOD",
        help="of table1 and fig5, only the rows of this method; may be repeated",
    )
    command.add_argument(
        "--out",
        type=Path,
        default=Path("runs"),
        metavar="DIR",
        help="folder for the results, which go to DIR/PRESET/FIGURE",
    )
    command.set_defaults(run=_reproduce)

    command = commands.add_parser(
        "proxies",
        help="judge a Fashion-MNIST model on OOD images made from Fashion-MNIST alone",
        description=(
            "Detect inverted, rotated, blurred and otherwise changed training images, or images of "
            "a class that was left out of training: what to look at while developing, so that the "
            "sets of Table 1 stay unseen."
        ),
    )
    command.add_argument(
        "model",
        nargs="*",
        metavar="MODEL",
        help="a model's folder, a name such as fashion-mnist, or a snapshot (.safetensors)",
    )
    command.add_argument(
        "--leave-out",
        action="append",
        default=[],
        metavar="CLASS",
        help=(
            "train Table 1's crowded-PS-USP without this class, such as bag, and detect it (most "
            "of an hour each); an interrupted run goes on; may be repeated"
        ),
    )
    command.add_argument(
        "--updates", type=int, metavar="INT", help="of that training (default: as in Table 1)"
    )
    command.add_argument(
        "--out",
        type=Path,
        default=Path("runs/proxies"),
        metavar="DIR",
        help="folder of that training (default: %(default)s)",
    )
    command.set_defaults(run=_proxies)

    command = commands.add_parser(
        "bench",
        help="time the particle step against plain PyTorch and peers (a quarter of an hour)",
        description=(
            "Time energy gradients, Langevin chains and PS-USP updates against plain PyTorch, a "
            "straightforward implementation and, where it is installed, torchebm; all in one "
            "run, in turns, so that noise cancels in the ratios. The machine should be idle."
        ),
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    command.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    command.add_argument(
        "--out", type=Path, default=Path("runs/bench"), metavar="DIR", help="folder for the results"
    )
    command.add_argument(
        "--quick", action="store_true", help="small sizes: shows that it runs, not how fast"
    )
    command.set_defaults(run=_bench)
    return parser


# Commands import what they need when they run: help is instant, and so is Ctrl-C.


def _check_folder(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise ValueError(f"--out {out} is a file; choose a folder")


def _demo(arguments: argparse.Namespace) -> None:
    from .experiments import demo
    from .experiments.training import unfinished
    from .progress import console

    if arguments.steps < 1:
        raise ValueError(f"--steps {arguments.steps} must be at least 1")
    if not 0 <= arguments.seed < 2**32:
        raise ValueError(f"--seed {arguments.seed} must be between 0 and {2**32 - 1}")
    out: Path = arguments.out
    _check_folder(out)
    config = demo.Config(steps=arguments.steps, seed=arguments.seed)
    try:
        measured = demo.run(out, config, fresh=arguments.fresh)
    except KeyboardInterrupt:
        if unfinished(out):
            command = f"uspebm demo --out {out} --steps {config.steps} --seed {config.seed}"
            console.print(
                f"\nInterrupted; the state is saved. Resume with: {command}", soft_wrap=True
            )
        raise
    console.print(demo.table(measured))
    console.print(
        "OOD share: of the region outside 99.9 % of p, the part where the model's density "
        "exceeds its median over the data. The demo is smaller than the paper's experiment "
        "(128 units instead of 512, 2,000 points instead of 5,000)."
    )
    console.print(f"Picture, figures, log and models: {out}/")


def _reproduce(arguments: argparse.Namespace) -> None:
    from importlib import import_module

    from .experiments import claims
    from .progress import console

    if arguments.seeds < 1:
        raise ValueError(f"--seeds {arguments.seeds} must be at least 1")
    if arguments.only and arguments.figure not in IMAGES:
        raise ValueError(f"--only {arguments.only[0]} is for {' and '.join(IMAGES)}")
    _check_folder(arguments.out)
    for figure in FIGURES if arguments.figure == "all" else [arguments.figure]:
        experiment = import_module(f"uspebm.experiments.{figure}")
        config = getattr(experiment, arguments.preset.upper())
        if arguments.only:
            config = config.only(arguments.only)
        out = arguments.out / arguments.preset / figure
        found = experiment.run(out, config, arguments.seeds)
        console.print(claims.table(f"{figure}, preset {arguments.preset}", found))
        if arguments.preset == "smoke":
            console.print("A smoke run shows that everything works; its claims mean nothing.")
        console.print(f"Figure and claims: {out}/")


def _proxies(arguments: argparse.Namespace) -> None:
    from .experiments.fashion import against_proxies, energy_in, split
    from .experiments.left_out import detected, number
    from .experiments.table1 import FAST

    if not arguments.model and not arguments.leave_out:
        raise ValueError("proxies needs a model to judge, or --leave-out with a class")
    if arguments.updates is not None and not arguments.leave_out:
        raise ValueError(f"--updates {arguments.updates} is for --leave-out")
    if arguments.updates is not None and arguments.updates < 1:
        raise ValueError(f"--updates {arguments.updates} must be at least 1")
    for kind in arguments.leave_out:
        number(kind)  # before an hour is spent on another one
    _check_folder(arguments.out)
    if arguments.model:
        energies = [energy_in(model) for model in arguments.model]
        data = split()
        found = [against_proxies(energy, data) for energy in energies]
        stems = [Path(model).stem for model in arguments.model]
        unique = len(set(stems)) == len(stems)
        _show("changed images", stems if unique else arguments.model, found)
    if arguments.leave_out:
        method = FAST.methods["crowded-PS-USP"]
        updates = arguments.updates or method.recipe.steps
        by_class = {
            kind: detected(kind, method, updates, arguments.out) for kind in arguments.leave_out
        }
        scorers = list(next(iter(by_class.values())))
        found = [{kind: by[scorer] for kind, by in by_class.items()} for scorer in scorers]
        _show(f"a class left out, {updates} updates", scorers, found)


def _show(title: str, names: Sequence[str], found: "Sequence[dict[str, Detection]]") -> None:
    """A column per model, a row per set, and their mean."""
    from rich.table import Table

    from .progress import console

    result = Table(title=f"FPR95 (AUROC) on {title}, per cent")
    result.add_column("proxy")
    for name in names:
        result.add_column(name, overflow="fold")
    for proxy in found[0]:
        cells = [model[proxy] for model in found]
        result.add_row(proxy, *(f"{100 * d.fpr95:.1f} ({100 * d.auroc:.1f})" for d in cells))
    means = (sum(d.fpr95 for d in model.values()) / len(model) for model in found)
    result.add_row("mean", *(f"{100 * mean:.1f}" for mean in means))
    console.print(result)


def _bench(arguments: argparse.Namespace) -> None:
    from .bench import report
    from .progress import console

    _check_folder(arguments.out)
    console.print("Timing (a line per case as it is done):")
    places = {arguments.out / "bench.json", arguments.json or arguments.out / "bench.json"}

    def keep(result: report.Report) -> None:
        for path in places:
            report.save(result, path)

    result = report.run(report.QUICK if arguments.quick else report.FULL, keep)
    console.print(report.table(result))
    for name, ratio in result.ratios.items():
        console.print(
            f"{name}: " + ("torchebm is not installed" if ratio is None else f"{ratio:.2f}")
        )
    report.draw(result, arguments.out / "bench")
    console.print(f"Figures and picture: {arguments.out}/")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; errors of the user's are one line on stderr and exit code 2."""
    parser = _parser()
    try:
        given = on_files.with_config(sys.argv[1:] if argv is None else argv)
    except (ValueError, OSError) as error:
        print(f"uspebm: {error}", file=sys.stderr)  # noqa: T201
        return 2
    arguments = parser.parse_args(given)
    try:
        from . import CheckpointError, NonFiniteError, __version__

        if arguments.version:
            print(f"uspebm {__version__}")  # noqa: T201
        elif arguments.command is None:
            parser.print_help()
        else:
            logging.basicConfig(level=logging.INFO, format="%(message)s")
            try:
                arguments.run(arguments)
            except (ValueError, OSError, CheckpointError, NonFiniteError) as error:
                print(f"uspebm: {error}", file=sys.stderr)  # noqa: T201
                return 2
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
