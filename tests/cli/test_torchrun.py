"""``torchrun -m uspebm fit``, or ``--processes``: one model, by several, of which one speaks."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from pathlib import Path

import numpy as np
import pytest

from tests.fresh import COMMAND, fresh, started
from uspebm.detector.folder import load

TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


def torchrun(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [*TORCHRUN, "-m", "uspebm", *map(str, arguments)]
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, capture_output=True, text=True, timeout=200, env=one_thread)


def table(folder: Path) -> Path:
    rows = np.random.default_rng(0).normal(size=(300, 2))
    path = folder / "x.csv"
    np.savetxt(path, rows, delimiter=",", header="a,b", comments="")
    return path


def test_two_processes_make_one_model(tmp_path: Path) -> None:
    out = tmp_path / "model"
    settings = ("--recipe", "tables-ps-usp", "--max-updates", 12)
    ended = torchrun("fit", table(tmp_path), "--out", out, *settings)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("learned from 300 rows") == 1
    detector = load(out)
    assert list(detector.feature_names_in_) == ["a", "b"]
    assert detector.recipe_ is not None
    assert detector.recipe_.schedule.updates == 12
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "x.csv"]


def test_processes_of_this_machine_make_the_same_model(tmp_path: Path) -> None:
    """As without ``--processes``, but for the numbers; what is refused is said once."""
    settings = ("--recipe", "tables-ps-usp", "--max-updates", 6)
    full = tmp_path / "full"
    full.mkdir()
    (full / "letter").touch()
    for data, out, said in (
        (tmp_path / "none.csv", tmp_path / "m", "none.csv does not exist"),
        (table(tmp_path), full, "full exists and is no model"),
    ):
        wrong = fresh(COMMAND, "fit", data, "--out", out, "--processes", 2)
        assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1), wrong.stderr
        assert said in wrong.stderr
    ended = fresh(
        COMMAND, "fit", table(tmp_path), "--out", tmp_path / "m", "--processes", 2, *settings
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("learned from 300 rows") == 1
    made = json.loads((tmp_path / "m" / "model.json").read_text())["made"]
    assert made["environment"]["processes"] == 2
    assert "processes" not in made["settings"]


def members(launcher: int, before: Collection[int] = ()) -> list[int]:
    """The two processes that a launcher has started, once it has; none of those before."""
    path = Path(f"/proc/{launcher}/task/{launcher}/children")
    until = time.monotonic() + 60
    while time.monotonic() < until:
        found = [int(pid) for pid in path.read_text().split()]
        if len(found) == 2 and not set(found) & set(before):
            return found
        time.sleep(0.05)
    raise TimeoutError(f"{launcher} has not started two processes within a minute")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for children in /proc")
def test_a_killed_process_is_made_up_for_and_ctrl_c_ends_all(tmp_path: Path) -> None:
    data, settings = table(tmp_path), ("--recipe", "tables-ps-usp", "--processes", 2)
    with started(COMMAND, "fit", data, "--out", tmp_path / "a", *settings) as command:
        first = members(command.pid)
        os.kill(first[1], signal.SIGKILL)
        second = members(command.pid, before=first)
        assert "1/" in command.stdout.readline()  # they train
        command.send_signal(signal.SIGINT)
        ended = command.rest()
    assert ended.returncode == 130, ended.stderr
    assert ended.stderr.count("a process was lost; all go on from the last checkpoint\n") == 1
    assert "Traceback" not in ended.stderr
    assert "torch/" not in ended.stderr  # the launcher's own words
    assert "the same command goes on with it" in ended.stdout
    assert not any(Path(f"/proc/{pid}").exists() for pid in second)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="others do not tell who is gone")
def test_where_the_launcher_is_killed_its_processes_save_and_end(tmp_path: Path) -> None:
    data, settings = table(tmp_path), ("--recipe", "tables-ps-usp", "--max-updates", 2000)
    with started(
        COMMAND, "fit", data, "--out", tmp_path / "m", *settings, "--processes", 2
    ) as command:
        assert "1/2000" in command.stdout.readline()  # they train
        command.send_signal(signal.SIGKILL)
        ended = command.rest()  # until nobody is left who could say anything
    assert ended.returncode == -signal.SIGKILL
    assert "the same command goes on with it" in ended.stdout
    assert "Traceback" not in ended.stderr
    with started(COMMAND, "fit", data, "--out", tmp_path / "m", *settings) as alone:
        assert "resuming at update" in alone.stdout.readline()


def test_what_one_process_does_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Callable[..., None]
) -> None:
    """By each process alone, as soon as it reads in its environment that it has company."""
    command = ("score", tmp_path / "model", table(tmp_path), "--out", tmp_path / "s.csv")
    refused("model is no model's folder", *command)
    monkeypatch.setenv("WORLD_SIZE", "2")
    refused("uspebm score is one process's work; torchrun is for fit", *command)
