"""Fig. 4: SRLMC and PS-USP on a 2-D mixture of six Gaussians, started in the rightmost one.

(a) the mixture; (b) SRLMC with a replay buffer: wrong mass per mode, blurred, and some OOD regions
denser than the rightmost mode; (c) PS-USP: the mixture, and partition points spread evenly over
its support. Beyond the paper: without the others Γ, the active points collapse onto the rest.

Presets (two cores):
    PAPER  the appendix's settings (width 512, n = 5,000, |Λ| = 1,000, ε = 0.05, N = 50, SGD 1e-3),
           4,000 updates of each model: PS-USP 52 and SRLMC 85 minutes of a core. The paper trains
           "until convergence", from which plain SGD is far by then: hence KL over the updates.
    FAST   width 128, n = 2,500, ε = 0.07, N = 20, Adam with a learning rate that falls to zero:
           about two and a half minutes per seed.
    SMOKE  a few updates of a small network: seconds.
    DEMO   what ``uspebm demo`` trains, in a minute and a half: width 128, n = 2,000, ε = 0.08,
           N = 20, Adam with averaged weights. SRLMC has a learning rate of its own, the best of
           those tried for it: at PS-USP's it does worse.
"""

import json
import statistics
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..energies.rules import MLPRule
from ..evaluation.grid_density import GridDensity
from ..negative import Particles, PersistentUSP, Replay
from ..recipes import Recipe, Run, Schedule, train
from ..recipes.paper import MIXTURE_PS_USP, MIXTURE_SRLMC, mixture_recipe
from ..recipes.plain import as_plain
from ..support.files import whole_file
from ..support.plots import COLOURS, density_panel, new_figure, points_panel, save_figure
from ..support.randomness import generator
from ..training import save_snapshot
from ..types import Energy
from .claims import Claim, claim, save_results
from .mixture import (
    MIXTURE,
    MixtureFit,
    denser_than_rightmost,
    evenness,
    kl_over_updates,
    mixture_fit,
    plane_extent,
    save_truth,
    true_mixture,
)
from .run_folders import drop_checkpoints, drop_run, unfinished


@dataclass(frozen=True)
class Fig4Settings:
    """The two models."""

    ps_usp: Recipe
    srlmc: Recipe

    @property
    def recipes(self) -> tuple[Recipe, Recipe]:
        """Both of them."""
        return self.ps_usp, self.srlmc

    @property
    def partition(self) -> PersistentUSP:
        """PS-USP's points."""
        assert isinstance(self.ps_usp.phase, PersistentUSP)
        return self.ps_usp.phase

    def with_updates(self, updates: int) -> "Fig4Settings":
        """The same for longer, or less long."""
        return Fig4Settings(
            *(replace(r, schedule=replace(r.schedule, updates=updates)) for r in self.recipes)
        )


PAPER = Fig4Settings(
    ps_usp=mixture_recipe("ps_usp", MIXTURE_PS_USP, updates=4000),
    srlmc=mixture_recipe("srlmc", MIXTURE_SRLMC, updates=4000),
)
FAST = Fig4Settings(
    ps_usp=replace(
        PAPER.ps_usp,
        energy=MLPRule(128),
        phase=replace(
            MIXTURE_PS_USP, particles=2500, active=625, spacing=0.07, nodes=2500, rounds=20
        ),
        schedule=Schedule(updates=1000, batch_size=1000, average_decay=0.98, cooling=0.5),
    ),
    srlmc=replace(
        PAPER.srlmc,
        energy=MLPRule(128),
        schedule=Schedule(500, batch_size=1000, learning_rate=3e-4, average_decay=0.97),
    ),
)
SMOKE = Fig4Settings(
    ps_usp=replace(
        PAPER.ps_usp,
        energy=MLPRule(16),
        phase=replace(MIXTURE_PS_USP, particles=200, active=50, spacing=0.2, nodes=200, rounds=2),
        schedule=Schedule(updates=4, batch_size=50),
    ),
    srlmc=replace(
        PAPER.srlmc,
        energy=MLPRule(16),
        phase=Replay(replace(MIXTURE_SRLMC.sampler, chains=50, steps=2), capacity=100),
        schedule=Schedule(updates=4, batch_size=50, learning_rate=3e-4),
    ),
)
DEMO = Fig4Settings(
    ps_usp=replace(
        PAPER.ps_usp,
        energy=MLPRule(128),
        phase=replace(
            MIXTURE_PS_USP, particles=2000, active=500, spacing=0.08, nodes=2000, rounds=20
        ),
        schedule=Schedule(updates=500, batch_size=1000, average_decay=0.97),
    ),
    srlmc=FAST.srlmc,
)


