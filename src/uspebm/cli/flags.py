"""What the flags of several commands are made of."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, TypeAlias

Commands: TypeAlias = "argparse._SubParsersAction[Parser]"

MOST_SIDE = 4096
"""Pixels along a side that images may be resized to."""
DATA_FILES = "a .csv, .tsv, .parquet, .npy, .npz or IDX file, or a folder of images"


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, as all errors are."""

    def error(self, message: str) -> NoReturn:
        text = " ".join(message.split())
        self.exit(2, f"uspebm: {text}; '{self.prog} --help' explains\n")


def new_command(
    commands: Commands,
    name: str,
    run: Callable[[argparse.Namespace], None],
    help_: str,
    description: str,
) -> Parser:
    """A command that ``run`` does; its flags are not to be abbreviated."""
    command = commands.add_parser(name, help=help_, description=description, allow_abbrev=False)
    command.set_defaults(run=run)
    return command


def model_argument(command: Parser) -> None:
    """The model to work with."""
    command.add_argument(
        "model", metavar="MODEL", help="a model's folder, or a name such as fashion-mnist"
    )


def column_flags(command: argparse.ArgumentParser) -> None:
    """What nobody can guess of a table's columns."""
    for flag, what in (
        ("--categorical", "whose numbers are names, as codes are"),
        ("--numeric", "that is a number, although it counts the rows"),
        ("--id", "that names rows and tells nothing of them"),
    ):
        command.add_argument(
            flag,
            action="append",
            default=[],
            metavar="COLUMN",
            help=f"a table's column {what}; repeatable",
        )


def drop_flag(command: argparse.ArgumentParser) -> None:
    """Columns to leave out."""
    command.add_argument(
        "--drop",
        action="append",
        default=[],
        metavar="COLUMN",
        help="of a table, to leave out; repeatable",
    )


def skip_flag(command: argparse.ArgumentParser) -> None:
    """Whether one bad image stops the work on a folder of them."""
    command.add_argument(
        "--skip-bad",
        action="store_true",
        help="leave out images that cannot be read or are unlike the others, and name them",
    )


def json_flag(command: argparse.ArgumentParser) -> None:
    """JSON for text; :func:`~uspebm.cli.output.answering` sees to it."""
    command.add_argument("--json", action="store_true", help="print JSON instead of text")


def tensorboard_flag(command: argparse.ArgumentParser) -> None:
    """Event files; :func:`~uspebm.cli.report.followed` writes them."""
    command.add_argument(
        "--tensorboard",
        action="store_true",
        help="write event files for TensorBoard, beside the results",
    )


def folder_flag(command: Parser, default: str, help_: str = "folder for the results") -> None:
    """The folder to write to."""
    command.add_argument(
        "--out",
        type=Path,
        default=Path(default),
        metavar="DIR",
        help=f"{help_} (default: %(default)s)",
    )


def number_flag(
    command: argparse.ArgumentParser,
    flag: str,
    kind: Callable[[str], float],
    default: float,
    help_: str,
) -> None:
    """A number; that its default is whole tells that it is."""
    command.add_argument(
        flag,
        type=kind,
        default=default,
        metavar="INT" if isinstance(default, int) else "FLOAT",
        help=f"{help_} (default: %(default)s)",
    )


def whole(low: int, high: int | None = None) -> Callable[[str], int]:
    """The type of whole numbers from ``low`` on, to ``high`` if there is one."""
    bounds = f"at least {low}" if high is None else f"between {low} and {high}"

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if value < low or (high is not None and value > high):
            raise argparse.ArgumentTypeError(f"{text} must be a whole number, {bounds}")
        return value

    return read


def above_zero(text: str) -> float:
    """A flag's value: a positive number."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} must be a positive number")
    return value


def image_size(text: str) -> tuple[int, int]:
    """The type of heights and widths: one number for both, or two.

    >>> image_size("28"), image_size("32x48")
    ((28, 28), (32, 48))
    """
    sides = text.lower().replace("×", "x").split("x")
    if len(sides) > 2 or not all(side.isascii() and side.isdigit() for side in sides):
        raise argparse.ArgumentTypeError(
            f"{text} must be a height and a width, such as 32x48, or one number for both"
        )
    height, width = int(sides[0]), int(sides[-1])
    if not 1 <= min(height, width) <= max(height, width) <= MOST_SIDE:
        raise argparse.ArgumentTypeError(f"{text} must have sides between 1 and {MOST_SIDE}")
    return height, width


def calibration(text: str) -> float | str:
    """A share of the rows, or ``folds``."""
    return text if text in ("auto", "folds") else share(text)


def share(text: str) -> float:
    """The type of shares: of nothing and of everything makes no sense."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text} must lie between 0 and 1")
    return value


def shard_of(text: str) -> tuple[int, int]:
    """The type of shards: which, from 1 on, of how many.

    >>> shard_of("2/8")
    (2, 8)
    """
    number, _, shards = text.partition("/")
    if not all(part.isascii() and part.isdigit() for part in (number, shards)) or not (
        1 <= int(number) <= int(shards)
    ):
        raise argparse.ArgumentTypeError(
            f"{text} must be a shard's number and how many there are, such as 1/8 to 8/8"
        )
    return int(number), int(shards)
