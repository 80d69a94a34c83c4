"""Files and folders that are whole or not there, and places that can be written."""

import errno
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from uspebm.support import files, hidden
from uspebm.support.files import (
    appending,
    check_writable,
    scratch_folder,
    whole_file,
    whole_folder,
)
from uspebm.support.hidden import remove_unfinished
from uspebm.support.locks import flock

TOKEN = "0123abcd"
needs_flock = pytest.mark.skipif(sys.platform == "win32", reason="no locks to tell leftovers by")


def fill(path: Path, text: str) -> None:
    with whole_folder(path) as filling:
        (filling / "a.txt").write_text(text)


def write(path: Path, text: str) -> None:
    with whole_file(path) as file:
        file.write(text.encode())


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def old_folder(path: Path, text: str) -> None:
    """A folder as a killed process could have left it."""
    path.mkdir()
    (path / "a.txt").write_text(text)


@pytest.fixture
def no_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system on which folders cannot change places in one step."""
    monkeypatch.setattr(files, "_exchange", lambda *_: False)


def test_a_folder_appears_and_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder"
    with whole_folder(path) as filling:
        (filling / "a.txt").write_text("one")
        assert not path.exists()
    with whole_folder(path) as filling:
        (filling / "b.txt").write_text("two")
        assert names(path) == ["a.txt"]
    assert names(path) == ["b.txt"]
    assert names(path.parent) == ["folder"]


@pytest.mark.usefixtures("no_exchange")
def test_a_folder_is_replaced_where_nothing_changes_places(tmp_path: Path) -> None:
    fill(tmp_path / "folder", "one")
    fill(tmp_path / "folder", "two")
    assert (tmp_path / "folder" / "a.txt").read_text() == "two"
    assert names(tmp_path) == ["folder"]


@pytest.mark.parametrize(
    "error", [ValueError, KeyboardInterrupt, OSError], ids=lambda e: e.__name__
)
@pytest.mark.parametrize("before", [True, False], ids=["old folder", "no folder"])
def test_an_error_leaves_what_was_there(
    tmp_path: Path, before: bool, error: type[BaseException]
) -> None:
    path = tmp_path / "folder"
    if before:
        fill(path, "one")
    with pytest.raises(error), whole_folder(path) as filling:
        (filling / "b.txt").write_text("two")
        raise error
    assert names(tmp_path) == (["folder"] if before else [])
    assert not before or names(path) == ["a.txt"]


@pytest.mark.usefixtures("no_exchange")
def test_a_rename_that_fails_puts_back_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "folder"
    fill(path, "one")
    rename = Path.rename

    def second_fails(self: Path, target: Path) -> Path:
        if self.name.endswith("filling"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", second_fails)
    with pytest.raises(OSError, match=f"No space left on device: '{path}'"):
        fill(path, "two")
    assert names(tmp_path) == ["folder"]
    assert (path / "a.txt").read_text() == "one"


# -- nobody who looks finds none ---------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="two renames are all there is")
def test_a_reader_never_finds_a_gap(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    fill(path, "0")
    gaps, done = 0, threading.Event()

    def look() -> None:
        nonlocal gaps
        while not done.is_set():
            gaps += not path.is_dir()

    reader = threading.Thread(target=look)
    reader.start()
    for k in range(300):
        fill(path, str(k))
    done.set()
    reader.join()
    assert gaps == 0
    assert names(tmp_path) == ["folder"]


KILLED = """
import os, signal, sys
from pathlib import Path
from uspebm.support.files import whole_file, whole_folder

path, at = Path(sys.argv[1]), int(sys.argv[2])
calls = 0

def counted(name):
    original = getattr(os, name)
    def call(*arguments, **named):
        global calls
        calls += 1
        if calls == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*arguments, **named)
    setattr(os, name, call)

for name in ("rename", "replace", "unlink", "rmdir", "mkdir", "fsync", "close"):
    counted(name)
if path.name == "folder":
    with whole_folder(path) as filling:
        (filling / "a.txt").write_text("two")
else:
    with whole_file(path) as file:
        file.write(b"two")
