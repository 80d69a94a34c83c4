"""Full disks, interrupts and memory."""

import errno
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.fresh import COMMAND, fresh, started
from tests.support.test_files import full_disk
from uspebm.detector import folder
from uspebm.detector.energy_detector import EnergyDetector
from uspebm.evaluation import calibration

from .common import QUICK, content, run


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
    models: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    ending: str,
) -> None:
    out = tmp_path / f"s.{ending}"
    out.write_text("older scores")
    full_disk(monkeypatch)
    assert run("score", models / "named", models / "x.csv", "--out", out) == 2
    error = capsys.readouterr().err
    assert error == f"uspebm: [Errno 28] No space left on device: '{out}'\n"
    assert content(tmp_path) == {f"s.{ending}": b"older scores"}


def test_scores_go_where_a_link_leads(models: Path, tmp_path: Path) -> None:
    (tmp_path / "real.csv").write_text("older scores")
    (tmp_path / "link.csv").symlink_to("real.csv")
    assert run("score", models / "named", models / "x.csv", "--out", tmp_path / "link.csv") == 0
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text().startswith("score,p_value,outlier\n")


KILLED_SCORING = """
import os, signal, sys
from uspebm.cli.main import main
from uspebm.evaluation import calibration
calibration.p_values = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
main(sys.argv[1:])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no such signal")
def test_what_a_killed_score_left_is_cleared_by_the_next(models: Path, tmp_path: Path) -> None:
    arguments = ("score", models / "named", models / "x.csv", "--out", tmp_path / "s.csv")
    assert fresh(KILLED_SCORING, *arguments).returncode == -signal.SIGKILL
    (left,) = content(tmp_path)
    assert left.endswith(".unfinished")
    assert run(*arguments) == 0
    assert list(content(tmp_path)) == ["s.csv"]


LIMITED = """
import resource, sys
from uspebm.cli.main import main
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
sys.exit(main(sys.argv[1:]))
"""


def test_a_limit_on_file_sizes_leaves_the_older_model(models: Path, model: Path) -> None:
    before = content(model.parent)
    done = fresh(LIMITED, "fit", models / "x.csv", "--out", model, *QUICK)
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
        monkeypatch.setattr(folder, "card", interrupt)
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
from uspebm.cli.main import main

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
    done = fresh(PEAK, tmp_path / "m", small, big)
    assert done.returncode == 0, done.stderr
    # A chunk takes 8 MiB as it is read, again when chunks are cut, 16 MiB as float64 and again as
    # points, and the next is read while it is held; the whole file would take 230 MiB.
    assert float(done.stdout.splitlines()[-1]) < 100


def test_ctrl_c_is_130_and_the_same_command_goes_on(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["fit", str(models / "x.csv"), "--recipe", "tables-ps-usp", "--max-updates", "12"]
    out = tmp_path / "model"
    with started(COMMAND, *command, "--out", out) as child:
        assert child.stdout.readline().startswith("tables-ps-usp 1/12")
        child.send_signal(signal.SIGINT)
        ended = child.rest()
    assert ended.returncode == 130
    assert ended.stderr == ""
    assert "the same command goes on with it" in ended.stdout
    assert not out.exists()
    assert all(name.startswith("model.training") for name in content(tmp_path))
    ends = []
    for place in (out, tmp_path / "undisturbed"):
        capsys.readouterr()
        assert run(*command, "--out", place) == 0
        ends.append((place / "weights.safetensors").read_bytes())
        assert ("resuming at update" in capsys.readouterr().out) is (place == out)
    assert ends[0] == ends[1]
    assert not (tmp_path / "model.training").exists()
