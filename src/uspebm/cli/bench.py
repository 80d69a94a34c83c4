"""``uspebm bench``: how fast it is, beside plain PyTorch and peers."""

from argparse import Namespace
from pathlib import Path

from .flags import Commands, folder_flag, new_command
from .output import refuse_file, say


def add_bench(commands: Commands) -> None:
    """Add the command."""
    command = new_command(
        commands,
        "bench",
        run_bench,
        "time the particle step against plain PyTorch and peers (a quarter of an hour)",
        "Time energy gradients, Langevin chains and PS-USP updates against plain PyTorch, a "
        "straightforward implementation and, where it is installed, torchebm; all in one "
        "run, in turns, so that noise cancels in the ratios. The machine should be idle.",
    )
    command.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    folder_flag(command, "runs/bench")
    command.add_argument(
        "--quick", action="store_true", help="small sizes: shows that it runs, not how fast"
    )


def run_bench(arguments: Namespace) -> None:
    """Time everything, a line per case."""
    refuse_file(arguments.out)

    from ..bench import report
    from ..support.progress import console

    say("Timing (a line per case as it is done):")
    places = {arguments.out / "bench.json", arguments.json or arguments.out / "bench.json"}

    def keep(result: report.Report) -> None:
        for path in places:
            report.save_report(result, path)

    result = report.measure_all(report.QUICK if arguments.quick else report.FULL, keep)
    console.print(report.report_table(result))
    for name, ratio in result.ratios.items():
        say(f"{name}: " + ("torchebm is not installed" if ratio is None else f"{ratio:.2f}"))
    report.draw_report(result, arguments.out / "bench")
    say(f"Figures and picture: {arguments.out}/")
