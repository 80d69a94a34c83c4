"""What an update costs: ``python -m tests.training.measure_group CASE``, alone or under torchrun.

``efficiency CASE`` instead: two processes with one thread each beside one process with two, by
turns, in one run: the time of the one over that of the two. ``model CASE``: what
:func:`expected_seconds` makes of one process's costs, beside 1, 2 and 4 processes.

Prints the median time of an update and the memory of every process. Cases: ``plane`` (the demo's
PS-USP), ``images`` (the images-energy recipe's shape of work), ``many`` (200,000 particles of 784
coordinates), ``colour`` (as many of 3,072).
"""

import os
import re
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from uspebm import Box, PersistentUSP, Recipe
from uspebm.energies.rules import ConvRule
from uspebm.experiments import fig4
from uspebm.experiments.mixture import MIXTURE
from uspebm.recipes import Run, Schedule
from uspebm.recipes.images import energy_recipe
from uspebm.support.group import together
from uspebm.support.randomness import generator
from uspebm.types import Proposal

SHAPE = (1, 28, 28)


def case(name: str) -> tuple[Recipe, Tensor | Proposal]:
    """What is trained, and on what."""
    if name == "plane":
        return fig4.DEMO.ps_usp, MIXTURE
    shape = (3, 32, 32) if name == "colour" else SHAPE
    images = 2 * torch.rand(2000, *shape, generator=generator(0, "images")) - 1
    if name == "images":
        return energy_recipe(images), images
    phase = PersistentUSP(
        domain=Box(-1.0, 1.0, shape), particles=200_000, spacing=10.0, active=100, nodes=100
    )
    return Recipe(name, ConvRule((8, 8, 8), width=16), phase, Schedule(3, 64)), images


def small(recipe: Recipe, phase: PersistentUSP) -> Recipe:
    """The same with hardly any particles, for one update."""
    few = replace(phase, particles=200, active=100, nodes=100)
    return replace(recipe, phase=few, schedule=replace(recipe.schedule, updates=1))


def memory() -> float:
    """The most that this process has held so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def shared() -> float:
    """What this process has of files, such as libraries, in MB: others have the same pages."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("RssFile:")[2].split()[0]) / 1024


def messages_noted() -> list[int]:
    """The bytes of every message from now on, as they are sent."""
    noted: list[int] = []
    for call in ("all_reduce", "all_gather_into_tensor"):
        setattr(dist, call, _noting(getattr(dist, call), noted))
    return noted


def _noting(send: Callable[..., Any], noted: list[int]) -> Callable[..., Any]:
    def noting(x: Tensor, *arguments: Any) -> Any:
        noted.append(x.numel() * x.element_size())
        return send(x, *arguments)

    return noting


def main(name: str) -> None:
    with together() as group:
        recipe, data = case(name)
        if isinstance(recipe.phase, PersistentUSP):  # what torch loads when it is first asked to
            list(Run(small(recipe, recipe.phase), data, None, 0, show=False))
        before = memory()
        updates = min(recipe.schedule.updates, 40)
        recipe = replace(recipe, schedule=replace(recipe.schedule, updates=updates))
        run = Run(recipe, data, None, 0, show=False)
        sent = messages_noted()
        seconds = [r.seconds for r in run]
        most = group.gathered(torch.tensor([memory()])).max().item()
        if group.main:
            told = f"{1000 * statistics.median(seconds):.1f} ms an update, "
            told += f"{len(sent) // updates} messages of {sum(sent) // updates} bytes, "
            told += f"{most:.0f} MB at most in a process, {before:.0f} of them before anything, "
            told += f"{shared():.0f} of these of libraries that processes share"
            sys.stdout.write(f"{name}, {group.size} processes: {told}\n")


class Parts(NamedTuple):
    """What an update is made of: the model of docs/guides/scaling.md."""

    shared: float
    """Seconds of one process in what processes share: energies, gradients, looking at points."""
    alone: float
    """Seconds in what each does for itself, such as the optimiser."""
    messages: int
    """That all wait for, an update."""
    sent: float
    """Bytes that a process sends, an update, but for the factor of how many there are."""


def expected_seconds(parts: Parts, size: int, latency: float, bandwidth: float) -> float:
    """Of an update of ``size`` processes, by the model.

    >>> expected_seconds(Parts(1.0, 0.1, 10, 1e6), 1, 1e-3, 1e6)
    1.1
    >>> expected_seconds(Parts(1.0, 0.1, 10, 1e6), 2, 1e-3, 1e6)  # 0.5 + 0.1 + 0.01 + 1.0
    1.61
    """
    if size == 1:
        return parts.shared + parts.alone
    # A ring passes on all but one share, twice: once to add up, once to tell.
    passed = 2 * (size - 1) / size * parts.sent / bandwidth
    return parts.shared / size + parts.alone + parts.messages * latency + passed


def timed(name: str, processes: int, threads: int) -> tuple[float, int, int]:
    """Median seconds of an update, and its messages and bytes, in processes of their own."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc-per-node", str(processes)] if processes > 1 else []
    command = command if processes > 1 else [sys.executable]
    command += ["-m", "tests.training.measure_group", name]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "PYTHONWARNINGS": "ignore"}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found = re.search(r"([\d.]+) ms an update, (\d+) messages of (\d+) bytes", ended.stdout)
    assert found is not None, ended.stdout
    return float(found[1]) / 1000, int(found[2]), int(found[3])


def efficiency(name: str, turns: int = 3) -> None:
    """One process with two threads against two with one, by turns."""
    times: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(turns):
        for processes in times:
            times[processes].append(timed(name, processes, 3 - processes)[0])
    one, two = (statistics.median(times[k]) for k in times)
    rounds = ", ".join(f"{a / b:.2f}" for a, b in zip(*times.values(), strict=True))
    sys.stdout.write(
        f"{name}: {1000 * one:.1f} ms in one process with two threads, {1000 * two:.1f} in two "
        f"with one each: {one / two:.2f} (by turns {rounds})\n"
    )


if __name__ == "__main__":
    if sys.argv[1] == "efficiency":
        efficiency(sys.argv[2])
    else:
        main(sys.argv[1])
