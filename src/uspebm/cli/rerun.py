"""``uspebm rerun``: a training once more, from its record, and where it differs."""

from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from .flags import Commands, json_flag, new_command
from .output import answering, print_json, refuse_file, say, warn

if TYPE_CHECKING:
    from ..recipes.repeat import Repetition

UNEQUAL = ("format", "uspebm", "date", "title", "data", "made", "sha256")
"""Of what a model's folder says, what may differ: it is not of the model but of its making."""


def add_rerun(commands: Commands) -> None:
    """Add the command."""
    command = new_command(
        commands,
        "rerun",
        run_rerun,
        "repeat a training from its record, and compare",
        "Train again what a folder holds, with its settings, its seed and as many threads, and "
        "compare: the data's checksum, the log line by line, the weights. Exit code 0 if all is "
        "the same, bit for bit; 1 if not, and the first difference is named; 2 if it cannot be "
        "repeated.",
    )
    command.add_argument(
        "folder", type=Path, metavar="RUN", help="a run's folder, or a model's that fit has made"
    )
    command.add_argument(
        "--data",
        type=Path,
        metavar="DATA",
        help="what it was trained on; needed where that was a file or a folder",
    )
    command.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="a new folder for the repetition (default: it is not kept)",
    )
    json_flag(command)


@answering
def run_rerun(arguments: Namespace) -> None:
    """Repeat and compare."""
    from ..detector.folder import ABOUT

    folder: Path = arguments.folder
    is_model = (folder / ABOUT).exists()
    if not is_model and not (folder / "run.json").exists():
        raise _neither(folder)
    if arguments.out is not None:
        refuse_file(arguments.out)
        if arguments.out.exists() and any(arguments.out.iterdir()):
            raise ValueError(f"--out {arguments.out} is not empty: choose a new folder")
    if arguments.data is not None and not arguments.data.exists():
        raise FileNotFoundError(f"--data {arguments.data} does not exist")
    with _place(arguments.out) as out:
        found = (_model_again if is_model else _run_again)(arguments, out)
    _answer(arguments, found)
    if found.difference is not None:
        raise SystemExit(1)


def _neither(folder: Path) -> Exception:
    """What to say of a folder with neither a run nor a model in it."""
    if not folder.exists():
        return FileNotFoundError(f"{folder} does not exist")
    said = f"{folder} is neither a run's folder nor a model's: it has no run.json"
    below = sorted(str(path.parent) for path in folder.glob("*/run.json"))
    return ValueError(f"{said}; these below it have: {', '.join(below)}" if below else said)


@contextmanager
def _place(out: Path | None) -> Iterator[Path]:
    """Where the repetition goes; a place that is forgotten where none is given."""
    if out is not None:
        yield out
        return
    with TemporaryDirectory(prefix="uspebm-rerun-") as folder:
        yield Path(folder) / "again"


def _answer(arguments: Namespace, found: "Repetition") -> None:
    if arguments.json:
        answer = {"run": str(arguments.folder), "same": found.difference is None}
        print_json(answer | found._asdict())
        return
    for one in found.changed:
        warn(one)
    if found.difference is not None:
        say(f"{arguments.folder} is not repeated: it differs first in {found.difference}")
        return
    what = f"{found.updates:,} updates" if found.updates else "the model"
    unknown = "" if found.weights else "; the run has not come to its end"
    say(f"{arguments.folder} is repeated: {what}, the same bit for bit{unknown}")


def _run_again(arguments: Namespace, out: Path) -> "Repetition":
    from ..data.points import points
    from ..data.readers import open_source
    from ..recipes.repeat import repeated

    data = None if arguments.data is None else points(open_source(arguments.data).read())
    return repeated(arguments.folder, out, data)


def _model_again(arguments: Namespace, out: Path) -> "Repetition":
    from ..detector.folder import describe, load
    from ..recipes.record import changed, environment
    from ..recipes.repeat import Repetition
    from ..support.checksums import content_checksum
    from ..support.threads import computing_threads
    from .fit import learn_and_save, training_folder
    from .making import arguments_again, making_of

    folder: Path = arguments.folder
    load(folder)  # what is damaged is not repeated
    about, _ = describe(folder)
    made = making_of(folder, about)
    if arguments.data is None:
        raise ValueError(f"{folder} was fitted to data that it does not hold: give them as --data")
    settings, then = made.settings, made.environment
    updates = 0 if about["recipe"] is None else about["recipe"]["schedule"]["updates"]
    if settings.get("minutes") is not None:
        # What had a time to fit into gets the number of updates that did.
        settings |= {"minutes": None, "max_updates": updates}
    with computing_threads(then["threads"]):
        now = changed([then], environment(then["device"]))
        if (found := content_checksum(arguments.data)) != made.data_sha256:
            said = f"the data: their SHA-256 was {made.data_sha256}, is {found}"
            return Repetition(said, now, 0, None)
        learn_and_save(arguments_again(settings, arguments.data, out))
        rmtree(training_folder(out), ignore_errors=True)
    difference, weights = _compared(folder, out)
    return Repetition(difference, now, updates, weights)


def _compared(then: Path, now: Path) -> tuple[str | None, str]:
    """Where two models differ first, if they do, and a digest of the second's weights."""
    from ..detector.folder import ABOUT, WEIGHTS
    from ..recipes.repeat import first_difference
    from ..support.checksums import content_checksum

    difference = first_difference(_said(then), _said(now), ABOUT)
    weights = content_checksum(now / WEIGHTS)
    if difference is None and weights != content_checksum(then / WEIGHTS):
        difference = _first_tensor(then / WEIGHTS, now / WEIGHTS)
    return difference, weights


def _said(folder: Path) -> dict[str, Any]:
    """What a model's folder says of the model."""
    from ..detector.folder import describe

    said = {k: v for k, v in describe(folder)[0].items() if k not in UNEQUAL}
    if said["recipe"] is not None:  # what has a time to fit into has snapshots of its own
        del said["recipe"]["schedule"]["snapshot_every"]
    return said


def _first_tensor(then: Path, now: Path) -> str:
    """Which weights are others."""
    from safetensors.torch import load_file

    before, after = load_file(then), load_file(now)
    for name, tensor in before.items():
        if name not in after or tensor.shape != after[name].shape:
            return f"{then.name}, {name}: of another shape"
        if tensor.numpy().tobytes() != after[name].numpy().tobytes():
            most = (tensor.double() - after[name].double()).abs().max().item()
            return f"{then.name}, {name}: by up to {most:.3g}"
    return f"{then.name}: its bytes, not its numbers"