os._exit(0)
"""


@needs_flock
@pytest.mark.parametrize("name", ["file", "folder"])
def test_a_kill_at_any_moment_leaves_the_old_or_the_new(tmp_path: Path, name: str) -> None:
    seen, at, ended = set(), 0, -9
    while ended == -9:
        at += 1
        path = tmp_path / str(at) / name
        write_either(path, "one")
        ended = subprocess.run([sys.executable, "-c", KILLED, str(path), str(at)]).returncode
        read = path / "a.txt" if path.is_dir() else path
        seen.add(read.read_text())
        write_either(path, "three")
        assert names(path.parent) == [name]
    assert ended == 0
    assert at > 4  # there were moments
    assert seen == {"one", "two"}


def write_either(path: Path, text: str) -> None:
    (fill if path.name == "folder" else write)(path, text)


# -- leftovers ---------------------------------------------------------------------------------


@needs_flock
def test_what_a_killed_process_left_is_cleared_away(tmp_path: Path) -> None:
    path = tmp_path / "fol[d]er"
    fill(path, "one")
    for what in ("filling", "former"):
        old_folder(tmp_path / f".fol[d]er.{TOKEN}.{what}", "left")
    others = [f".folder2.{TOKEN}.filling", ".fol[d]er.1.filling", f".fol[d]er.x.{TOKEN}.filling"]
    for other in others:
        old_folder(tmp_path / other, "of another")
    fill(path, "two")
    assert names(tmp_path) == sorted([*others, "fol[d]er"])


@needs_flock
def test_what_a_killed_process_left_of_a_file_is_cleared_by_the_next(tmp_path: Path) -> None:
    (tmp_path / f".s[1].csv.{TOKEN}.unfinished").write_text("half")
    others = [f".s1.csv.{TOKEN}.unfinished", ".s[1].csv.unfinished", ".s[1].csv.5.unfinished"]
    for other in others:
        (tmp_path / other).write_text("of another")
    write(tmp_path / "s[1].csv", "whole")
    assert names(tmp_path) == sorted([*others, "s[1].csv"])


@needs_flock
def test_a_living_writer_keeps_its_own(tmp_path: Path) -> None:
    """Another one in the same process: the process's number tells nothing."""
    path = tmp_path / "file"
    with whole_file(path) as slow:
        slow.write(b"slow")
        write(path, "quick")
        remove_unfinished(tmp_path)
        assert path.read_text() == "quick"
    assert path.read_text() == "slow"
    with whole_folder(tmp_path / "folder") as filling:
        (filling / "a.txt").write_text("slow")
        fill(tmp_path / "folder", "quick")
        assert (tmp_path / "folder" / "a.txt").read_text() == "quick"
    assert (tmp_path / "folder" / "a.txt").read_text() == "slow"
    assert names(tmp_path) == ["file", "folder"]


def test_where_there_are_no_locks_what_was_left_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hidden, "flock", lambda *_, **__: None)
    left = [f".file.{TOKEN}.unfinished", f".folder.{TOKEN}.filling"]
    (tmp_path / left[0]).write_text("of somebody, who knows")
    old_folder(tmp_path / left[1], "of somebody, who knows")
    write(tmp_path / "file", "one")
    fill(tmp_path / "folder", "one")
    assert names(tmp_path) == [*left, "file", "folder"]


