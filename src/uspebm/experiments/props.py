"""Propositions 1 to 3, measured.

Prop. 1: the norm of a vector with i.i.d. components concentrates as d grows; with it, uniform
importance sampling collapses (its effective sample size falls to one). Prop. 2: long decoupled
Langevin chains sample q^ρ. Prop. 3: trained with such chains, a model tends to q ∝ p^(1/ρ).

Presets (two cores):
    PAPER  as FAST: the paper proves these and runs nothing.
    FAST   about three minutes per seed on one thread.
    SMOKE  seconds.
"""

import math
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ..domains import Box
from ..energies import Gaussian, GaussianMixture
from ..energies.rules import MLPRule
from ..evaluation.grid_density import grid_density, region
from ..negative import Importance, Langevin
from ..objective import effective_sample_size
from ..recipes import Recipe, Schedule, train
from ..recipes.plain import as_plain
from ..support.plots import COLOURS, SIDES_COLOURS, new_figure, save_figure, shades
from ..support.randomness import generator
from .claims import Claim, claim, save_results
from .run_folders import drop_checkpoints


@dataclass(frozen=True)
class PropsSettings:
    """How many draws, dimensions and updates the three are measured with."""

    dimensions: tuple[int, ...]
    vectors: int
    nodes: int
    chains: int
    steps: int
    rhos: tuple[float, ...]
    schedule: Schedule
    training_steps: int
    """Length of the chains in Prop. 3: long enough to forget where they start."""


FAST = PropsSettings(
    dimensions=(1, 2, 5, 10, 20, 50, 100, 200, 784),
    vectors=5_000,
    nodes=20_000,
    chains=20_000,
    steps=1500,
    rhos=(0.5, 1.0, 2.0, 5.0),
    schedule=Schedule(250, batch_size=1000, learning_rate=3e-3, average_decay=0.95, cooling=0.5),
    training_steps=100,
)
PAPER = FAST
SMOKE = PropsSettings(
    dimensions=(1, 10, 100),
    vectors=500,
    nodes=1_000,
    chains=500,
    steps=20,
    rhos=(1.0, 2.0),
    schedule=Schedule(updates=5, batch_size=50, learning_rate=3e-3),
    training_steps=5,
)

WIDTH = 0.1
"""The ε of Prop. 1."""
LOPSIDED = GaussianMixture(((-0.5,), (0.4,)), std=0.35, weights=(0.3, 0.7))
WIDE_LINE = Box(-3.0, 3.0, shape=(1,))
WIDE_CELLS = 1200
BETA = 0.02
"""Noise scale of Prop. 2's chains."""
NARROW = Gaussian((0.0,), 0.3)
"""What Prop. 3 learns."""


def run(out: Path, config: PropsSettings, seeds: int) -> list[Claim]:
    """Measure all three for every seed, draw the first."""
    claims: list[Claim] = []
    shells = [norms(config, seed) for seed in range(seeds)]
    sizes = [importance_sizes(config, seed) for seed in range(seeds)]
    largest = config.dimensions[-1]
    for law in ("uniform", "gaussian"):
        values = [shell[law][-1] for shell in shells]
        name = f"Prop. 1: share of ‖X‖ within 10 %, {law}, d = {largest}"
        claims.append(claim(name, "tends to 1", values, lambda v: v > 0.98))
    claims.append(
        claim(
            f"Prop. 1: effective share of uniform nodes, d = {largest}",
            "inaccurate",
            [size[-1] / config.nodes for size in sizes],
            lambda v: v < 0.01,
        )
    )
    for rho in config.rhos:
        allowed = 1.63 / math.sqrt(config.chains)  # the 99 % quantile of the KS distance
        claims += [
            claim(
                f"Prop. 2: KS distance of chains to their exact law, ρ = {rho:g}",
                f"none (99 % quantile {allowed:.4f})",
                [chains_to_law(rho, config, seed) for seed in range(seeds)],
                lambda v, allowed=allowed: v < allowed,  # type: ignore[misc]
            ),
            claim(
                f"Prop. 2: KS distance of that law to q^ρ, step a quarter / whole, ρ = {rho:g}",
                "converges",
                [law_to_power(rho, rho, BETA / 4, config) / law_to_power(rho, rho, BETA, config)],
                lambda v: v < 0.5,
            ),
            claim(
                f"Prop. 2: KS distance of that law to q^ρ over that to q^2ρ, ρ = {rho:g}",
                "q^ρ and no other power",
                [law_to_power(rho, rho, BETA, config) / law_to_power(rho, 2 * rho, BETA, config)],
                lambda v: v < 0.5,
            ),
        ]
    exponents: dict[float, float] = {}
    for rho in config.rhos:
        values = [learned_exponent(rho, config, out, seed) for seed in range(seeds)]
        exponents[rho] = values[0]
        claims.append(
            claim(
                f"Prop. 3: fitted exponent times ρ, ρ = {rho:g}",
                "q ∝ p^(1/ρ)",
                [value * rho for value in values],
                lambda v: abs(v - 1) < 0.1,
            )
        )
    _draw(out / "props", config, shells[0], sizes[0], exponents)
    save_results(out / "results.json", claims, exponents=exponents, config=as_plain(config))
    drop_checkpoints(out)
    return claims


