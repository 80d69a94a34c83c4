"""Energy-based models of an :class:`~.image_problem.ImageProblem`: trained, found, judged."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from ..data.points import described
from ..detector.folder import load
from ..energies import Conv
from ..evaluation.metrics import Detection, detection
from ..evaluation.proxies import proxies
from ..negative import Replay
from ..recipes import Recipe, Run, train
from ..support.progress import console
from ..training import DivergedError, load_snapshot
from ..types import Energy
from .image_problem import ImageSplit


@dataclass(frozen=True)
class Method:
    """One way to train, on whatever images.

    Arguments:
        recipe: What is trained, or what these images call for.
        most_seeds: However many seeds are asked for, at most so many are trained: what takes long.
        rollbacks: How often a divergence is answered by going back, instead of by the recipe's own.
    """

    recipe: Recipe | Callable[[Tensor], Recipe]
    most_seeds: int | None = None
    rollbacks: int | None = None

    def given(self, images: Tensor) -> Recipe:
        """The recipe for training images."""
        recipe = self.recipe if isinstance(self.recipe, Recipe) else self.recipe(images)
        if self.rollbacks is None:
            return recipe
        return replace(recipe, schedule=replace(recipe.schedule, rollbacks=self.rollbacks))

    def seeds(self, wanted: int) -> range:
        """Those to train."""
        return range(min(wanted, self.most_seeds or wanted))


def by_chains(recipe: Recipe) -> bool:
    """Whether Langevin chains, and not partition points, stand in for the model."""
    return isinstance(recipe.phase, Replay)


def image_run(name: str, recipe: Recipe, images: Tensor, out: Path, seed: int) -> Run | None:
    """A trained model in ``out/runs/name-seed``, found if it is there.

    None, and a line that says why, where it diverges: it would again, and other models should not
    have to do without each other.
    """
    try:
        return train(recipe, images, out / "runs" / f"{name}-{seed}", seed)
    except DivergedError as error:
        console.print(f"{name}, seed {seed}, is left out: {error}", markup=False)
        return None


def last_quarter(run: Run) -> list[nn.Module]:
    """The averaged weights of the snapshots of the last quarter of a run, in order."""
    found = []
    for update, path in run.snapshots().items():
        if 4 * update >= 3 * run.recipe.schedule.updates:
            energy = copy.deepcopy(run.energy)
            load_snapshot(energy, path)
            found.append(energy)
    return found


def energy_in(model: str, shape: tuple[int, ...]) -> Energy:
    """The energy in a snapshot (``.safetensors``), a model's folder, or a model of the package.

    ``shape`` is that of an image.
    """
    if model.endswith(".safetensors"):
        module = Conv(shape)
        load_snapshot(module, model)
        return module
    detector = load(model)
    if detector.event_shape_ != shape:
        raise ValueError(
            f"{model} is a model of {described(detector.event_shape_)}, not of images of "
            f"{described(shape)}"
        )

    def energy(images: Tensor) -> Tensor:
        return -torch.from_numpy(detector.score_samples(images.numpy()))

    return energy


def energy_scores(energy: Energy, images: Tensor) -> Tensor:
    """Minus energies, ``(N,)``: higher for images like the data. An order, and no densities."""
    with torch.no_grad():
        return -torch.cat([energy(part) for part in images.split(1000)])


def against_proxies(energy: Energy, data: ImageSplit) -> dict[str, Detection]:
    """Detection of every proxy; what development may look at."""
    inside = energy_scores(energy, data.held_out)
    return {
        name: detection(inside, energy_scores(energy, images))
        for name, images in proxies(data.for_proxies).items()
    }
