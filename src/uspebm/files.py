"""Files that are either whole or not there."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write that appears under ``path`` only once all of it is on disk.

    Killed at any moment, what was at ``path`` before is still there; an error removes the
    unfinished part.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.unfinished")
    try:
        with unfinished.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A folder to fill that appears under ``path``, in place of what was there, once it is full."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.unfinished")
    former = path.with_name(f".{path.name}.{os.getpid()}.former")
    try:
        unfinished.mkdir()
        yield unfinished
        if path.exists():
            path.rename(former)
        unfinished.rename(path)
    except BaseException:
        if former.exists() and not path.exists():
            former.rename(path)
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    shutil.rmtree(former, ignore_errors=True)
    _sync_folder(path.parent)


def cache_folder() -> Path:
    """Where this user's caches of the package are."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "uspebm"


def remove_unfinished(folder: Path) -> None:
    """Clear away what a killed process left half-written."""
    for leftover in folder.glob(".*.unfinished"):
        writer = int(leftover.suffixes[-2][1:])
        if writer == os.getpid() or not _alive(writer):
            leftover.unlink(missing_ok=True)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _sync_folder(folder: Path) -> None:
    """Make a rename outlast a power cut, where folders can be synchronised."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network file systems cannot; the file itself is whole
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
