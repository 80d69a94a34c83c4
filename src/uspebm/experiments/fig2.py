"""Fig. 2: what short-run Langevin does to the EBM of Fig. 1(a).

Left: chains from U(−1, 0) and from U(0, 1) end in the mode of their own side. Middle: chains on the
same EBM with several ρ (β varies, α is fixed): the larger ρ, the narrower the histogram. Right:
EBMs trained with several ρ: the larger ρ, the wider their modes, while their samples still match p.

Presets (two cores), beside Fig. 1's row (a), which is shared:
    PAPER  five values of ρ at the appendix's settings; an estimated two hours.
    FAST   three values of ρ; about 13 minutes per seed on one thread.
    SMOKE  seconds.
"""

import itertools
from pathlib import Path

import torch
from torch import Tensor

from ..domains import Box
from ..evaluation.grid_density import GridDensity
from ..recipes.paper import LINE
from ..recipes.plain import as_plain
from ..support.plots import COLOURS, SIDES_COLOURS, new_figure, save_figure, shades
from .claims import Claim, claim, save_results
from .two_modes import (
    FAST,
    LEFT,
    PAPER,
    RIGHT,
    SMOKE,
    LineSettings,
    chain_ends,
    chain_starts,
    line_fit,
    line_run,
    save_line_truth,
    true_line,
)

__all__ = ["FAST", "PAPER", "SMOKE", "run"]

HALVES = {"left": Box(-1.0, 0.0, (1,)), "right": Box(0.0, 1.0, (1,))}


def rhos(config: LineSettings) -> tuple[float, ...]:
    """The values of ρ; the middle one is Fig. 1's."""
    return (1.0, 5.0, 10.0, 20.0, 50.0) if config == PAPER else (2.0, 10.0, 50.0)


def run(out: Path, config: LineSettings, seeds: int) -> list[Claim]:
    """Measure the three panels for every seed, draw the first."""
    own_side: list[float] = []
    spreads: list[list[float]] = []
    widths: list[list[float]] = []
    matching: list[float] = []
    save_line_truth(out)
    for seed in range(seeds):
        recipe = config.recipe("srlmc", config.sampler)
        energy = line_run(recipe, out.parent / "fig1" / "runs", seed).energy
        ends = {
            side: chain_ends(energy, config.sampler, chain_starts(q0, 10_000, seed), seed)
            for side, q0 in HALVES.items()
        }
        own_side.append(_stay(ends))
        histograms, densities, distances = {}, {}, []
        start = chain_starts(LINE, 10_000, seed)
        for rho in rhos(config):
            sampler = config.at_rho(rho)
            histograms[rho] = chain_ends(energy, sampler, start, seed)
            model = line_run(config.recipe(f"rho-{rho:g}", sampler), out / "runs", seed).energy
            densities[rho], fit = line_fit(model, chain_ends(model, sampler, start, seed))
            distances.append(fit.samples_to_p)
        matching.append(max(distances))
        spreads.append([_spread(h) for h in histograms.values()])
        widths.append([_width(q) for q in densities.values()])
        if seed == 0:
            _draw(out / "fig2", ends, histograms, densities)
    claims = [
        claim("share that ends in the mode of its own side", "mostly", own_side, lambda v: v > 0.9),
        claim(
            "spread of samples falls as ρ grows (share of seeds)",
            "yes",
            [_falls(values) for values in spreads],
            lambda v: v == 1.0,
        ),
        claim(
            "trained modes widen as ρ grows (share of seeds)",
            "yes",
            [_falls(values[::-1]) for values in widths],
            lambda v: v == 1.0,
        ),
        claim("samples to p, the worst ρ (Wasserstein)", "equal", matching, lambda v: v <= 0.05),
    ]
    save_results(
        out / "results.json",
        claims,
        rhos=rhos(config),
        spreads=spreads,
        widths=widths,
        config=as_plain(config),
    )
    return claims


def _stay(ends: dict[str, Tensor]) -> float:
    left, right = (ends["left"] < 0).double().mean(), (ends["right"] > 0).double().mean()
    return 0.5 * (left + right).item()


def _spread(samples: Tensor) -> float:
    """Width of the histogram around the nearer mode: median distance."""
    x = samples.flatten()
    return torch.minimum((x - LEFT).abs(), (x - RIGHT).abs()).median().item()


def _width(q: GridDensity) -> float:
    """Standard deviation of q around the higher of its modes, within its side."""
    x = q.x.flatten().double()
    side = (x < 0) == (x[q.log_q.argmax()] < 0)
    mass = q.mass[side] / q.mass[side].sum()
    mean = (mass * x[side]).sum()
    return (mass * (x[side] - mean).square()).sum().sqrt().item()


def _falls(values: list[float]) -> float:
    """1 where the values fall all the way, else 0."""
    return float(all(a > b for a, b in itertools.pairwise(values)))


def _draw(
    stem: Path,
    ends: dict[str, Tensor],
    histograms: dict[float, Tensor],
    densities: dict[float, GridDensity],
) -> None:
    figure, panels = new_figure(columns=3)
    for (side, samples), colour in zip(ends.items(), SIDES_COLOURS, strict=True):
        panels[0].hist(samples.flatten().numpy(), bins=200, range=(-1, 1), density=True,
                       alpha=0.6, color=colour, label=f"from the {side}")  # fmt: skip
    darker = shades(len(histograms))
    for (rho, samples), shade in zip(histograms.items(), darker, strict=True):
        panels[1].hist(samples.flatten().numpy(), bins=200, range=(-1, 1), density=True,
                       histtype="step", color=shade, label=f"ρ = {rho:g}")  # fmt: skip
    p = true_line()
    panels[2].plot(p.x.flatten(), p.log_q.exp(), color=COLOURS["data"], label="p")
    for (rho, q), shade in zip(densities.items(), darker, strict=True):
        panels[2].plot(q.x.flatten(), q.log_q.exp(), color=shade, label=f"q, ρ = {rho:g}")
    titles = ("chains stay on their side", "same EBM, several ρ", "EBMs trained with several ρ")
    for panel, title in zip(panels, titles, strict=True):
        panel.set_title(title, fontsize=9)
        panel.legend(loc="upper right", fontsize=6)
        panel.tick_params(labelsize=6)
    save_figure(figure, stem)
