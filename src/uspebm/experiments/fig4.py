"""Fig. 4: SRLMC and PS-USP on a 2-D mixture of six Gaussians, started in the rightmost one.

(a) the mixture; (b) SRLMC with a replay buffer: wrong mass per mode, blurred, and some OOD regions
denser than the rightmost mode; (c) PS-USP: the mixture, and partition points spread evenly over
its support. Beyond the paper: without the others Γ, the active points collapse onto the rest.

Presets (two cores):
    PAPER  the appendix's settings (width 512, n = 5,000, |Λ| = 1,000, ε = 0.05, N = 50, SGD 1e-3),
           4,000 updates of each model: an estimated 45 minutes for a seed. The paper trains "until
           convergence", which plain SGD does not reach in that time on a CPU.
    FAST   width 128, n = 2,500, ε = 0.07, N = 20, Adam with a learning rate that falls to zero:
           about two and a half minutes per seed.
    SMOKE  a few updates of a small network: seconds.
"""

import statistics
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..appendix import MIXTURE_PS_USP, MIXTURE_SRLMC, MODES, PLANE
from ..checkpoint import save_snapshot
from ..density import GridDensity, region
from ..energies import MLP
from ..negative import Particles, PersistentUSP, Replay
from ..plots import COLOURS, density_panel, new_figure, points_panel, save_figure
from ..randomness import generator
from ..types import Energy
from .claims import Claim, claim, save_results
from .mixture import MIXTURE, Measured, measure, truth
from .training import Recipe, Training, drop_checkpoints


@dataclass(frozen=True)
class Config:
    width: int
    ps_usp: PersistentUSP
    ps_usp_recipe: Recipe
    srlmc: Replay
    srlmc_recipe: Recipe


PAPER = Config(
    width=512,
    ps_usp=MIXTURE_PS_USP,
    ps_usp_recipe=Recipe("sgd", 1e-3, steps=4000, batch_size=1000),
    srlmc=MIXTURE_SRLMC,
    srlmc_recipe=Recipe("sgd", 1e-3, steps=4000, batch_size=1000),
)
FAST = Config(
    width=128,
    ps_usp=replace(MIXTURE_PS_USP, particles=2500, active=625, spacing=0.07, nodes=2500, rounds=20),
    ps_usp_recipe=Recipe("adam", 1e-3, steps=1000, batch_size=1000, average_decay=0.98, cool=0.5),
    srlmc=MIXTURE_SRLMC,
    srlmc_recipe=Recipe("adam", 3e-4, steps=500, batch_size=1000, average_decay=0.97),
)
SMOKE = Config(
    width=16,
    ps_usp=replace(MIXTURE_PS_USP, particles=200, active=50, spacing=0.2, nodes=200, rounds=2),
    ps_usp_recipe=Recipe("adam", 1e-3, steps=4, batch_size=50),
    srlmc=Replay(replace(MIXTURE_SRLMC.sampler, chains=50, steps=2), capacity=100),
    srlmc_recipe=Recipe("adam", 3e-4, steps=4, batch_size=50),
)


def run(out: Path, config: Config, seeds: int) -> list[Claim]:
    """Train both methods for every seed, measure, draw the first seed."""
    ps_usp: list[Measured] = []
    srlmc: list[Measured] = []
    brighter: list[float] = []
    even: list[dict[str, float]] = []
    collapsed: list[float] = []
    for seed in range(seeds):
        training = _train("ps_usp", config.ps_usp, config.ps_usp_recipe, config, out, seed)
        energy, points = training.state.average.module, training.state.negative[0]
        q, measured = measure(energy, training.seconds)
        ps_usp.append(measured)
        even.append(evenness(points, config.ps_usp.spacing))
        collapsed.append(_without_others(training.state.module, points, config.ps_usp))
        training = _train("srlmc", config.srlmc, config.srlmc_recipe, config, out, seed)
        wrong, measured = measure(training.state.average.module, training.seconds)
        srlmc.append(measured)
        brighter.append(_denser_than_rightmost(wrong))
        if seed == 0:
            _draw(out / "fig4", wrong, q, points, srlmc[0], ps_usp[0])
    claims = _claims(ps_usp, srlmc, brighter, even, collapsed)
    save_results(
        out / "results.json",
        claims,
        ps_usp=_mean(ps_usp),
        srlmc=_mean(srlmc),
        evenness=even,
        config=asdict(config),
    )
    drop_checkpoints(out)
    return claims


