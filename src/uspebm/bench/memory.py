"""How much memory an update takes, as Linux tells."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import torch

from ..energies.gradient import energy_gradient
from ..negative import Particles
from ..support.randomness import generator
from .cases import ours
from .particle_updates import image_update, stepper


def peak_memory(n: int = 10_000, active: int = 125, side: int = 28) -> dict[str, float]:
    """MiB that an update needs beyond torch itself, in a process of its own (Linux)."""
    code = (
        f"from uspebm.bench.memory import _measure_memory; _measure_memory({n}, {active}, {side})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, after = (float(word) for word in done.stdout.split())
    return {"points": n * side**2 * 4 / 2**20, "peak": after - before}


def _measure_memory(n: int, active: int, side: int) -> None:
    some = min(n, 10_000)
    case = image_update(some, rounds=5, active=active, side=None if side == 28 else side)
    energy_gradient(ours(case.module), case.points[:125])
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of importing torch
    before = _resident("VmRSS") - case.points.nbytes / 2**20
    points = case.points
    if n > some:  # made a part at a time, so that making the points does not count
        points = torch.empty(n, *case.phase.domain.shape)
        for k, part in enumerate(points.split(some)):
            noise = torch.randn(part.shape, generator=generator(0, "noise", k))
            part.copy_((case.points[: len(part)] + 0.1 * noise).clamp_(-1.0, 1.0))
        before += case.points.nbytes / 2**20
    step = stepper(replace(case, phase=replace(case.phase, particles=n)))
    for k in range(2):
        step(Particles(points), generator(k))
    sys.stdout.write(f"{before} {_resident('VmHWM')}\n")


def _resident(what: str) -> float:
    """MiB of this process in memory, as Linux tells: now (VmRSS) or at most so far (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) / 1024 for line in lines if line.startswith(what))
