"""The 1-D mixture of N(±0.5, 0.05²) (the paper's section 4), and the models of Figs. 1 to 3."""

import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..density import GridDensity, grid_density, kl, ood_share, region
from ..domains import Box
from ..energies import GaussianMixture, Reconstruction
from ..negative import Importance, Langevin, Replay, RiemannGrid
from ..randomness import generator
from ..types import Energy, NegativePhase
from .training import Recipe, Training

LINE = Box(-1.0, 1.0, shape=(1,))
LEFT, RIGHT = -0.5, 0.5
DATA = GaussianMixture(((LEFT,), (RIGHT,)), std=0.05)
CELLS = 2000


@dataclass(frozen=True)
class Config:
    """What Figs. 1, 2 and 3 train with."""

    width: int
    chains: int
    capacity: int
    nodes: int
    recipe: Recipe
    steps: int = 40
    """T, the length of a chain."""
    step_size: float = 1e-3
    noise_scale: float = 1e-4

    def langevin(self, noise_scale: float | None = None, proposal: Box = LINE) -> Langevin:
        """SRLMC from ``proposal``."""
        return Langevin(
            proposal, self.chains, self.steps, self.step_size, noise_scale or self.noise_scale
        )

    def phases(self) -> dict[str, NegativePhase[Any]]:
        """The rows of Fig. 1."""
        return {
            "srlmc": self.langevin(),
            "replay": Replay(self.langevin(), capacity=self.capacity, refresh=0.05),
            "importance": Importance(LINE, self.nodes),
            "riemann": RiemannGrid(LINE, self.nodes),
        }


PAPER = Config(
    width=512,
    chains=1000,
    capacity=50_000,
    nodes=1000,
    recipe=Recipe("sgd", 0.01, steps=5000, batch_size=1000),
)
FAST = Config(
    width=128,
    chains=500,
    capacity=25_000,
    nodes=500,
    recipe=Recipe("sgd", 0.01, steps=3000, batch_size=500),
)
SMOKE = Config(
    width=16,
    chains=50,
    capacity=200,
    nodes=50,
    recipe=Recipe("sgd", 0.01, steps=5, batch_size=50),
    steps=3,
)


def learn(
    name: str,
    phase: NegativePhase[Any],
    config: Config,
    folder: Path,
    seed: int,
    module: nn.Module | None = None,
) -> Training:
    """A trained reconstruction energy; not trained again where ``folder`` has it already.

    It starts at ``module`` where one is given.
    """
    if module is None:
        torch.manual_seed(seed)
        module = Reconstruction(1, width=config.width)
    where = folder / f"{name}-{seed}"
    return Training(f"{name}-{seed}", module, phase, DATA, config.recipe, where, seed).finish()


def tilted_start(config: Config, folder: Path, seed: int) -> nn.Module:
    """A good model of data of which 97 % lie on the right: log q peaks about 5 higher there."""
    torch.manual_seed(seed)
    training = Training(
        f"tilted-start-{seed}",
        Reconstruction(1, width=config.width),
        config.phases()["importance"],
        GaussianMixture(((LEFT,), (RIGHT,)), 0.05, (0.03, 0.97)),
        replace(config.recipe, steps=max(1, config.recipe.steps // 2)),
        folder / f"tilted-start-{seed}",
        seed,
    ).finish()
    module = copy.deepcopy(training.state.average.module)
    return module.train().requires_grad_()


def truth() -> GridDensity:
    """The mixture on the grid."""
    return grid_density(DATA, LINE, CELLS, torch.float64)


class Measured(NamedTuple):
    """How well a model has learned the mixture, and how well its samples hide that."""

    kl: float
    mass_left: float
    ood_share: float
    samples_to_p: float
    """Wasserstein distance between SRLMC samples and p."""
    barrier: float
    """Where the energy between the modes is highest: the basins of attraction meet there."""
    tilt: float
    """How much higher log q peaks on one side than on the other."""
    shoulder: float
    """How far log q has fallen from its peak where the OOD region is densest.

    OOD points pass the lower mode, and so half of the data, once the tilt exceeds this.
    """


def measure(energy: Energy, samples: Tensor) -> tuple[GridDensity, Measured]:
    """The model's density on the grid, and its figures."""
    p, q = truth(), grid_density(energy, LINE, CELLS)
    x = q.x.flatten()
    between = (x > LEFT) & (x < RIGHT)
    barrier = x[between][q.log_q[between].argmin()].item()
    peak, ood = q.log_q.max(), q.log_q[~in_distribution(p)]
    tilt = q.log_q[x < 0].max() - q.log_q[x > 0].max()
    return q, Measured(
        kl=kl(p, q),
        mass_left=q.mass[x < 0].sum().item(),
        ood_share=ood_share(p, q),
        samples_to_p=wasserstein(samples),
        barrier=barrier,
        tilt=tilt.abs().item(),
        shoulder=(peak - ood.max()).item(),
    )


def wasserstein(samples: Tensor) -> float:
    """W1 between samples and p: mean gap between their quantiles."""
    ordered = samples.flatten().double().sort().values
    at = (torch.arange(len(ordered), dtype=torch.float64) + 0.5) / len(ordered)
    p = truth()
    quantiles = p.x.flatten()[torch.searchsorted(p.mass.cumsum(0), at).clamp_max(CELLS - 1)]
    return (ordered - quantiles).abs().mean().item()


def sample(energy: Energy, sampler: Langevin, start: Tensor, seed: int) -> Tensor:
    """Ends of chains from ``start``."""
    return sampler.run(energy, start, generator(seed, "figure"))


def starts(proposal: Box, n: int, seed: int) -> Tensor:
    """Draws from q0."""
    return proposal.sample(n, generator(seed, "start"))


def in_distribution(p: GridDensity) -> Tensor:
    """Cells that hold 99.9 % of p; the rest is the OOD region."""
    return region(p, 0.999)
