"""Commands on files of the user's: fit, score, evaluate, export, info, compare.

What they are called and take; :mod:`uspebm.actions` does it.
"""

import argparse
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

DATA = "a .csv, .tsv, .parquet, .npy, .npz or IDX file, or a folder of images"
METHODS = ("importance", "ps-usp", "srlmc")
SEEDS = 2**32
TOML_TYPES: dict[str, tuple[type, ...]] = {"INT": (int,), "FLOAT": (int, float)}
"""What a value of a setting may be in a TOML file, by what the help calls it; others are text."""


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, as all errors are."""

    def error(self, message: str) -> NoReturn:
        text = " ".join(message.split())
        self.exit(2, f"uspebm: {text}; '{self.prog} --help' explains\n")


def add(commands: Any) -> None:
    """Add the commands to a parser's subparsers."""
    _fit(
        _command(
            commands,
            "fit",
            "learn a detector from a file",
            "Learn what normal data look like, and save the model to a folder.",
        )
    )

    command = _command(
        commands,
        "score",
        "score the rows of a file",
        "Write score, p-value and decision for every row, in the file's order. Columns are found "
        "by name if model and file have names: their order does not matter, nor do further ones.",
    )
    _model(command)
    command.add_argument("data", type=Path, metavar="DATA", help=DATA)
    command.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="FILE",
        help="a .parquet, .csv, .jsonl or .npz file",
    )
    command.add_argument(
        "--false-alarm-rate",
        type=_share,
        metavar="FLOAT",
        help="of the decision (default: the model's own threshold)",
    )
    _drop(command)
    _json(command)

    command = _command(
        commands,
        "evaluate",
        "measure how well known outliers are found",
        "FPR95, AUROC and both AUPRs with 95 % bootstrap intervals.",
    )
    _model(command)
    command.add_argument(
        "--id", type=Path, required=True, metavar="DATA", help="normal data, not what was fitted to"
    )
    command.add_argument(
        "--ood",
        action="append",
        required=True,
        type=_named,
        metavar="NAME=DATA",
        help="outliers, and what to call them; repeatable",
    )
    _drop(command)
    _json(command)

    command = _command(
        commands,
        "export",
        "write a model as an ONNX file",
        "One ONNX graph with preprocessing, score and p-value.",
    )
    _model(command)
    command.add_argument(
        "--onnx", type=Path, required=True, metavar="FILE", help="the ONNX file to write"
    )
    _json(command)

    command = _command(
        commands, "info", "show what a model is", "The model's card, or its settings as JSON."
    )
    _model(command)
    _json(command)

    command = _command(
        commands,
        "compare",
        "compare with classical detectors",
        "AUROC, average precision and times of EnergyDetector beside classical detectors: on a "
        "table of yours with made-up anomalies, or on data that ship with scikit-learn.",
    )
    command.add_argument(
        "data", type=Path, nargs="?", metavar="DATA", help="a table; left out: scikit-learn's data"
    )
    _drop(command)
    _number(command, "--rows", _whole(2), 10_000, "of the table at most, drawn at random")
    _number(command, "--seeds", _whole(1), 1, "how many seeds, from 0 on")
    command.add_argument(
        "--out",
        type=Path,
        default=Path("runs/compare"),
        metavar="DIR",
        help="folder for the results (default: %(default)s)",
    )
    _json(command)


def _fit(command: argparse.ArgumentParser) -> None:
    command.add_argument("data", type=Path, metavar="DATA", help=DATA)
    command.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="the model's folder"
    )
    _drop(command)
    _number(command, "--rows", _whole(2), 200_000, "rows to learn from at most, drawn at random")
    command.add_argument(
        "--method",
        choices=METHODS,
        default=METHODS[0],
        help="what stands for the model while it learns (default: %(default)s)",
    )
    _number(command, "--centres", _whole(1), 2000, "Gaussians in the reference density")
    _number(command, "--max-updates", _whole(0), 2000, "training steps of the network, at most")
    _number(command, "--patience", _whole(1), 6, "checks, every 50 steps, without a better one")
    _number(command, "--learning-rate", _positive, 1e-3, "step size of the optimiser")
    _number(command, "--batch-size", _whole(1), 250, "data points per update")
    _number(command, "--calibration", _share, 0.2, "share of the rows kept for thresholds")
    _number(command, "--false-alarm-rate", _share, 0.05, "of normal rows, called outliers")
    _number(command, "--seed", _whole(0, SEEDS - 1), 0, "random seed")
    command.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="a TOML file with names of flags as keys; flags win over it",
    )
    _json(command)


