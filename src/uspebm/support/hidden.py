"""What a file or folder is called until it is whole, and what becomes of it if it never is.

It has a hidden name beside the one it is to have, and a lock that ends with whoever writes it. A
hidden one whose lock is free was left by somebody who was killed; the next to write to the same
path clears it away. Where there are no locks (Windows, some network file systems) nobody can tell,
and what was left stays.
"""

import io
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from .locks import flock, is_open_as

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

TOKEN = "[0-9a-f]{8}"


class NamedFile(io.FileIO):
    """A file whose errors in writing have a name, not necessarily the one it has until now."""

    def __init__(self, place: Path, mode: str, name: Path) -> None:
        super().__init__(str(place), mode)
        self._path = name

    def write(self, content: "ReadableBuffer", /) -> int:
        with naming_errors(self._path):
            return super().write(content)


@contextmanager
def naming_errors(path: Path, hidden: Path | None = None) -> Iterator[None]:
    """Give errors the name ``path`` if they have none, as a full disk's, or that of ``hidden``."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        name = str(path)
        if error.filename is not None:
            if hidden is None or not str(error.filename).startswith(str(hidden)):
                raise
            name += str(error.filename).removeprefix(str(hidden))
        raise OSError(error.errno, error.strerror, name) from error


def _beside(path: Path, token: str, what: str) -> Path:
    return path.with_name(f".{path.name}.{token}.{what}")


def new_part(place: Path, path: Path) -> io.FileIO:
    """A new file beside ``place``, locked, whose errors name ``path``."""
    while True:
        unfinished = _beside(place, secrets.token_hex(4), "unfinished")
        try:
            with naming_errors(path, unfinished):
                part = NamedFile(unfinished, "x", path)
        except FileExistsError:
            continue
        # Between being made and being locked, it looks like a leftover to others.
        if flock(part.fileno(), wait=True) is None or is_open_as(part.fileno(), unfinished):
            return part
        part.close()


def new_filling(path: Path) -> tuple[Path, int | None]:
    """A new folder beside ``path``, and what holds its lock."""
    while True:
        filling = _beside(path, secrets.token_hex(4), "filling")
        try:
            with naming_errors(path, filling):
                filling.mkdir()
        except FileExistsError:
            continue
        if os.name != "posix":
            return filling, None
        with suppress(FileNotFoundError):
            descriptor = os.open(filling, os.O_RDONLY)
            if flock(descriptor, wait=True) is None or is_open_as(descriptor, filling):
                return filling, descriptor
            os.close(descriptor)


def remove_unfinished(folder: Path, name: str | None = None) -> None:
    """Clear away what was left of the file ``name`` in ``folder``; of all files there, if None."""
    which = ".+" if name is None else re.escape(name)
    for leftover in _matching(folder, rf"\.{which}\.{TOKEN}\.unfinished"):
        with _nobodys(folder / leftover[0]) as free:
            if free:
                with suppress(OSError):  # of another user
                    (folder / leftover[0]).unlink(missing_ok=True)


def remove_unfilled(path: Path) -> None:
    """Clear away what was left of folders that were to become ``path``; put back what was there."""
    found = _matching(path.parent, rf"\.{re.escape(path.name)}\.({TOKEN})\.(filling|former)")
    for token in {match[1] for match in found}:
        filling, former = _beside(path, token, "filling"), _beside(path, token, "former")
        with _nobodys(filling) as free:
            if free is False:
                continue
            if former.exists() and not path.exists():  # killed between two renames
                former.rename(path)
            if free:
                shutil.rmtree(former, ignore_errors=True)
                shutil.rmtree(filling, ignore_errors=True)


def _matching(folder: Path, pattern: str) -> list[re.Match[str]]:
    """The names in ``folder`` that match; none where it cannot be listed."""
    try:
        names = [entry.name for entry in folder.iterdir()]
    except OSError:
        return []
    return [found for name in names if (found := re.fullmatch(pattern, name, re.DOTALL))]


@contextmanager
def _nobodys(leftover: Path) -> Iterator[bool | None]:
    """Whether nobody writes ``leftover`` any more, nor will in this block; None: who knows."""
    try:
        # For writing: some network file systems lock nothing else.
        flags = os.O_RDONLY if leftover.is_dir() else os.O_RDWR
        descriptor = os.open(leftover, flags | getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        yield True
        return
    except OSError:  # of another user
        yield None
        return
    try:
        yield flock(descriptor)
    finally:
        os.close(descriptor)
