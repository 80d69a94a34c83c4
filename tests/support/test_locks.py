"""One writer per folder, and no lock outlives its holder."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from uspebm.support import locks
from uspebm.support.locks import FolderInUseError, only_writer

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="kills and forks")
HOLDER = """
import sys, time
from pathlib import Path
from uspebm.support.locks import only_writer
with only_writer(Path(sys.argv[1])):
    print("holding", flush=True)
    time.sleep(60)
"""


def taken(folder: Path) -> bool:
    try:
        with only_writer(folder):
            return False
    except FolderInUseError:
        return True


def test_the_second_is_told_in_one_line_and_the_third_gets_it(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "m"
    with only_writer(folder):
        with pytest.raises(OSError) as raised, only_writer(folder):
            pass
        assert str(raised.value) == (
            f"{folder} is in use: another process trains there; wait until it has ended, or choose "
            "another folder"
        )
        assert not taken(tmp_path / "runs" / "other")
        assert taken(folder)  # being refused frees nothing
    assert not taken(folder)
    assert not list(folder.iterdir())


def test_an_error_frees_it(tmp_path: Path) -> None:
    with pytest.raises(ValueError), only_writer(tmp_path):
        raise ValueError
    assert not taken(tmp_path)


def test_a_killed_process_holds_nothing(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"holding\n"
        assert taken(tmp_path)
        child.kill()
    assert not taken(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_forked_child_holds_nothing(tmp_path: Path) -> None:
    """Workers may outlive the training that forked them."""
    go_on, ready = os.pipe()
    with only_writer(tmp_path):
        worker = os.fork()
        if worker == 0:
            os.close(ready)
            os.read(go_on, 1)  # until the parent is done
            os._exit(0)
        brief = os.fork()
        if brief == 0:
            os._exit(0 if taken(tmp_path) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(brief, 0)[1]) == 0
        assert taken(tmp_path)
    assert not taken(tmp_path)  # the worker is still there
    os.close(ready)
    os.waitpid(worker, 0)
    os.close(go_on)


def test_a_child_that_leaves_its_parents_block_takes_nothing_away(tmp_path: Path) -> None:
    child = 1
    try:
        with only_writer(tmp_path):
            child = os.fork()
            if child == 0:
                raise SystemExit  # leaves the block, here as well
            os.waitpid(child, 0)
            assert taken(tmp_path)
    except SystemExit:
        os._exit(0)


def test_of_many_threads_one_gets_it(tmp_path: Path) -> None:
    inside, most, refused, barrier = 0, 0, 0, threading.Barrier(8)
    count = threading.Lock()

    def work() -> None:
        nonlocal inside, most, refused
        barrier.wait()
        for _ in range(100):
            try:
                with only_writer(tmp_path):
                    with count:
                        inside += 1
                        most = max(most, inside)
                    time.sleep(0.001)
                    with count:
                        inside -= 1
            except FolderInUseError:
                with count:
                    refused += 1

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
    assert 0 < refused < 800


def test_without_locks_nobody_is_kept_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "flock", lambda *_: None)
    with only_writer(tmp_path), only_writer(tmp_path):
        pass
    assert not list(tmp_path.iterdir())


def test_an_interrupted_holder_holds_nothing(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"holding\n"
        child.send_signal(signal.SIGINT)
    assert not list(tmp_path.iterdir())
