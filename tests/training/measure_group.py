"""What an update costs: ``python -m tests.training.measure_group CASE``, alone or under torchrun.

Prints the median time of an update and the memory of every process. Cases: ``plane`` (the demo's
PS-USP), ``images`` (the images-energy recipe's shape of work), ``many`` (200,000 particles of 784
coordinates), ``colour`` (as many of 3,072).
"""

import resource
import statistics
import sys
from dataclasses import replace
from pathlib import Path

import torch
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


def memory() -> float:
    """The most that this process has held so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def shared() -> float:
    """What this process has of files, such as libraries, in MB: others have the same pages."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("RssFile:")[2].split()[0]) / 1024


def main(name: str) -> None:
    with together() as group:
        before = memory()
        recipe, data = case(name)
        updates = min(recipe.schedule.updates, 40)
        recipe = replace(recipe, schedule=replace(recipe.schedule, updates=updates))
        seconds = [r.seconds for r in Run(recipe, data, None, 0, show=False)]
        most = group.gathered(torch.tensor([memory()])).max().item()
        if group.main:
            told = f"{1000 * statistics.median(seconds):.1f} ms an update, "
            told += f"{most:.0f} MB at most in a process, {before:.0f} of them before anything, "
            told += f"{shared():.0f} of these libraries that processes share"
            sys.stdout.write(f"{name}, {group.size} processes: {told}\n")


if __name__ == "__main__":
    main(sys.argv[1])
