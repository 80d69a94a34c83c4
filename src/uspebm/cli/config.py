"""``--config``: settings of ``uspebm fit`` from a TOML file."""

import argparse
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from reprlib import repr as shortened
from typing import Any

from ..support.reading import UnreadableError, one_line, read_at_most, reading
from .fit import fit_flags
from .flags import Parser

MOST_BYTES, MOST_DOTS = 1 << 16, 2000
"""Of a file of settings: TOML takes the square of a key's dots in time."""

TOML_TYPES: dict[str, tuple[type, ...]] = {
    "INT": (int,),
    "FLOAT": (int, float),
    "SIZE": (int, str),
    "SHARE": (int, str, float),
}
"""What a value of a setting may be in a TOML file, by what the help calls it; others are text."""


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
    with reading(path, "is no TOML file of settings"):
        content = read_at_most(path, MOST_BYTES).decode("utf-8")
        if content.count(".") > MOST_DOTS:
            raise UnreadableError(
                f"{path} has more than {MOST_DOTS:,} dots, which no setting needs"
            )
        yield from _set_by(tomllib.loads(content), path, own)


def _set_by(settings: dict[str, Any], path: Path, own: set[str]) -> Iterator[str]:
    parser = Parser(add_help=False)
    fit_flags(parser)
    actions = {flag[2:]: action for action in parser._actions for flag in action.option_strings}
    del actions["config"]
    for name, value in settings.items():
        if name not in actions:
            raise UnreadableError(
                f"{path}: {shortened(name)} is no setting; there are {', '.join(actions)}"
            )
        values = list(_checked(f"{path}: {name}", actions[name], value))
        if f"--{name}" not in own:
            yield from (f"--{name}" if one is True else f"--{name}={one}" for one in values)


def _checked(what: str, action: argparse.Action, value: Any) -> Iterator[Any]:
    """The values of one flag: several if it is repeatable, none if it is not set."""
    if action.nargs == 0:
        if not isinstance(value, bool):
            raise UnreadableError(f"{what} = {shortened(value)} should be true or false")
        if value:
            yield value
        return
    repeatable = isinstance(action.default, list)
    wanted = TOML_TYPES.get(str(action.metavar), (str,))
    for one in value if repeatable and isinstance(value, list) else [value]:
        if isinstance(one, bool) or not isinstance(one, wanted):
            names = {int: "a whole number", float: "a number", str: "text"}
            several = ", or a list of such" if repeatable else ""
            raise UnreadableError(
                f"{what} = {shortened(one)} should be {names[wanted[-1]]}{several}"
            )
        if action.choices is not None and one not in action.choices:
            raise UnreadableError(
                f"{what} = {shortened(one)} should be one of {', '.join(action.choices)}"
            )
        try:
            if callable(action.type):
                action.type(str(one))
        except argparse.ArgumentTypeError as error:
            raise UnreadableError(f"{what}: {one_line(error)}") from error
        yield one
