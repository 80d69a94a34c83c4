"""What an update costs: ``python -m tests.training.measure_group CASE``, alone or under torchrun.

``efficiency CASE`` instead: two processes with one thread each beside one process with two, by
turns, in one run: the time of the one over that of the two. ``model CASE``: what one and two
processes take, what four should by :mod:`uspebm.bench.scaling`, and what they do.

Prints the median time of an update and the most memory that a process had. Cases: ``plane`` (the
appendix's PS-USP of Fig. 4), ``demo`` (the demo's, a tenth of the work), ``images`` (the
images-energy recipe's shape of work), ``many`` (200,000 particles of 784 coordinates), ``colour``
(as many of 3,072). ``CASE FOLDER``: the run is kept in a folder
that is not there yet, and then gone on with from its checkpoint, to see what that takes.
``forked N CASE``: in N processes as ``uspebm fit --processes N`` makes them, instead of torchrun.

Memory is told in all, as the system counts it; anonymous, without the pages of libraries, which
processes on one machine share; and of the machine, where of what is shared each has its part. In
brackets each above what the process had after a tiny run, which is what the training adds.
"""

import json
import math
import os
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from uspebm import Box, PersistentUSP, Recipe
from uspebm.bench.scaling import Link, expected_seconds, solved
from uspebm.energies.rules import ConvRule
from uspebm.experiments import fig4
from uspebm.experiments.mixture import MIXTURE
from uspebm.recipes import Run, Schedule
from uspebm.recipes.images import energy_recipe
from uspebm.support.group import current_group, together
from uspebm.support.launch import launched
from uspebm.support.randomness import generator
from uspebm.types import Proposal

SHAPE = (1, 28, 28)
UPDATES = {"plane": 10, "demo": 30, "images": 10, "many": 3, "colour": 3}


def case(name: str) -> tuple[Recipe, Tensor | Proposal]:
    """What is trained, and on what."""
    if name in ("plane", "demo"):
        return (fig4.PAPER if name == "plane" else fig4.DEMO).ps_usp, MIXTURE
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


class Memory(NamedTuple):
    """The most that a process has held so far, in MB."""

    in_all: float
    anonymous: float
    of_the_machine: float
    """What nobody shares with it, and its part of what is shared (the system's ``Pss``)."""

    def said(self, before: "Memory") -> str:
        """Each kind with what it is above ``before``."""
        kinds = zip(self._fields, self, before, strict=True)
        return ", ".join(f"{k.replace('_', ' ')} {a:.0f} MB ({a - b:.0f})" for k, a, b in kinds)


class Watch(Thread):
    """Looks at the anonymous memory all the time: of that the system keeps no maximum."""

    def __init__(self) -> None:
        super().__init__()
        self._most, self._most_of_machine, self._ended = 0.0, 0.0, Event()

    def run(self) -> None:
        looks = 0
        while not self._ended.wait(0.02):
            self._look()
            looks += 1
            if looks % 10 == 0:  # it costs more
                self._look_at_machine()

    def end(self) -> None:
        """Before the process does: a thread that is cut off in its work may abort it."""
        self._ended.set()
        self.join()

    def _look(self) -> None:
        _, resident, of_files, *_ = map(int, Path("/proc/self/statm").read_text().split())
        self._most = max(self._most, (resident - of_files) * resource.getpagesize() / 2**20)

    def _look_at_machine(self) -> None:
        rollup = Path("/proc/self/smaps_rollup").read_text()
        (part,) = re.findall(r"^Pss: +(\d+) kB", rollup, re.M)
        self._most_of_machine = max(self._most_of_machine, int(part) / 1024)

    def most(self) -> Memory:
        """Of all processes, the most that one of them has held."""
        self._look()
        self._look_at_machine()
        in_all = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        here = torch.tensor([[in_all, self._most, self._most_of_machine]], dtype=torch.float64)
        return Memory(*current_group().gathered(here).amax(0).tolist())


def messages_noted() -> list[int]:
    """The bytes of every message from now on, as they are sent."""
    noted: list[int] = []
    for call in ("all_reduce", "all_gather_single", "all_to_all_single"):
        setattr(dist, call, _noting(getattr(dist, call), noted))
    return noted


def message_cost(times: int = 300) -> float:
    """Processor seconds of this process for a short message."""
    group, x = current_group(), torch.zeros(1000)
    began = time.process_time()
    for _ in range(times):
        group.add(x)
    return (time.process_time() - began) / times


