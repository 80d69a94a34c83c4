"""Full disks, interrupts and memory."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from uspebm import calibration, modelfile
from uspebm.detector import EnergyDetector

from .common import (
    QUICK,
    content,
    run,
)


def test_a_full_disk_leaves_the_older_model(
    models: Path, model: Path, monkeypatch: pytest.MonkeyPatch, refused: Callable[..., None]
) -> None:
    written = Path.write_text

    def full(path: Path, text: str, *rest: Any, **more: Any) -> int:
        if path.name == "README.md":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return written(path, text, *rest, **more)

    monkeypatch.setattr(Path, "write_text", full)
    message = ["No space left on device", str(model)]
    refused(message, "fit", models / "x.csv", "--out", model, *QUICK)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("ending", ["csv", "parquet", "npz", "jsonl"])
def test_a_full_disk_leaves_the_older_scores(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], ending: str
) -> None:
    out = tmp_path / f"s.{ending}"
    out.write_text("older scores")
    # Where the unfinished file goes, the disk is full.
    (tmp_path / f".s.{ending}.{os.getpid()}.unfinished").symlink_to("/dev/full")
    assert run("score", models / "named", models / "x.csv", "--out", out) == 2
    error = capsys.readouterr().err
    assert error.startswith("uspebm: ")
    assert "No space left on device" in error
    assert error.count("\n") == 1
    assert content(tmp_path) == {f"s.{ending}": b"older scores"}


LIMITED = """
import resource, sys
from uspebm.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
sys.exit(main(sys.argv[1:]))
"""


def test_a_limit_on_file_sizes_leaves_the_older_model(models: Path, model: Path) -> None:
    before = content(model.parent)
    run_ = [
        sys.executable,
        "-c",
        LIMITED,
        "fit",
        str(models / "x.csv"),
        "--out",
        str(model),
        *QUICK,
    ]
    done = subprocess.run(run_, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == f"uspebm: [Errno 27] File too large: '{model}'\n"
    assert content(model.parent) == before


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("when", ["learning", "saving"])
def test_an_interrupt_is_130_and_leaves_the_older_model(
    models: Path, model: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    before = content(model.parent)
    if when == "learning":
        monkeypatch.setattr(EnergyDetector, "fit", interrupt)
    else:
        monkeypatch.setattr(modelfile, "card", interrupt)
    assert run("fit", models / "x.csv", "--out", model, *QUICK) == 130
    assert content(model.parent) == before


def test_an_interrupt_while_scoring_is_130(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibration, "p_values", interrupt)
    assert run("score", models / "named", models / "x.csv", "--out", tmp_path / "s.csv") == 130
    assert content(tmp_path) == {}


PEAK = """
import sys
from pathlib import Path
from uspebm.cli import main

def peak():
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024

folder, small, big = sys.argv[1:]
assert main(["score", folder, small, "--out", small + ".parquet"]) == 0
before = peak()
assert main(["score", folder, big, "--out", big + ".parquet"]) == 0
print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="peaks are read from /proc")
def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """30,000 rows of 500 float32: 57 MiB, and twice that as the float64 that scores come from."""
    small, big = tmp_path / "small.npy", tmp_path / "big.npy"
    values = np.random.default_rng(0).random((30_000, 500), np.float32)
    np.save(small, values[:2000])
    np.save(big, values)
    settings = ("--rows", "200", "--max-updates", "0")
    assert run("fit", small, "--out", tmp_path / "m", *settings) == 0
    command = [sys.executable, "-c", PEAK, str(tmp_path / "m"), str(small), str(big)]
    done = subprocess.run(command, capture_output=True, check=True, text=True)
    # A chunk takes 16 MiB as it is read, again when chunks are cut, and 32 MiB as float64; the
    # whole file would take 230 MiB.
    assert float(done.stdout.splitlines()[-1]) < 140


def test_ctrl_c_is_130_and_leaves_no_litter(models: Path, tmp_path: Path) -> None:
    long = ("--max-updates", "1000000", "--patience", "1000000", "--centres", "40")
    data, out = str(models / "x.csv"), str(tmp_path / "model")
    command = [sys.executable, "-m", "uspebm", "fit", data, "--out", out, *long]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.readline().startswith("importance ")
        child.send_signal(signal.SIGINT)
        error = child.stderr.read()
    assert child.returncode == 130
    assert error == ""
    assert content(tmp_path) == {}
