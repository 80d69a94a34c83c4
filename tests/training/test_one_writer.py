"""One training per folder, and what becomes of it when the disk is full."""

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fresh import fresh
from tests.support.test_files import full_disk
from tests.training.processes import in_processes
from tests.training.test_checkpoint import assert_same, records, run, start
from uspebm import CheckpointError, Record, checkpointed, resume
from uspebm.support.group import current_group
from uspebm.support.locks import FolderInUseError
from uspebm.training.checkpoint import checkpoints, saved_along
from uspebm.training.run_log import log_rows, logged

OTHER = """
import sys
from tests.training.test_checkpoint import records, start
from uspebm import checkpointed
state = start()
next(checkpointed(records(state), state, sys.argv[1], seconds=0.0))
"""


def test_a_second_process_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    straight, state = run(start(), 10), start()
    for record in checkpointed(records(state), state, tmp_path, seconds=0.0):
        if record.step == 3:
            last = fresh(OTHER, tmp_path).stderr.splitlines()[-1]
            assert last.startswith("uspebm.support.locks.FolderInUseError: ")
            assert f"{tmp_path} is in use: another process trains there" in last
    assert_same(state, straight)
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []
    resumed = start()
    assert resume(resumed, tmp_path)
    assert_same(resumed, straight)


def test_so_is_a_second_thread(tmp_path: Path) -> None:
    state, raised = start(), []

    def other() -> None:
        mine = start()
        try:
            next(checkpointed(records(mine), mine, tmp_path))
        except OSError as error:
            raised.append(error)

    for record in checkpointed(records(state), state, tmp_path):
        if record.step == 3:
            thread = threading.Thread(target=other)
            thread.start()
            thread.join()
    assert [type(error) for error in raised] == [FolderInUseError]
    assert checkpoints(tmp_path)[-1].name == "step-000000010.ckpt"


def test_whatever_ends_the_loop_frees_the_folder(tmp_path: Path) -> None:
    state = start()
    for _ in checkpointed(records(state), state, tmp_path):
        break
    with pytest.raises(CheckpointError, match="ahead of the state"):
        next(checkpointed(records(start()), start(), tmp_path))
    for _ in checkpointed(records(state, 2), state, tmp_path):
        pass
    assert checkpoints(tmp_path)[-1].name == "step-000000002.ckpt"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_names_the_checkpoint_and_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = start()
    training = checkpointed(records(state), state, tmp_path, seconds=0.0)
    next(training)
    full_disk(monkeypatch)
    with pytest.raises(OSError) as raised:
        next(training)
    path = tmp_path / "step-000000002.ckpt"
    assert str(raised.value) == f"[Errno 28] No space left on device: '{path}'"
    assert [p.name for p in tmp_path.iterdir()] == ["step-000000001.ckpt"]
    monkeypatch.undo()
    resumed = start()
    assert resume(resumed, tmp_path)
    assert_same(run(resumed, 10), run(start(), 10))


LIMITED = """
import resource, sys
from tests.training.test_checkpoint import records, start
from uspebm import checkpointed
state = start()
for record in checkpointed(records(state), state, sys.argv[1], seconds=0.0):
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no such limits")
def test_so_does_a_limit_on_file_sizes(tmp_path: Path) -> None:
    """The real thing: the kernel refuses in the midst of the file."""
    done = fresh(LIMITED, tmp_path)
    path = tmp_path / "step-000000002.ckpt"
    assert done.stderr.splitlines()[-1] == f"OSError: [Errno 27] File too large: '{path}'"
    assert [p.name for p in tmp_path.iterdir()] == ["step-000000001.ckpt"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_full_disk_names_the_log(tmp_path: Path) -> None:
    path, state = tmp_path / "log.jsonl", start()
    for _ in logged(records(state, 2), path):
        pass
    path.rename(tmp_path / "before")
    path.symlink_to("/dev/full")
    with pytest.raises(OSError, match=f"No space left on device: '{path}'"):
        list(logged(records(state, 4), path))
    assert [row["step"] for row in log_rows(tmp_path / "before")] == [1, 2]


def full_for_the_main_one(folder: Path) -> tuple[str, int]:
    state = start()

    def written() -> Iterator[Record]:
        for record in records(state):
            if record.step == 3 and current_group().main:
                raise OSError(28, "No space left on device", "log.jsonl")
            yield record

    try:
        for _ in saved_along(written(), state, folder, 60.0):
            pass
    except OSError as error:
        return f"{type(error).__name__}: {error}", state.step
    return "", state.step


def test_where_the_main_process_cannot_write_all_save_and_all_end(tmp_path: Path) -> None:
    """The log is its own; the checkpoint needs everybody."""
    main, other = in_processes(2, full_for_the_main_one, tmp_path)
    assert main == ("OSError: [Errno 28] No space left on device: 'log.jsonl'", 3)
    assert other == ("LostProcessError: another process of the group has failed", 3)
    assert [path.name for path in checkpoints(tmp_path)] == ["step-000000003.ckpt"]
    resumed = start()
    assert resume(resumed, tmp_path)
    assert resumed.step == 3
