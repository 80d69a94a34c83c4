"""Files and folders that are either whole or not there."""

import ctypes
import errno
import io
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from .hidden import (
    NamedFile,
    naming_errors,
    new_filling,
    new_part,
    remove_unfilled,
    remove_unfinished,
)


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """A file to write that appears under ``path`` only once all of it is on disk.

    Killed at any moment, what was at ``path`` before is still there; an error removes the
    unfinished part. What a link points to is replaced, not the link. An error in writing, such as
    that of a full disk, names ``path``.
    """
    place = _target(path)
    if place.exists() and not place.is_file():
        what = "folder" if place.is_dir() else "device or pipe"
        raise OSError(f"{path} cannot be written: it is a {what}; name a file")
    place.parent.mkdir(parents=True, exist_ok=True)
    remove_unfinished(place.parent, place.name)
    part = new_part(place, path)
    unfinished = Path(part.name)
    try:
        with io.BufferedWriter(part) as file:
            yield file
            with naming_errors(path, unfinished):
                file.flush()
                os.fsync(file.fileno())
                if os.name == "nt":  # what is open cannot be renamed
                    file.close()
                unfinished.replace(place)  # under its lock: nobody takes it for a leftover
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    _sync_folder(place.parent)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A folder of files to fill that appears under ``path``, in place of what was there, when full.

    An error leaves what was there. So does being killed: on Linux the two folders change places in
    one step, and nobody who looks finds none. Elsewhere, and on file systems that cannot do that,
    there is a moment without one; who is killed in it leaves none, and the next to write there puts
    the former one back first. What a link points to is replaced, not the link.
    """
    place = _target(path)
    if place.exists() and not place.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    with scratch_folder(place) as filling:
        with naming_errors(path, filling):
            yield filling
            for file in filling.iterdir():
                if file.is_file():  # a folder in it came there whole
                    _sync(file)
            _sync_folder(filling)
            _put(filling, place)
        _sync_folder(place.parent)


@contextmanager
def scratch_folder(path: Path) -> Iterator[Path]:
    """A folder beside ``path`` to work in, removed in the end; after a kill, by the next one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_unfilled(path)
    filling, descriptor = new_filling(path)
    try:
        yield filling
    finally:
        shutil.rmtree(filling, ignore_errors=True)
        if descriptor is not None:
            os.close(descriptor)


def check_writable(path: Path) -> None:
    """An error now, before any work, if a file or folder could not be written to ``path`` then."""
    place = _target(path).parent
    while not place.exists():
        place = place.parent
    try:
        # Tried, not asked: permissions are not all that can be in the way. Without a name where
        # the system can do that, so that a kill leaves nothing.
        with tempfile.TemporaryFile(prefix=".uspebm.", dir=place):
            pass
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise OSError(f"{path} cannot be written: {reason} in {place}") from error


def appending(path: Path) -> BinaryIO:
    """A file to add to, whose errors name it; a kill can leave a part of what was being added."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return io.BufferedWriter(NamedFile(path, "a", path))


def cache_folder() -> Path:
    """Where this user's caches of the package are."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "uspebm"


def _target(path: Path) -> Path:
    """Where ``path`` leads, through links, whether there is something or not."""
    place = Path(os.path.realpath(path))
    if place.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return place


def _put(filling: Path, path: Path) -> None:
    """``filling`` becomes ``path``; what was there, if anything, gets the name ``filling``."""
    try:
        if not path.exists():
            filling.rename(path)
            return
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):  # somebody else was faster
            raise
    if _exchange(filling, path):
        return
    former = filling.with_suffix(".former")
    path.rename(former)
    try:
        filling.rename(path)
    except BaseException:
        former.rename(path)
        raise
    with suppress(FileNotFoundError):  # somebody else has cleared it away
        former.rename(filling)


def _exchange(one: Path, other: Path) -> bool:
    """Let two paths change places in one step: whether that could be done."""
    if sys.platform != "linux":
        return False
    renameat2 = getattr(ctypes.CDLL(None), "renameat2", None)
    if renameat2 is None:
        return False
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    # Whatever is in the way, two renames either do without or say what it is.
    return bool(renameat2(here, os.fsencode(one), here, os.fsencode(other), exchange) == 0)


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
