"""Four processes under torchrun, of which one is killed: they start again and end with the same."""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from tests.phases import BOX
from uspebm import GaussianMixture, PersistentUSP, Recipe, train
from uspebm.energies.rules import MLPRule
from uspebm.recipes import Run, Schedule
from uspebm.recipes import run as run_module
from uspebm.support.group import current_group, together
from uspebm.training.checkpoint import checkpoints

from .report import Row, say

PROCESSES = 4
RESTARTS = 2
LONGEST = 1800.0
"""Seconds after which a run counts as hanging; on a busy machine one takes minutes."""
MODES = GaussianMixture(((-0.8, 0.0), (0.6, 0.5)), 0.25, (0.4, 0.6))
RECIPE = Recipe(
    "shared",
    MLPRule(32),
    PersistentUSP(domain=BOX, particles=400, spacing=0.15, active=100, nodes=400, rounds=5),
    Schedule(updates=150, batch_size=400, learning_rate=1e-2, snapshot_every=150),
)


def run(seed: int, kills: int) -> list[Row]:
    """So many runs, each with one process killed somewhere in it."""
    moments, held, started = random.Random(seed), 0, time.monotonic()
    tests = Path(__file__).parent.parent
    many = {**os.environ, "USPEBM_SOAK": "1"}
    command = [sys.executable, "-m", "pytest", "-n0", str(tests / "training" / "test_group.py")]
    four = subprocess.run(command, env=many, capture_output=True, text=True)
    if four.returncode:
        say(four.stdout)
    rows = [Row("1, 2 and 4 processes", 1, int(not four.returncode), time.monotonic() - started)]
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        undisturbed = _weights(Path(place) / "undisturbed", None, 0)
        for k in range(kills):
            share, rank = moments.uniform(0.1, 0.8), moments.randrange(PROCESSES)
            found = _weights(Path(place) / str(k), share, rank)
            held += found is not None and undisturbed is not None and found == undisturbed
            say(f"a killed process: {k + 1} of {kills}, {held} end with the same weights")
    about = f"{PROCESSES} processes, one killed after a checkpoint; torchrun starts them again"
    return [*rows, Row("kill −9 of a rank", kills, held, time.monotonic() - started, about)]


def _weights(folder: Path, share: float | None, rank: int) -> bytes | None:
    """Of the end, as written; after a ``share`` of the updates a rank is killed."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(PROCESSES), "--max-restarts", str(RESTARTS)]
    command += ["-m", "tests.soak.processes", str(folder)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
    launcher = subprocess.Popen(command, env=one_thread, **quiet)  # type: ignore[call-overload]
    until, killed, process = time.monotonic() + LONGEST, "", folder / "ranks" / str(rank)
    while launcher.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
        after = (share or 0.0) * RECIPE.schedule.updates
        if share is None or killed:
            continue
        if any(int(p.stem[5:]) >= after for p in checkpoints(folder / "run")):
            killed = process.read_text()
            os.kill(int(killed), signal.SIGKILL)
    if launcher.poll() is None:
        launcher.terminate()  # which ends its processes too
        launcher.wait()
    last = folder / "run" / "snapshots" / f"averaged-{RECIPE.schedule.updates:06}.safetensors"
    ended = launcher.returncode == 0 and last.exists()
    # Killed in the midst of it: another process has its place.
    as_wanted = share is None or killed not in ("", process.read_text())
    return last.read_bytes() if ended and as_wanted else None


def job(folder: Path) -> Run:
    """What each of the processes does."""
    run_module.SECONDS_BETWEEN_CHECKPOINTS = 0.1
    (folder / "ranks").mkdir(parents=True, exist_ok=True)
    (folder / "ranks" / str(current_group().rank)).write_text(str(os.getpid()))
    return train(RECIPE, MODES, folder / "run", 0, show=False)


if __name__ == "__main__":
    torch.set_num_threads(1)
    with together():
        job(Path(sys.argv[1]))
