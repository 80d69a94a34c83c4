"""Files that are either whole or not there."""

import glob
import os
import shutil
import tempfile
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
    """A folder to fill that appears under ``path``, in place of what was there, once it is full.

    An error leaves what was there. So does being killed, and the next one to write there clears
    away what was left; killed between the two renames, it puts back what was there.
    """
    path = path.resolve()  # what a link points to is replaced, not the link
    path.parent.mkdir(parents=True, exist_ok=True)
    _clear_leftovers(path)
    filling, former = _beside(path, os.getpid(), "filling"), _beside(path, os.getpid(), "former")
    try:
        filling.mkdir()
        yield filling
        for file in filling.iterdir():
            _sync(file)
        _sync_folder(filling)
        if path.exists():
            path.rename(former)
        filling.rename(path)
    except BaseException as error:
        if former.exists() and not path.exists():
            former.rename(path)
        shutil.rmtree(filling, ignore_errors=True)
        if isinstance(error, OSError) and error.filename is None:  # a full disk has no name
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    shutil.rmtree(former, ignore_errors=True)
    _sync_folder(path.parent)


def check_writable(path: Path) -> None:
    """An error now, before any work, if a file or folder could not be written to ``path`` then."""
    place = path.absolute().parent
    while not place.exists():
        place = place.parent
    try:
        # Tried, not asked: permissions are not all that can be in the way.
        with tempfile.TemporaryDirectory(prefix=".uspebm.", dir=place):
            pass
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise OSError(f"{path} cannot be written: {reason} in {place}") from error


def _beside(path: Path, process: int | str, what: str) -> Path:
    return path.with_name(f".{path.name}.{process}.{what}")


def _clear_leftovers(path: Path) -> None:
    for what in ("former", "filling"):
        for leftover in path.parent.glob(_beside(Path(glob.escape(path.name)), "*", what).name):
            writer = leftover.suffixes[-2][1:]
            if not writer.isdigit() or (int(writer) != os.getpid() and _alive(int(writer))):
                continue
            if what == "former" and not path.exists():
                leftover.rename(path)
            else:
                shutil.rmtree(leftover, ignore_errors=True)


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


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


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
