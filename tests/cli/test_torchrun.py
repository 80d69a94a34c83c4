"""``torchrun -m uspebm fit``: one model, by several processes, of which one speaks."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

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


def test_what_one_process_does_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Callable[..., None]
) -> None:
    """By each process alone, as soon as it reads in its environment that it has company."""
    command = ("score", tmp_path / "model", table(tmp_path), "--out", tmp_path / "s.csv")
    refused("model is no model's folder", *command)
    monkeypatch.setenv("WORLD_SIZE", "2")
    refused("uspebm score is one process's work; torchrun is for fit", *command)