def run(out: Path, config: Fig4Settings, seeds: int) -> list[Claim]:
    """Train both methods for every seed, measure, draw the first seed."""
    ps_usp: list[MixtureFit] = []
    srlmc: list[MixtureFit] = []
    brighter: list[float] = []
    even: list[dict[str, float]] = []
    collapsed: list[float] = []
    save_truth(out)
    for seed in range(seeds):
        ours, theirs = (_learned(recipe, out, f"-{seed}", seed) for recipe in config.recipes)
        ps_usp.append(ours.fit)
        srlmc.append(theirs.fit)
        even.append(evenness(ours.points, config.partition.spacing))
        collapsed.append(_without_others(ours.run.state.module, ours.points, config.partition))
        brighter.append(denser_than_rightmost(theirs.density))
        if seed == 0:
            _draw(out / "fig4", ours, theirs)
    claims = _claims(ps_usp, srlmc, brighter, even, collapsed)
    save_results(
        out / "results.json",
        claims,
        ps_usp=_mean(ps_usp),
        srlmc=_mean(srlmc),
        evenness=even,
        kl_over_updates={r.name: kl_over_updates(out / f"{r.name}-0") for r in config.recipes},
        config=as_plain(config),
    )
    drop_checkpoints(out)
    return claims


def demo(out: Path, updates: int, seed: int, fresh: bool = False) -> dict[str, MixtureFit]:
    """Train both as ``DEMO`` says, and write ``results.json``, ``metrics.jsonl`` and the picture.

    A run that was interrupted goes on where it stopped, unless ``fresh``. The trained models are
    kept as snapshots beside the figures, and of their runs what a report shows.
    """
    config = DEMO.with_updates(updates)
    settings = {"seed": seed, **as_plain(config)}
    _prepare(out, json.dumps(settings, indent=2), fresh)
    save_truth(out)
    both = [_learned(recipe, out, "", seed) for recipe in config.recipes]
    _draw(out / "demo", *both)
    with whole_file(out / "metrics.jsonl") as file:
        for learned in both:
            for row in learned.run.history:
                file.write(json.dumps({"method": learned.run.name, **row}).encode() + b"\n")
    fits = {learned.run.name: learned.fit for learned in both}
    results = {name: fit._asdict() for name, fit in fits.items()}
    with whole_file(out / "results.json") as file:
        file.write(json.dumps({**results, "config": settings}, indent=2).encode())
    drop_checkpoints(out)
    return fits


def _prepare(out: Path, settings: str, fresh: bool) -> None:
    """A folder that is empty, or holds a run of the same settings, or may be overwritten."""
    kept = out / "config.json"
    if kept.exists() and kept.read_text() != settings and not fresh:
        raise ValueError(
            f"{out} holds {'an unfinished' if unfinished(out) else 'a'} run with other settings: "
            "choose another --out, or overwrite it with --fresh"
        )
    if fresh or not unfinished(out):
        _drop_demo(out)
        with whole_file(kept) as file:
            file.write(settings.encode())


def _drop_demo(out: Path) -> None:
    """Remove the trainings of an earlier demo, and what came of them."""
    (out / "results.json").unlink(missing_ok=True)
    for recipe in DEMO.recipes:
        drop_run(out / recipe.name)


@dataclass(frozen=True)
class Learned:
    """A trained model of the mixture, and how good it is."""

    run: Run
    density: GridDensity
    fit: MixtureFit

    @property
    def points(self) -> Tensor:
        """Of PS-USP, the partition points."""
        points: Tensor = self.run.state.negative[0]
        return points


