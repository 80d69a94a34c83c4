r"""The appendix of Kim & Ye (2022), exact, and what it leaves open named.

============================  ====================================================================
what the paper leaves open    what is taken here
============================  ====================================================================
step sizes of the two moves   in the plane 0.01 (ascent) and ε / 5; on images 1.0 and 0.5
\|Γ\|                         all other points
:math:`\Lambda`               once per update, as its list of steps has it; ``reading="text"``: in
                              every round, "at each iteration of USP"
the :math:`n_s` nodes         drawn uniformly from all ("choose n_s points")
repulsion                     no further than needed; ``repulsion="plain"`` is PGA as written
where points start            in the plane as the paper says; on images at training images
:math:`\Omega`                :math:`[-2, 2]^2`; images :math:`[-1, 1]^d`
how long                      "until convergence" (2-D); at most 50 epochs of 60,000 images, which
                              are 24,000 updates
============================  ====================================================================
"""

import math
from dataclasses import replace
from typing import Any, Literal

from ..domains import Box
from ..energies import Gaussian
from ..energies.rules import ConvRule, MLPRule, ReconstructionRule
from ..negative import Langevin, PersistentUSP, Replay
from ..types import NegativePhase
from .recipe import AtData, Recipe, Schedule

LINE = Box(-1.0, 1.0, shape=(1,))
PLANE = Box(-2.0, 2.0, shape=(2,))
MODES = tuple((math.cos(k * math.pi / 3), math.sin(k * math.pi / 3)) for k in range(6))
"""Centres of the six-mode mixture."""
RIGHTMOST = Gaussian(MODES[0], std=0.1)
MIXTURE_SRLMC = Replay(
    Langevin(RIGHTMOST, chains=1000, steps=40, step_size=1e-3, noise_scale=1e-4),
    capacity=50_000,
    refresh=0.05,
)
"""Chains that start where the partition points do."""
MIXTURE_PS_USP = PersistentUSP(
    domain=PLANE,
    particles=5000,
    spacing=0.05,
    proposal=RIGHTMOST,
    active=1000,
    nodes=5000,
    rounds=50,
)
IMAGES = Box(-1.0, 1.0, shape=(1, 28, 28))
EPOCHS_50 = 24_000
"""Updates in 50 epochs of 60,000 images."""
SNAPSHOT_EVERY = 60


def line_recipe(name: str, phase: NegativePhase[Any]) -> Recipe:
    """The 1-D mixture: a reconstruction energy, SGD at 0.01, 5,000 updates."""
    schedule = Schedule(updates=5000, batch_size=1000, optimizer="sgd", learning_rate=0.01)
    return Recipe(name, ReconstructionRule(width=512), phase, schedule)


def mixture_recipe(name: str, phase: NegativePhase[Any], updates: int) -> Recipe:
    """The 2-D mixture: an MLP, SGD at 0.001; how many updates "until convergence" are is ours."""
    schedule = Schedule(updates, batch_size=1000, optimizer="sgd", learning_rate=1e-3)
    return Recipe(name, MLPRule(width=512), phase, schedule)


def srlmc_recipe(shape: tuple[int, ...] = IMAGES.shape, updates: int = EPOCHS_50) -> Recipe:
    """SRLMC on images: chains of 20 steps, α = 2, β = 0.01, noise of 0.1 on the data.

    Chains and noise are kept in the domain, which the paper does not say: otherwise chains leave it
    and energies grow without end (to 1e14 within 450 updates).
    """
    domain = Box(-1.0, 1.0, shape)
    chains = Langevin(domain, 125, steps=20, step_size=2.0, noise_scale=0.01, domain=domain)
    phase = Replay(chains, capacity=50_000, refresh=0.05)
    schedule = Schedule(updates, batch_size=125, snapshot_every=5 * SNAPSHOT_EVERY)
    return Recipe("SRLMC", ConvRule(), phase, schedule, noise=0.1)


def ps_usp_recipe(
    shape: tuple[int, ...] = IMAGES.shape,
    particles: int = 10_000,
    updates: int = EPOCHS_50,
    reading: Literal["list", "text"] = "list",
) -> Recipe:
    """PS-USP on images: N = 100, ε = 10, |Λ| = 125, n_s = 625, Adam 1e-3.

    ``reading``: Λ is drawn once per update, by the paper's list of steps, or in every round, by its
    text. The two step sizes are what was found to work.
    """
    phase = PersistentUSP(
        domain=Box(-1.0, 1.0, shape),
        particles=particles,
        spacing=10.0,
        active=125,
        nodes=625,
        rounds=100,
        redraw="update" if reading == "list" else "round",
        choice="uniform",
        ascent_size=1.0,
        repulsion_size=0.5,
    )
    schedule = Schedule(updates, batch_size=125, snapshot_every=SNAPSHOT_EVERY)
    return Recipe(f"PS-USP by {reading}", ConvRule(), phase, schedule, start=AtData())


def _phase_of(recipe: Recipe, kind: type[Any]) -> Any:
    assert isinstance(recipe.phase, kind)
    return recipe.phase


FASHION_SRLMC: Replay = _phase_of(srlmc_recipe(), Replay)
FASHION_PS_USP: PersistentUSP = replace(_phase_of(ps_usp_recipe(), PersistentUSP), choice="active")
"""With the active points for nodes, as ours are: what the benchmark times."""