def _command(commands: Any, name: str, help_: str, text: str) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(
        name, help=help_, description=text, allow_abbrev=False
    )
    command.set_defaults(run=_run)
    return command


def _run(arguments: argparse.Namespace) -> None:
    # Imported now: help is instant, and so is Ctrl-C.
    from . import actions
    from .progress import console

    before = console.stderr
    console.stderr = arguments.json  # only JSON goes to the standard output
    try:
        getattr(actions, arguments.command)(arguments)
    finally:
        console.stderr = before


def _model(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "model", metavar="MODEL", help="a model's folder, or a name such as fashion-mnist"
    )


def _drop(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--drop",
        action="append",
        default=[],
        metavar="COLUMN",
        help="of a table, to leave out; repeatable",
    )


def _json(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="print JSON instead of text")


def _number(
    command: argparse.ArgumentParser,
    flag: str,
    kind: Callable[[str], float],
    default: float,
    help_: str,
) -> None:
    command.add_argument(
        flag,
        type=kind,
        default=default,
        metavar="INT" if isinstance(default, int) else "FLOAT",
        help=f"{help_} (default: %(default)s)",
    )


def _whole(low: int, high: int | None = None) -> Callable[[str], int]:
    bounds = f"at least {low}" if high is None else f"between {low} and {high}"

    def whole(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if value < low or (high is not None and value > high):
            raise argparse.ArgumentTypeError(f"{text} must be a whole number, {bounds}")
        return value

    return whole


def _positive(text: str) -> float:
    return _between(text, float("inf"), "must be a positive number")


def _share(text: str) -> float:
    return _between(text, 1.0, "must lie between 0 and 1")


def _between(text: str, high: float, wanted: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < high:
        raise argparse.ArgumentTypeError(f"{text} {wanted}")
    return value


def _named(text: str) -> tuple[str, Path]:
    name, _, path = text.partition("=")
    if not name or not path:
        raise argparse.ArgumentTypeError(f"{text} should be NAME=DATA")
    return name, Path(path)


def with_config(argv: Sequence[str]) -> list[str]:
    """``argv`` with the flags of its ``--config`` file put before its own, which win."""
    given = list(argv)
    if given[:1] != ["fit"]:
        return given
    flags = given[: given.index("--")] if "--" in given else given
    for k, token in enumerate(flags):
        name, equals, path = token.partition("=")
        if name == "--config" and (equals or k + 1 < len(flags)):
            own = {flag.partition("=")[0] for flag in flags}
            return ["fit", *_flags(Path(path if equals else flags[k + 1]), own), *given[1:]]
    return given


def _flags(path: Path, own: set[str]) -> Iterator[str]:
    """What a TOML file sets and ``own`` flags do not, as flags."""
    if not path.exists():
        raise ValueError(f"--config {path} does not exist")
    try:
        settings = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is no TOML file: {error}") from error
    parser = Parser(add_help=False)
    _fit(parser)
    actions = {flag[2:]: action for action in parser._actions for flag in action.option_strings}
    del actions["config"]
    for name, value in settings.items():
        if name not in actions:
            raise ValueError(f"{path}: {name!r} is no setting; there are {', '.join(actions)}")
        values = list(_checked(f"{path}: {name}", actions[name], value))
        if f"--{name}" not in own:
            yield from (f"--{name}" if one is True else f"--{name}={one}" for one in values)


def _checked(what: str, action: argparse.Action, value: Any) -> Iterator[Any]:
    """The values of one flag: several if it is repeatable, none if it is not set."""
    if action.nargs == 0:
        if not isinstance(value, bool):
            raise ValueError(f"{what} = {value!r} should be true or false")
        if value:
            yield value
        return
    repeatable = isinstance(action.default, list)
    wanted = TOML_TYPES.get(str(action.metavar), (str,))
    for one in value if repeatable and isinstance(value, list) else [value]:
        if isinstance(one, bool) or not isinstance(one, wanted):
            names = {int: "a whole number", float: "a number", str: "text"}
            several = ", or a list of such" if repeatable else ""
            raise ValueError(f"{what} = {one!r} should be {names[wanted[-1]]}{several}")
        if action.choices is not None and one not in action.choices:
            raise ValueError(f"{what} = {one!r} should be one of {', '.join(action.choices)}")
        try:
            if callable(action.type):
                action.type(str(one))
        except argparse.ArgumentTypeError as error:
            raise ValueError(f"{what}: {error}") from error
        yield one
