"""What the commands say, and where: text, or JSON alone on the standard output."""

import json
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any


def answering(work: Callable[[Namespace], None]) -> Callable[[Namespace], None]:
    """``work`` whose text goes to stderr if ``--json`` is given: only JSON is left for stdout."""

    @wraps(work)
    def run(arguments: Namespace) -> None:
        from ..support.progress import console

        before = console.stderr
        console.stderr = arguments.json
        try:
            work(arguments)
        finally:
            console.stderr = before

    return run


def say(text: str) -> None:
    """A line of text, not broken and taken as it is."""
    from ..support.progress import console

    console.print(text, soft_wrap=True, markup=False)


def files_skipped(skipped: int) -> str:
    """What a closing line says of files that were skipped; nothing where none was.

    >>> files_skipped(0), files_skipped(1), files_skipped(1200)
    ('', ' (1 file skipped)', ' (1,200 files skipped)')
    """
    return f" ({skipped:,} file{'s' if skipped > 1 else ''} skipped)" if skipped else ""


def warn(text: object) -> None:
    """One line on stderr, as errors are and what is pointed out."""
    sys.stderr.write(f"uspebm: {' '.join(str(text).splitlines())}\n")


def print_json(value: Any) -> None:
    """The answer, on the standard output."""
    json.dump(value, sys.stdout, indent=1, allow_nan=False)
    sys.stdout.write("\n")


def refuse_inside(out: Path, data: Path) -> None:
    """An error if results would be taken for data: folders of images have folders in them."""
    if data.is_dir() and out.resolve().is_relative_to(data.resolve()):
        raise ValueError(f"--out {out} lies in the folder of images {data}: choose a place outside")


def refuse_without_folder(flag: str, given: object, paths: Sequence[Path]) -> None:
    """An error if a flag for folders of images is ``given`` where there are only files."""
    if given and all(path.is_file() for path in paths):
        raise ValueError(f"{flag} is for folders of images, and {paths[0]} is a file")


def refuse_file(out: Path) -> None:
    """An error if the folder of results is a file."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"--out {out} is a file; choose a folder")
