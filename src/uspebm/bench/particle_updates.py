"""PS-USP updates against straightforward ones, at the settings of the paper's experiments."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from ..domains import Box
from ..energies import MLP, GaussianMixture
from ..negative import Particles, PersistentUSP
from ..recipes.paper import FASHION_PS_USP, MIXTURE_PS_USP, MODES, PLANE
from ..support.randomness import generator
from ..training.engine import available, energy_on, workspace_on
from . import straightforward
from .cases import paper_network, synthetic_images
from .timing import Timing, race


@dataclass(frozen=True)
class UpdateCase:
    """One PS-USP update: its settings, its network, and the points that it moves."""

    phase: PersistentUSP
    module: nn.Module
    points: Tensor


def image_update(
    n: int = 10_000, rounds: int = 20, active: int = 125, side: int | None = None
) -> UpdateCase:
    """PS-USP on images: every other point is checked. Images of another side get an MLP."""
    phase = replace(
        FASHION_PS_USP, particles=n, rounds=rounds, active=active, nodes=min(n, max(625, active))
    )
    if side is None:
        return UpdateCase(phase, paper_network(), synthetic_images(n))
    torch.manual_seed(0)
    box = Box(-1.0, 1.0, shape=(1, side, side))
    phase = replace(phase, domain=box, spacing=FASHION_PS_USP.spacing * side / 28)
    return UpdateCase(phase, MLP(box.shape, width=128), synthetic_images(n, side))


def plane_update() -> UpdateCase:
    """PS-USP on the 2-D mixture, with the paper's network, points spread as after training."""
    torch.manual_seed(0)
    points = GaussianMixture(MODES, 0.3).sample(MIXTURE_PS_USP.particles, generator(0))
    return UpdateCase(MIXTURE_PS_USP, MLP(2), PLANE.project(points))


def race_updates(
    cases: dict[str, UpdateCase], repeats: int, rival: bool = False
) -> dict[str, Timing]:
    """Updates of each case in turns, a new Λ each time; a rival gets the same ones."""
    contestants: dict[str, Callable[[], object]] = {}
    for name, case in cases.items():
        contestants[name] = _update(case)
        if rival:
            contestants["straightforward"] = _straightforward_update(case)
    return race(contestants, repeats)


def _update(case: UpdateCase) -> Callable[[], object]:
    step, draws = stepper(case), _generators()
    state = Particles(case.points.clone())
    return lambda: step(state, next(draws))


def stepper(case: UpdateCase) -> Callable[[Particles, torch.Generator], object]:
    """The phase's step as the trainer would take it, with one workspace for all updates."""
    engine = available("native", case.module, case.phase)
    energy, workspace = energy_on(engine, case.module), workspace_on(engine)
    return lambda state, draws: case.phase.step(energy, state, draws, workspace)


def _straightforward_update(case: UpdateCase) -> Callable[[], object]:
    plain, points = straightforward.plain_copy(case.module), case.points.clone()
    draws = _generators()
    return lambda: straightforward.ps_usp(plain, points, case.phase, next(draws))


def _generators() -> Iterator[torch.Generator]:
    return (generator(0, "update", k) for k in itertools.count())
