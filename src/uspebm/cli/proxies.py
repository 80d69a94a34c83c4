"""``uspebm proxies``: a Fashion-MNIST model on OOD images made from Fashion-MNIST alone."""

import statistics
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .flags import Commands, folder_flag, json_flag, new_command, number_flag, whole
from .output import answering, print_json, refuse_file, say

if TYPE_CHECKING:
    from ..evaluation.metrics import Detection
    from ..experiments.left_out import LeftOut


def add_proxies(commands: Commands) -> None:
    """Add the command."""
    command = new_command(
        commands,
        "proxies",
        run_proxies,
        "judge a Fashion-MNIST model on OOD images made from Fashion-MNIST alone",
        "Detect images of kinds that were left out of training, and inverted, rotated, blurred and "
        "otherwise changed ones: what to look at, both together, while developing, so that the "
        "sets of Table 1 stay unseen.",
    )
    command.add_argument(
        "model",
        nargs="*",
        metavar="MODEL",
        help="a model's folder, a name such as fashion-mnist, or a snapshot (.safetensors), to be "
        "judged on changed images",
    )
    command.add_argument(
        "--leave-out",
        action="append",
        default=[],
        metavar="KINDS",
        help=(
            "shoes-and-bags, tops, or a class such as bag: train the images recipe without them "
            "(twenty minutes each on one core), and detect them by its features and its energy, "
            "beside random features and pixels; an interrupted run goes on; repeatable"
        ),
    )
    command.add_argument(
        "--updates", type=int, metavar="INT", help="of that training (default: the recipe's own)"
    )
    number_flag(command, "--seed", whole(0, 2**32 - 1), 0, "of that training")
    folder_flag(command, "runs/proxies", "folder of that training")
    json_flag(command)


@answering
def run_proxies(arguments: Namespace) -> None:
    """Judge models on changed images, and recipes on kinds left out."""
    from ..experiments.image_models import against_proxies, energy_in
    from ..experiments.image_problem import FASHION_MNIST
    from ..experiments.left_out import judged_without, kinds_in
    from ..experiments.table1 import FAST
    from ..recipes.paper import IMAGES

    if not arguments.model and not arguments.leave_out:
        raise ValueError("proxies needs a model to judge, or --leave-out with a class or a group")
    for flag, value in (("--updates", arguments.updates), ("--seed", arguments.seed)):
        if value and not arguments.leave_out:
            raise ValueError(f"{flag} {value} is for --leave-out")
    if arguments.updates is not None and arguments.updates < 1:
        raise ValueError(f"--updates {arguments.updates} must be at least 1")
    for name in arguments.leave_out:
        kinds_in(FASHION_MNIST, name)  # before minutes are spent on another one
    refuse_file(arguments.out)
    energies = [energy_in(model, IMAGES.shape) for model in arguments.model]
    data = FASHION_MNIST.split() if energies else None
    models = [against_proxies(energy, data) for energy in energies if data is not None]
    method = FAST.methods["crowded-features"]
    out, updates, seed = arguments.out, arguments.updates, arguments.seed
    left_out = {
        name: judged_without(FASHION_MNIST, name, method, out, updates, seed)
        for name in arguments.leave_out
    }
    if arguments.json:
        named = dict(zip(arguments.model, models, strict=True))
        print_json({"models": _plain(named), "left_out": _plain(left_out)})
        return
    if models:
        stems = [Path(model).stem for model in arguments.model]
        unique = len(set(stems)) == len(stems)
        _show("changed images", stems if unique else arguments.model, models)
    for name, found in left_out.items():
        _show_left_out(name, found)


def _plain(value: Any) -> Any:
    """Named tuples and dictionaries as dictionaries all the way down."""
    if hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    return value


def _show_left_out(name: str, left_out: "LeftOut") -> None:
    """A column per score; the unseen kinds, and then the changed images."""
    found = left_out.scores
    _show(f"kinds left out: {name}", list(found), [one.kinds for one in found.values()])
    title = f"changed images, {name} left out"
    _show(title, list(found), [one.changed for one in found.values()])
    say(
        f"{name}: over the last quarter of the training the mean FPR95 on the kinds left out, by "
        f"the recipe's own score, spans {left_out.span:.1f} points."
    )


def _show(title: str, names: Sequence[str], found: "Sequence[Mapping[str, Detection]]") -> None:
    """A column per model, a row per set, and their mean."""
    from rich.table import Table

    from ..support.progress import console

    result = Table(title=f"FPR95 (AUROC) on {title}, per cent")
    result.add_column("images")
    for name in names:
        result.add_column(name, overflow="fold")
    for kind in found[0]:
        cells = [model[kind] for model in found]
        result.add_row(kind, *(f"{100 * d.fpr95:.1f} ({100 * d.auroc:.1f})" for d in cells))
    means = (statistics.fmean(d.fpr95 for d in model.values()) for model in found)
    result.add_row("mean", *(f"{100 * mean:.1f}" for mean in means))
    console.print(result)
