"""The 1-D mixture of N(±0.5, 0.05²) (the paper's section 4), and the models of Figs. 1 to 3."""

import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..domains import Box
from ..energies import GaussianMixture
from ..energies.rules import GivenEnergy, ReconstructionRule
from ..evaluation.grid_density import GridDensity, grid_density, kl, ood_share, region
from ..negative import Importance, Interpolated, Langevin, Replay, RiemannGrid
from ..recipes import Recipe, Run, Schedule, train
from ..recipes.frames import density_frame, write_frame
from ..recipes.paper import LINE, line_recipe
from ..report.run_page import TRUTH
from ..support.randomness import generator
from ..types import Energy, NegativePhase

LEFT, RIGHT = -0.5, 0.5
TWO_MODES = GaussianMixture(((LEFT,), (RIGHT,)), std=0.05)
LOPSIDED_MODES = GaussianMixture(((LEFT,), (RIGHT,)), 0.05, (0.03, 0.97))
LINE_CELLS = 2000
LINE_SRLMC = Langevin(LINE, chains=1000, steps=40, step_size=1e-3, noise_scale=1e-4)

WATCHED_ROWS = ("srlmc", "replay")
"""Rows of Fig. 1 that are looked at while they train (:mod:`.over_updates`)."""
SNAPSHOTS_KEPT = 50
"""Of each of these."""
AROUND_LINE = Box(-1.5, 1.5, shape=(1,))
"""Where nearly all chains stay: a run's noise takes them 0.06 away (0.2 at ρ = 1), and energies
draw them back."""


@dataclass(frozen=True)
class LineSettings:
    """What Figs. 1, 2 and 3 train with; left out, it is the appendix's."""

    sampler: Langevin = LINE_SRLMC
    capacity: int = 50_000
    nodes: int = 1000
    width: int = 512
    schedule: Schedule = line_recipe("srlmc", LINE_SRLMC).schedule
    slope_cells: int | None = None
    """Of the line around, in whose middles alone chains ask the network while training; None: they
    ask wherever they are."""

    def at_rho(self, rho: float) -> Langevin:
        """SRLMC with a noise scale of α / ρ."""
        return replace(self.sampler, noise_scale=self.sampler.step_size / rho)

    def phases(self) -> dict[str, NegativePhase[Any]]:
        """The rows of Fig. 1."""
        return {
            "srlmc": self.sampler,
            "replay": Replay(self.sampler, capacity=self.capacity, refresh=0.05),
            "importance": Importance(LINE, self.nodes),
            "riemann": RiemannGrid(LINE, self.nodes),
        }

    def recipe(self, name: str, phase: NegativePhase[Any]) -> Recipe:
        """The appendix's, with a network of this width and for so long."""
        energy, schedule = ReconstructionRule(self.width), self.schedule
        if name in WATCHED_ROWS:
            schedule = replace(schedule, snapshot_every=max(1, schedule.updates // SNAPSHOTS_KEPT))
        if self.slope_cells is not None and isinstance(phase, Langevin | Replay):
            phase = Interpolated(phase, AROUND_LINE, self.slope_cells)
        return replace(line_recipe(name, phase), energy=energy, schedule=schedule)


PAPER = LineSettings(slope_cells=1000)  # a tenth of the work: LOG.md says what that changes
FAST = LineSettings(
    sampler=replace(LINE_SRLMC, chains=500),
    capacity=25_000,
    nodes=500,
    width=128,
    schedule=replace(PAPER.schedule, updates=3000, batch_size=500),
)
SMOKE = LineSettings(
    slope_cells=40,
    sampler=replace(LINE_SRLMC, chains=50, steps=3),
    capacity=200,
    nodes=50,
    width=16,
    schedule=replace(PAPER.schedule, updates=5, batch_size=50),
)


def line_run(recipe: Recipe, folder: Path, seed: int) -> Run:
    """Trained on the mixture; not trained again where ``folder`` has it already."""
    return train(recipe, TWO_MODES, folder / f"{recipe.name}-{seed}", seed)


def tilted_start(config: LineSettings, folder: Path, seed: int) -> GivenEnergy:
    """A good model of data of which 97 % lie on the right: log q peaks about 5 higher there."""
    recipe = config.recipe("tilted-start", config.phases()["importance"])
    half = replace(config.schedule, updates=max(1, config.schedule.updates // 2))
    where = folder / f"{recipe.name}-{seed}"
    trained = train(replace(recipe, schedule=half), LOPSIDED_MODES, where, seed)
    return GivenEnergy(copy.deepcopy(trained.energy).requires_grad_())


def save_line_truth(out: Path) -> None:
    """The mixture's density, for reports on runs below ``out``."""
    write_frame(density_frame(TWO_MODES, LINE), out / TRUTH)


def true_line() -> GridDensity:
    """The mixture on the grid."""
    return grid_density(TWO_MODES, LINE, LINE_CELLS, torch.float64)


class LineFit(NamedTuple):
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


def line_fit(energy: Energy, samples: Tensor) -> tuple[GridDensity, LineFit]:
    """The model's density on the grid, and its figures."""
    p, q = true_line(), grid_density(energy, LINE, LINE_CELLS)
    x = q.x.flatten()
    between = (x > LEFT) & (x < RIGHT)
    barrier = x[between][q.log_q[between].argmin()].item()
    lean = line_lean(q)
    return q, LineFit(
        kl=kl(p, q),
        mass_left=q.mass[x < 0].sum().item(),
        ood_share=lean.ood_share,
        samples_to_p=wasserstein(samples),
        barrier=barrier,
        tilt=lean.tilt,
        shoulder=lean.shoulder,
    )


class LineLean(NamedTuple):
    """Of :class:`LineFit`, what tells whether OOD points pass half of the data."""

    tilt: float
    shoulder: float
    ood_share: float


def line_lean(q: GridDensity) -> LineLean:
    """How far a density on the grid leans to one side."""
    p, x = true_line(), q.x.flatten()
    peak, ood = q.log_q.max(), q.log_q[~in_distribution(p)]
    tilt = q.log_q[x < 0].max() - q.log_q[x > 0].max()
    return LineLean(tilt.abs().item(), (peak - ood.max()).item(), ood_share(p, q))


def wasserstein(samples: Tensor) -> float:
    """W1 between samples and p: mean gap between their quantiles."""
    ordered = samples.flatten().double().sort().values
    at = (torch.arange(len(ordered), dtype=torch.float64) + 0.5) / len(ordered)
    p = true_line()
    quantiles = p.x.flatten()[torch.searchsorted(p.mass.cumsum(0), at).clamp_max(LINE_CELLS - 1)]
    return (ordered - quantiles).abs().mean().item()


def chain_ends(energy: Energy, sampler: Langevin, start: Tensor, seed: int) -> Tensor:
    """Ends of chains from ``start``."""
    return sampler.run(energy, start, generator(seed, "figure"))


def chain_starts(proposal: Box, n: int, seed: int) -> Tensor:
    """Draws from q0."""
    return proposal.sample(n, generator(seed, "start"))


def in_distribution(p: GridDensity) -> Tensor:
    """Cells that hold 99.9 % of p; the rest is the OOD region."""
    return region(p, 0.999)