def _learned(recipe: Recipe, out: Path, suffix: str, seed: int) -> Learned:
    trained = train(recipe, MIXTURE, out / f"{recipe.name}{suffix}", seed)
    save_snapshot(trained.energy, out / f"{trained.name}.safetensors", weights="averaged")
    return Learned(trained, *mixture_fit(trained.energy, trained.seconds))


def _without_others(energy: Energy, points: Tensor, phase: PersistentUSP) -> float:
    """Median distance to the nearest point, over ε, after 30 updates of the points without Γ."""
    alone = replace(phase, others=0)
    state = Particles(points.clone())
    for k in range(30):
        _, state, _ = alone.step(energy, state, generator(k, "without others"))
    between = torch.cdist(state.points, state.points).fill_diagonal_(torch.inf).min(1).values
    return (between.median() / phase.spacing).item()


def _mean(measured: list[MixtureFit]) -> dict[str, Any]:
    n = len(measured)
    return {
        "kl": sum(m.kl for m in measured) / n,
        "mode_mass": [sum(m.mode_mass[k] for m in measured) / n for k in range(6)],
        "ood_share": sum(m.ood_share for m in measured) / n,
        "seconds": sum(m.seconds for m in measured) / n,
    }


def _claims(
    ps_usp: list[MixtureFit],
    srlmc: list[MixtureFit],
    brighter: list[float],
    even: list[dict[str, float]],
    collapsed: list[float],
) -> list[Claim]:
    def off(measured: list[MixtureFit]) -> list[float]:
        return [max(abs(mass - 1 / 6) for mass in m.mode_mass) for m in measured]

    kl_ps = sum(m.kl for m in ps_usp) / len(ps_usp)
    return [
        claim("PS-USP: KL(p‖q)", "accurately learned", [m.kl for m in ps_usp], lambda v: v <= 0.05),
        claim("SRLMC: KL(p‖q)", "wrong", [m.kl for m in srlmc], lambda v: v >= 10 * kl_ps),
        claim("PS-USP: worst mode mass − 1/6", "correct", off(ps_usp), lambda v: v <= 0.03),
        claim("SRLMC: worst mode mass − 1/6", "incorrect ratio", off(srlmc), lambda v: v > 0.1),
        claim(
            "PS-USP: OOD above median", "none", [m.ood_share for m in ps_usp], lambda v: v < 0.01
        ),
        claim("SRLMC: OOD above rightmost mode", "some regions", brighter, lambda v: v > 0.0),
        claim(
            "PS-USP: range of nearest distances / median (at random: 1.43)",
            "almost uniform",
            [e["unevenness"] for e in even],
            lambda v: v < 1.1,
        ),
        claim(
            "PS-USP: covering radius of p's 99 % / ε",
            "covers the support",
            [e["covering_radius_over_spacing"] for e in even],
            lambda v: v < 1.5,
        ),
        claim(
            "without Γ: nearest distance / ε",
            "collapse",
            collapsed,
            lambda v: v < 0.7 * statistics.fmean(e["nearest_over_spacing"] for e in even),
        ),
        claim(
            "PS-USP: share of points in p's 99 % region (thrown at random: 0.11)",
            "cover the support",
            [e["share_in_support"] for e in even],
            lambda v: v > 0.15,
        ),
    ]


def _draw(stem: Path, ours: Learned, theirs: Learned) -> None:
    figure, panels = new_figure(columns=4)
    p, extent = true_mixture(), plane_extent()
    peak = p.log_q.max().exp().item()
    for panel, density, title in (
        (panels[0], p, "(a) MoG density"),
        (panels[1], theirs.density, f"(b) SRLMC, KL {theirs.fit.kl:.2f}"),
        (panels[2], ours.density, f"(c) PS-USP, KL {ours.fit.kl:.3f}"),
    ):
        density_panel(panel, density.log_q.exp(), extent, peak, title)
    points_panel(panels[3], ours.points, extent, COLOURS["ps_usp"], "(c) PS-USP partition points")
    save_figure(figure, stem)