def norms(config: PropsSettings, seed: int) -> dict[str, list[float]]:
    """Prop. 1: per dimension, the share of vectors whose norm is within 10 % of its limit."""
    laws = {"uniform": 1 / 3, "gaussian": 1.0}  # mean square of a component
    shares: dict[str, list[float]] = {law: [] for law in laws}
    for d in config.dimensions:
        draws = generator(seed, "norms", d)
        for law, square in laws.items():
            x = (
                Box(-1.0, 1.0, (d,)).sample(config.vectors, draws)
                if law == "uniform"
                else torch.randn(config.vectors, d, generator=draws)
            )
            ratio = x.norm(dim=1) / math.sqrt(d * square)
            shares[law].append(((ratio - 1).abs() < WIDTH).double().mean().item())
    return shares


def importance_sizes(config: PropsSettings, seed: int) -> list[float]:
    """Effective number of uniform nodes for a Gaussian of width 0.3 in [−1, 1]^d."""
    sizes = []
    for d in config.dimensions:
        phase = Importance(Box(-1.0, 1.0, (d,)), min(config.nodes, 10_000_000 // d))
        draws = generator(seed, "importance", d)
        nodes, *_ = phase.step(Gaussian((0.0,) * d, 0.3), phase.init(draws), draws)
        sizes.append(effective_sample_size(nodes.log_weight))
    return sizes


def chains_to_law(rho: float, config: PropsSettings, seed: int) -> float:
    """Prop. 2: KS distance of the ends of long decoupled chains to their exact law."""
    sampler = Langevin(WIDE_LINE, config.chains, config.steps, rho * BETA, BETA)
    start = sampler.start(config.chains, generator(seed, "start"), torch.float64)
    x = sampler.run(LOPSIDED, start, generator(seed, "chains", str(rho))).flatten()
    right_edges = (
        WIDE_LINE.grid(WIDE_CELLS, torch.float64).flatten() + WIDE_LINE.volume / WIDE_CELLS / 2
    )
    empirical = torch.searchsorted(x.sort().values, right_edges).double() / len(x)
    law = chain_law(rho, BETA, config).cumsum(0)
    return (empirical - law).abs().max().item()


def law_to_power(rho: float, power: float, beta: float, config: PropsSettings) -> float:
    """Prop. 2: KS distance of the chains' law, with α = ρβ, to q to the ``power``."""
    target = torch.softmax(-power * LOPSIDED(WIDE_LINE.grid(WIDE_CELLS, torch.float64)), 0)
    return (chain_law(rho, beta, config).cumsum(0) - target.cumsum(0)).abs().max().item()


def chain_law(rho: float, beta: float, config: PropsSettings) -> Tensor:
    """The law of chains on a grid, by their transition kernel: exact up to the grid.

    A smaller step gets as many more of them.
    """
    grid = WIDE_LINE.grid(WIDE_CELLS, torch.float64)
    points = grid.flatten()
    drift = points - 0.5 * rho * beta * _gradient(grid).flatten()
    kernel = torch.exp(-((points.unsqueeze(1) - drift) ** 2) / (2 * beta))
    steps = round(config.steps * BETA / beta)
    kernel = torch.linalg.matrix_power(kernel / kernel.sum(0), steps)
    law: Tensor = kernel.mean(1)
    return law


def _gradient(x: Tensor) -> Tensor:
    x = x.clone().requires_grad_()
    gradient: Tensor
    (gradient,) = torch.autograd.grad(LOPSIDED(x).sum(), x)
    return gradient


def learned_exponent(rho: float, config: PropsSettings, out: Path, seed: int) -> float:
    """Prop. 3: slope of log q against log p, after training with convergent chains."""
    beta = 0.01  # the chain forgets at a rate of β / 2σ² per step, whatever ρ is
    domain = Box(-1.5, 1.5, (1,))
    sampler = Langevin(domain, 1000, config.training_steps, rho * beta, beta, domain)
    recipe = Recipe(f"prop3-{rho:g}", MLPRule(width=64), sampler, config.schedule)
    trained = train(recipe, NARROW, out / f"{recipe.name}-{seed}", seed)
    p, q = grid_density(NARROW, domain, 1000), grid_density(trained.energy, domain, 1000)
    inside = region(p, 0.99)
    weight = p.mass[inside] / p.mass[inside].sum()
    log_p, log_q = p.log_q[inside], q.log_q[inside]
    log_p = log_p - (weight * log_p).sum()
    slope: float = ((weight * log_p * log_q).sum() / (weight * log_p * log_p).sum()).item()
    return slope


def _draw(
    stem: Path,
    config: PropsSettings,
    shells: dict[str, list[float]],
    sizes: list[float],
    exponents: dict[float, float],
) -> None:
    figure, panels = new_figure(columns=4)
    for law, colour in zip(("uniform", "gaussian"), SIDES_COLOURS, strict=True):
        panels[0].semilogx(config.dimensions, shells[law], marker="o", color=colour, label=law)
    panels[0].set_title("Prop. 1: share of ‖X‖ within 10 % of its limit", fontsize=8)
    panels[0].set_xlabel("d")
    panels[0].legend(loc="upper right", fontsize=6)
    panels[1].loglog(config.dimensions, sizes, marker="o", color=COLOURS["importance"])
    panels[1].set_title("effective number of uniform nodes", fontsize=8)
    panels[1].set_xlabel("d")
    x = WIDE_LINE.grid(WIDE_CELLS, torch.float64)
    for rho, shade in zip(config.rhos, shades(len(config.rhos)), strict=True):
        power, law_of = torch.softmax(-rho * LOPSIDED(x), 0), chain_law(rho, BETA, config)
        panels[2].plot(
            x.flatten(), law_of * WIDE_CELLS / WIDE_LINE.volume, color=shade, label=f"ρ = {rho:g}"
        )
        panels[2].plot(
            x.flatten(), power * WIDE_CELLS / WIDE_LINE.volume, ":", color=COLOURS["data"]
        )
    panels[2].set_title("Prop. 2: law of chains (dotted: q^ρ)", fontsize=8)
    panels[2].set_xlabel("x")
    panels[2].legend(loc="upper right", fontsize=6)
    grid = torch.linspace(min(config.rhos), max(config.rhos), 100)
    panels[3].plot(grid, 1 / grid, color=COLOURS["data"], label="1/ρ")
    panels[3].plot(list(exponents), list(exponents.values()), "o", color=COLOURS["srlmc"],
                   label="fitted")  # fmt: skip
    panels[3].set_title("Prop. 3: exponent of p in q", fontsize=8)
    panels[3].set_xlabel("ρ")
    panels[3].legend(loc="upper right", fontsize=6)
    for panel in panels:
        panel.tick_params(labelsize=6)
    save_figure(figure, stem)