@needs_flock
def test_a_part_that_was_taken_for_a_leftover_is_begun_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between being made and being locked, anybody may clear it away."""
    robbed: list[str] = []

    def rob(descriptor: int, wait: bool = False) -> bool | None:
        if wait and len(robbed) < 2:
            (mine,) = (p for p in tmp_path.iterdir() if p.name.startswith("."))
            robbed.append(mine.name)
            mine.rmdir() if mine.is_dir() else mine.unlink()
        return flock(descriptor, wait)

    monkeypatch.setattr(hidden, "flock", rob)
    write(tmp_path / "file", "one")
    assert (tmp_path / "file").read_text() == "one"
    assert len(robbed) == 2
    (tmp_path / "file").unlink()
    robbed.clear()
    fill(tmp_path / "folder", "one")
    assert (tmp_path / "folder" / "a.txt").read_text() == "one"
    assert len(robbed) == 2


def test_killed_between_the_renames_the_former_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    old_folder(tmp_path / f".folder.{TOKEN}.former", "one")
    old_folder(tmp_path / f".folder.{TOKEN}.filling", "two")
    with pytest.raises(ValueError), whole_folder(path):
        raise ValueError
    assert (path / "a.txt").read_text() == "one"
    assert sys.platform == "win32" or names(tmp_path) == ["folder"]


def test_threads_do_not_disturb_each_other(tmp_path: Path) -> None:
    """16 threads on one path: every time it holds what one of them wrote, whole."""
    path, faults = tmp_path / "file", []
    texts = [str(k) * 100_000 for k in range(8)]

    def work(text: str) -> None:
        try:
            for _ in range(10):
                write(path, text)
                fill(tmp_path / "folder", text)
                if path.read_text() not in texts:
                    faults.append("half-written")
        except OSError as error:
            faults.append(str(error))

    threads = [threading.Thread(target=work, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert (tmp_path / "folder" / "a.txt").read_text() in texts
    assert names(tmp_path) == ["file", "folder"]


def test_a_scratch_folder_leaves_nothing(tmp_path: Path) -> None:
    with scratch_folder(tmp_path / "x.so") as folder:
        (folder / "x.so").write_text("compiled")
        with scratch_folder(tmp_path / "x.so") as other:
            assert other != folder
            assert names(folder) == ["x.so"]
    assert names(tmp_path) == []


# -- links -------------------------------------------------------------------------------------


@pytest.mark.parametrize("there", [True, False], ids=["to something", "to nothing yet"])
def test_a_link_stays_a_link(tmp_path: Path, there: bool) -> None:
    (tmp_path / "elsewhere").mkdir()
    for name, writer in (("file", write), ("folder", fill)):
        if there:
            writer(tmp_path / "elsewhere" / name, "one")
        (tmp_path / name).symlink_to(Path("elsewhere") / name)
        check_writable(tmp_path / name)
        writer(tmp_path / name, "two")
        assert (tmp_path / name).is_symlink()
    assert (tmp_path / "elsewhere" / "file").read_text() == "two"
    assert (tmp_path / "elsewhere" / "folder" / "a.txt").read_text() == "two"
    assert names(tmp_path / "elsewhere") == ["file", "folder"]


@pytest.mark.parametrize("writer", [write, fill])
def test_a_link_to_itself_is_refused(tmp_path: Path, writer: Callable[[Path, str], None]) -> None:
    (tmp_path / "link").symlink_to("link")
    with pytest.raises(OSError, match=re.escape(str(tmp_path / "link"))):
        writer(tmp_path / "link", "x")
    assert (tmp_path / "link").is_symlink()


def test_what_is_no_file_is_not_replaced_by_one(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="it is a folder; name a file"):
        write(tmp_path / "folder", "x")
    write(tmp_path / "file", "one")
    with pytest.raises(NotADirectoryError, match="file"):
        fill(tmp_path / "file", "two")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        (tmp_path / "link").symlink_to("pipe")
        with pytest.raises(OSError, match="link cannot be written: it is a device or pipe"):
            write(tmp_path / "link", "x")
        assert (tmp_path / "pipe").is_fifo()
    assert (tmp_path / "file").read_text() == "one"


# -- errors have names -------------------------------------------------------------------------


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("size", [10, 1_000_000], ids=["in a buffer", "at once"])
def test_a_full_disk_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    path = tmp_path / "file"
    write(path, "one")
    full_disk(monkeypatch)
    with pytest.raises(OSError) as raised:
        write(path, "x" * size)
    assert str(raised.value) == f"[Errno 28] No space left on device: '{path}'"
    assert path.read_text() == "one"
    assert names(tmp_path) == ["file"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_names_the_file_that_is_added_to(tmp_path: Path) -> None:
    (tmp_path / "log").symlink_to("/dev/full")
    with (
        pytest.raises(OSError, match=f"No space left on device: '{tmp_path / 'log'}'"),
        appending(tmp_path / "log") as file,
    ):
        file.write(b"line\n")
        file.flush()


def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is written from now on goes to a device that is always full."""

    def to_full(descriptor: int, wait: bool = False) -> None:
        with Path("/dev/full").open("wb") as full:
            os.dup2(full.fileno(), descriptor)

    monkeypatch.setattr(hidden, "flock", to_full)


def test_errors_of_others_keep_their_names(tmp_path: Path) -> None:
    for error in (
        OSError("no number"),
        OSError(errno.EIO, "broken"),
        FileNotFoundError(2, "", "x"),
    ):
        with pytest.raises(type(error)) as raised, whole_file(tmp_path / "file"):
            raise error
        assert raised.value is error


def test_hidden_names_are_not_shown(tmp_path: Path) -> None:
    with pytest.raises(OSError) as raised, whole_folder(tmp_path / "folder") as filling:
        (filling / "missing" / "a.txt").read_text()
    assert str(raised.value).endswith(f"'{tmp_path / 'folder' / 'missing' / 'a.txt'}'")
    long = "x" * 250
    for writer in (write, fill):
        with pytest.raises(OSError) as raised:
            writer(tmp_path / long, "x")
        assert str(raised.value).endswith(f"'{tmp_path / long}'")


# -- places ------------------------------------------------------------------------------------


def test_unfinished_folders_do_not_bother_who_clears_files(tmp_path: Path) -> None:
    with whole_folder(tmp_path / "folder") as filling:
        remove_unfinished(tmp_path)
        assert filling.is_dir()


def test_places_are_tried_and_left_as_they_were(tmp_path: Path) -> None:
    check_writable(tmp_path / "new" / "folder" / "file")
    assert names(tmp_path) == []
    (tmp_path / "file").write_text("x")
    with pytest.raises(OSError, match="cannot be written: Not a directory in"):
        check_writable(tmp_path / "file" / "a" / "b")


def test_a_full_disk_is_seen_beforehand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "open", full)
    with pytest.raises(OSError, match="cannot be written: No space left on device"):
        check_writable(tmp_path / "x")
