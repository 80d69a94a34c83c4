"""Locks that end with whoever holds them, however that ends.

They are the kernel's (``flock``): they hold between processes, also in several containers, and
between the threads of one process. Between machines they hold where the file system says so.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

LOCK_FILE = ".lock"


class FolderInUseError(OSError):
    """Somebody else trains in a folder."""


def flock(descriptor: int, wait: bool = False) -> bool | None:
    """Take the lock of an open file or folder: whether it is ours now.

    None where there are no such locks: on Windows, and on some network file systems.
    """
    if sys.platform == "win32":
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def is_open_as(descriptor: int, path: Path) -> bool:
    """Whether what is open is still what ``path`` names: somebody may have removed it."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Nobody else is in such a block for ``folder``, not even in another thread; nobody waits.

    Raises :class:`FolderInUseError`, at once, where somebody is. A killed holder holds nothing, nor
    do processes that were forked from one. On file systems without locks nobody is kept out.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOCK_FILE
    file = _locked(path)
    _held.add(file)
    try:
        yield
    finally:
        _held.discard(file)
        if not file.closed:  # in a forked child it is, and the lock is not its own
            # While it is held: who opens it later makes another, and who has it open looks again.
            with suppress(OSError):
                path.unlink()
            file.close()


def _locked(path: Path) -> FileIO:
    while True:
        file = FileIO(path, "a")
        if _taken(file.fileno()) is False:
            file.close()
            raise FolderInUseError(
                f"{path.parent} is in use: another process trains there; wait until it has ended, "
                "or choose another folder"
            )
        if is_open_as(file.fileno(), path):
            return file
        file.close()  # its last holder removed it meanwhile


def _taken(descriptor: int) -> bool | None:
    if sys.platform == "win32":
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
    return flock(descriptor)


_held: set[FileIO] = set()


def _let_go() -> None:
    """In a forked child: it shares its parent's locks, which would outlive the parent with it."""
    for file in _held:
        file.close()
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)
