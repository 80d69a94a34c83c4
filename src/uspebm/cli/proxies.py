"""``uspebm proxies``: a Fashion-MNIST model on OOD images made from Fashion-MNIST alone."""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .flags import Commands, folder_flag, new_command
from .output import refuse_file

if TYPE_CHECKING:
    from ..evaluation.metrics import Detection


def add_proxies(commands: Commands) -> None:
    """Add the command."""
    command = new_command(
        commands,
        "proxies",
        run_proxies,
        "judge a Fashion-MNIST model on OOD images made from Fashion-MNIST alone",
        "Detect inverted, rotated, blurred and otherwise changed training images, or images of "
        "a class that was left out of training: what to look at while developing, so that the "
        "sets of Table 1 stay unseen.",
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
            "of an hour each); an interrupted run goes on; repeatable"
        ),
    )
    command.add_argument(
        "--updates", type=int, metavar="INT", help="of that training (default: as in Table 1)"
    )
    folder_flag(command, "runs/proxies", "folder of that training")


def run_proxies(arguments: Namespace) -> None:
    """Judge models, and left-out classes."""
    from ..experiments.image_models import against_proxies, energy_in
    from ..experiments.image_problem import FASHION_MNIST
    from ..experiments.left_out import detected
    from ..experiments.table1 import FAST
    from ..recipes.paper import IMAGES

    if not arguments.model and not arguments.leave_out:
        raise ValueError("proxies needs a model to judge, or --leave-out with a class")
    if arguments.updates is not None and not arguments.leave_out:
        raise ValueError(f"--updates {arguments.updates} is for --leave-out")
    if arguments.updates is not None and arguments.updates < 1:
        raise ValueError(f"--updates {arguments.updates} must be at least 1")
    for kind in arguments.leave_out:
        FASHION_MNIST.class_number(kind)  # before an hour is spent on another one
    refuse_file(arguments.out)
    if arguments.model:
        energies = [energy_in(model, IMAGES.shape) for model in arguments.model]
        data = FASHION_MNIST.split()
        found = [against_proxies(energy, data) for energy in energies]
        stems = [Path(model).stem for model in arguments.model]
        unique = len(set(stems)) == len(stems)
        _show("changed images", stems if unique else arguments.model, found)
    if arguments.leave_out:
        method = FAST.methods["crowded-PS-USP"]
        by_class = {
            kind: detected(FASHION_MNIST, kind, method, arguments.out, arguments.updates)
            for kind in arguments.leave_out
        }
        scorers = list(next(iter(by_class.values())))
        found = [{kind: by[scorer] for kind, by in by_class.items()} for scorer in scorers]
        updates = f", {arguments.updates} updates" if arguments.updates else ""
        _show(f"a class left out{updates}", scorers, found)


def _show(title: str, names: Sequence[str], found: "Sequence[dict[str, Detection]]") -> None:
    """A column per model, a row per set, and their mean."""
    from rich.table import Table

    from ..support.progress import console

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
