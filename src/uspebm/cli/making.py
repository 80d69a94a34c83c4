"""How ``uspebm fit`` made a model, so that it can be made again.

Imports what is heavy: for functions that run, not for flags.
"""

from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ..detector.folder import ABOUT, ModelFileError
from ..recipes.record import environment
from ..support.checksums import content_checksum
from ..support.reading import reading
from .flags import Parser

NO_SETTINGS = (
    *("command", "version", "run", "data", "out", "config", "json", "line", "tensorboard"),
    "processes",  # a part of the environment
)
"""Of a command's arguments, those that decide nothing about the model."""


def how_made(arguments: Namespace) -> dict[str, Any]:
    """The command's settings, the data's checksum, and what computes; of JSON's values."""
    settings = {k: v for k, v in vars(arguments).items() if k not in NO_SETTINGS}
    return {
        "settings": settings,
        "data_sha256": content_checksum(arguments.data),
        "environment": environment(place_of(arguments)),
    }


def place_of(arguments: Namespace) -> str:
    """Where to train, and in which precision, as trainings are told."""
    full = arguments.precision == "full"
    return str(arguments.device) if full else f"{arguments.device}+{arguments.precision}"


class Making(NamedTuple):
    """How a model was made."""

    settings: dict[str, Any]
    data_sha256: str
    environment: dict[str, Any]


def making_of(folder: Path, about: dict[str, Any]) -> Making:
    """What ``model.json`` says of it."""
    made = about.get("made")
    if made is None:
        raise ValueError(
            f"{folder} does not say how it was made: by 'uspebm fit' of an older version, or from "
            "Python"
        )
    with reading(folder / ABOUT, "does not say how the model was made", ModelFileError):
        found = Making(dict(made["settings"]), made["data_sha256"], dict(made["environment"]))
        threads = found.environment["threads"]
        if not isinstance(threads, int) or threads < 1:
            raise ValueError("threads are counted from 1 on")
    return found


def arguments_again(settings: dict[str, Any], data: Path, out: Path) -> Namespace:
    """Of the command with these settings, on data that lie there, for a model to be put there."""
    from .fit import fit_flags

    parser = Parser(prog="uspebm fit", allow_abbrev=False)
    fit_flags(parser)
    given = {k: v for k, v in settings.items() if v != parser.get_default(k)}
    # As flags, which are checked as a user's are.
    flags = [flag for name, value in given.items() for flag in _flags(name, value)]
    return parser.parse_args([str(data), f"--out={out}", *flags])


def _flags(name: str, value: Any) -> Iterator[str]:
    flag = f"--{name.replace('_', '-')}"
    if name in NO_SETTINGS or value is None or value is False:
        return
    if value is True:
        yield flag
    elif name == "resize":
        yield f"{flag}={'x'.join(map(str, value))}"
    elif isinstance(value, list):
        yield from (f"{flag}={one}" for one in value)
    else:
        yield f"{flag}={value}"