def _noting(send: Callable[..., Any], noted: list[int]) -> Callable[..., Any]:
    def noting(x: Tensor, *arguments: Any) -> Any:
        noted.append(x.numel() * x.element_size())
        return send(x, *arguments)

    return noting


def main(name: str, folder: Path | None = None) -> int:
    watch = Watch()
    watch.start()
    try:
        measure(name, folder, watch)
    finally:
        watch.end()
    return 0


def measure(name: str, folder: Path | None, watch: Watch) -> None:
    """What an update takes, said by the first process."""
    with together() as group:
        recipe, data = case(name)
        if isinstance(recipe.phase, PersistentUSP):  # what torch loads when it is first asked to
            list(Run(small(recipe, recipe.phase), data, None, 0, show=False))
        before = watch.most()
        # The first of a long run, for which code is compiled where there is a compiler.
        updates = min(recipe.schedule.updates, UPDATES[name])
        run = Run(recipe, data, folder, 0, show=False)
        sent = messages_noted()
        seconds = []
        for record in run:
            seconds.append(record.seconds)
            if record.step == 1:  # torch loads parts of itself when they are first asked for
                began = time.process_time()
            if record.step == updates:
                break
        processor = (time.process_time() - began) / (updates - 1)
        per_update = (len(sent) // updates, sum(sent) // updates)
        a_message = message_cost()
        told = f"at most, above what a tiny run takes in brackets: {watch.most().said(before)}"
        if folder is not None:
            del run
            Run(recipe, data, folder, 0, show=False)
            told += f"; going on from a checkpoint: {watch.most().said(before)}"
        if group.main:
            middle = statistics.median(seconds)
            sys.stdout.write(
                f"{name}, {group.size} processes: {1000 * middle:.1f} ms an update, "
                f"{1000 * processor:.1f} ms of processor, "
                f"{per_update[0]} messages of {per_update[1]} bytes; {told}\n"
            )
            cost = Cost(middle, processor, *per_update, a_message)
            sys.stdout.write(f"{json.dumps(cost._asdict())}\n")


class Cost(NamedTuple):
    """Of an update of one of several processes."""

    seconds: float
    processor: float
    """Seconds of processor time, which other programs on the machine change little."""
    messages: int
    sent: int
    a_message: float
    """Processor seconds of a short message."""


def timed(name: str, processes: int, threads: int) -> Cost:
    """What a run in processes of its own says."""
    launched = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    command = [sys.executable, *launched, "-m", "tests.training.measure_group", name]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "PYTHONWARNINGS": "ignore"}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return Cost(**json.loads(ended.stdout.splitlines()[-1]))


def model(name: str) -> None:
    """What one and two processes take tells what four should: processor time of each process."""
    costs = {size: timed(name, size, 1) for size in (1, 2, 4)}
    two, four = costs[2], costs[4]
    parts = solved(costs[1].processor, two.processor, two.messages, two.a_message)
    free = Link(four.a_message, math.inf)
    expected = expected_seconds(parts, free, 4)
    for size, cost in costs.items():
        sys.stdout.write(f"{name}, {size}: {cost}\n")
    sys.stdout.write(
        f"{name}: shared {1000 * parts.shared:.1f} ms, alone {1000 * parts.alone:.1f} ms; four "
        f"should take {1000 * expected:.1f} ms of processor, and take "
        f"{1000 * four.processor:.1f}\n"
    )


def efficiency(name: str, turns: int = 3) -> None:
    """One process with two threads against two with one, by turns."""
    times: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(turns):
        for processes in times:
            times[processes].append(timed(name, processes, 3 - processes).seconds)
    one, two = (statistics.median(times[k]) for k in times)
    rounds = ", ".join(f"{a / b:.2f}" for a, b in zip(*times.values(), strict=True))
    sys.stdout.write(
        f"{name}: {1000 * one:.1f} ms in one process with two threads, {1000 * two:.1f} in two "
        f"with one each: {one / two:.2f} (by turns {rounds})\n"
    )


if __name__ == "__main__":
    if sys.argv[1] in ("efficiency", "model"):
        {"efficiency": efficiency, "model": model}[sys.argv[1]](sys.argv[2])
    elif sys.argv[1] == "forked":
        launched(main, sys.argv[3], processes=int(sys.argv[2]))
    else:
        main(sys.argv[1], Path(sys.argv[2]) if sys.argv[2:] else None)