def _train(name: str, phase: Any, recipe: Recipe, config: Config, out: Path, seed: int) -> Training:
    torch.manual_seed(seed)
    module = MLP(2, width=config.width)
    folder = out / f"{name}-{seed}"
    training = Training(name, module, phase, MIXTURE, recipe, folder, seed).finish()
    save_snapshot(training.state.average.module, out / f"{name}-{seed}.safetensors")
    return training


def evenness(points: Tensor, spacing: float) -> dict[str, float]:
    """How evenly the points lie, and whether they cover the support of p.

    ``unevenness`` is the range from the 10 % to the 90 % quantile of nearest distances, over their
    median; for points thrown at random in the plane it is 1.43.
    """
    support = truth().x[region(truth(), 0.99)]
    between = torch.cdist(points, points).fill_diagonal_(torch.inf).min(1).values
    to_support = torch.cdist(support, points).min(1).values
    inside = torch.cdist(points, support).min(1).values < 4.0 / 200
    return {
        "nearest_over_spacing": (between.median() / spacing).item(),
        "unevenness": ((between.quantile(0.9) - between.quantile(0.1)) / between.median()).item(),
        "violating": (between < 0.99 * spacing).double().mean().item(),
        "covering_radius_over_spacing": (to_support.max() / spacing).item(),
        "share_in_support": inside.double().mean().item(),
    }


def _without_others(energy: Energy, points: Tensor, phase: PersistentUSP) -> float:
    """Median distance to the nearest point, over ε, after 30 updates of the points without Γ."""
    alone = replace(phase, others=0)
    state = Particles(points.clone())
    for k in range(30):
        _, state, _ = alone.step(energy, state, generator(k, "without others"))
    between = torch.cdist(state.points, state.points).fill_diagonal_(torch.inf).min(1).values
    return (between.median() / phase.spacing).item()


def _denser_than_rightmost(q: GridDensity) -> float:
    """Share of the OOD region where q exceeds its peak over the rightmost mode."""
    p = truth()
    right = (q.x - torch.tensor(MODES[0])).norm(dim=1) < 0.2
    outside = ~region(p, 0.999)
    return (q.log_q[outside] > q.log_q[right].max()).double().mean().item()


def _mean(measured: list[Measured]) -> dict[str, Any]:
    n = len(measured)
    return {
        "kl": sum(m.kl for m in measured) / n,
        "mode_mass": [sum(m.mode_mass[k] for m in measured) / n for k in range(6)],
        "ood_share": sum(m.ood_share for m in measured) / n,
        "seconds": sum(m.seconds for m in measured) / n,
    }


def _claims(
    ps_usp: list[Measured],
    srlmc: list[Measured],
    brighter: list[float],
    even: list[dict[str, float]],
    collapsed: list[float],
) -> list[Claim]:
    def off(measured: list[Measured]) -> list[float]:
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


def _draw(
    stem: Path, wrong: GridDensity, q: GridDensity, points: Tensor, srlmc: Measured, ours: Measured
) -> None:
    figure, panels = new_figure(columns=4)
    p = truth()
    peak = p.log_q.max().exp().item()
    density_panel(panels[0], p, PLANE, peak, "(a) MoG density")
    density_panel(panels[1], wrong, PLANE, peak, f"(b) SRLMC, KL {srlmc.kl:.2f}")
    density_panel(panels[2], q, PLANE, peak, f"(c) PS-USP, KL {ours.kl:.3f}")
    points_panel(panels[3], points, PLANE, COLOURS["ps_usp"], "(c) PS-USP partition points")
    save_figure(figure, stem)
