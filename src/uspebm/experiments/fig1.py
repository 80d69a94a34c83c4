"""Fig. 1: three ways to solve maximum likelihood on a 1-D mixture.

(a) SRLMC from U(−1, 1); (b) SRLMC with a replay buffer; (c) self-normalised importance sampling, or
a Riemann sum. Columns: norm of the parameters' gradient over training; log-density on the data's
support and on OOD regions; densities and histograms; negative energy. The point: in (a) and (b) the
samples match p although the density does not; in (c) the density does. Densities and samples are
those of the averaged weights: plain SGD keeps swinging about its solution.

What there is to see depends on when one looks: a second figure has the tilt and the OOD share of
(a) and (b) over the updates, of raw and of averaged weights (:mod:`.over_updates`).

Beyond the paper, (a) is also trained from a tilted start, a model that puts 97 % on one side: which
of its many solutions SRLMC ends in depends on where it began.

Presets (two cores):
    PAPER  the appendix's settings: width 512, batch 1,000, 5,000 updates; chains see the
           gradient at 1,000 points and lines between (:mod:`uspebm.negative.interpolated`);
           about twenty minutes on a busy thread for each row by chains.
    FAST   width 128, batch 500, 3,000 updates; about twelve minutes per seed on one thread.
    SMOKE  seconds.
"""

from dataclasses import replace
from pathlib import Path

from torch import Tensor

from ..energies.gradient import energy_at
from ..evaluation.grid_density import GridDensity
from ..recipes import Run
from ..recipes.paper import LINE
from ..recipes.plain import as_plain
from ..support.plots import COLOURS, new_figure, save_figure
from .claims import Claim, claim, save_results
from .over_updates import Courses, course_claims, courses_of, draw_courses
from .two_modes import (
    FAST,
    PAPER,
    SMOKE,
    WATCHED_ROWS,
    LineFit,
    LineSettings,
    chain_ends,
    chain_starts,
    in_distribution,
    line_fit,
    line_run,
    save_line_truth,
    tilted_start,
    true_line,
)

__all__ = ["FAST", "PAPER", "SMOKE", "run"]

ROW_TITLES = {
    "srlmc": "(a) SRLMC",
    "replay": "(b) SRLMC with replay buffer",
    "importance": "(c) importance sampling",
    "riemann": "(c) Riemann sum",
}


def run(out: Path, config: LineSettings, seeds: int) -> list[Claim]:
    """Train the rows for every seed, measure, draw the first seed."""
    fits: dict[str, list[LineFit]] = {row: [] for row in (*ROW_TITLES, "srlmc-tilted")}
    drawn = []
    apart = []
    courses: dict[str, list[Courses]] = {row: [] for row in WATCHED_ROWS}
    save_line_truth(out)
    for seed in range(seeds):
        densities = {}
        for row, phase in config.phases().items():
            trained = line_run(config.recipe(row, phase), out / "runs", seed)
            start = chain_starts(LINE, 10_000, seed)
            if row == "replay":
                start = trained.state.negative[0][:10_000]
            samples = chain_ends(trained.energy, config.sampler, start, seed)
            densities[row], fit = line_fit(trained.energy, samples)
            fits[row].append(fit)
            if row in courses:
                courses[row].append(courses_of(trained))
            if seed == 0:
                drawn.append((row, trained, densities[row], samples))
        apart.append(_apart(densities["srlmc"], densities["replay"]))
        fits["srlmc-tilted"].append(_from_tilted_start(out, config, seed))
    _draw(out / "fig1", drawn)
    draw_courses(out / "fig1-updates", courses)
    claims = [*_wrong(fits), *course_claims(courses), *_same(fits, apart), *_right(fits)]
    results = {row: [fit._asdict() for fit in found] for row, found in fits.items()}
    more = {"courses": courses, "config": as_plain(config)}
    save_results(out / "results.json", claims, rows=results, **more)
    return claims


def _from_tilted_start(out: Path, config: LineSettings, seed: int) -> LineFit:
    recipe = config.recipe("srlmc-tilted", config.sampler)
    start = tilted_start(config, out / "runs", seed)
    energy = line_run(replace(recipe, energy=start), out / "runs", seed).energy
    samples = chain_ends(energy, config.sampler, chain_starts(LINE, 10_000, seed), seed)
    return line_fit(energy, samples)[1]


def _apart(a: GridDensity, b: GridDensity) -> float:
    """Total variation between two densities, or one and the mirror image of the other."""
    return min((a.mass - mass).abs().sum().item() / 2 for mass in (b.mass, b.mass.flip(0)))


def _values(fits: list[LineFit], name: str) -> list[float]:
    return [float(getattr(fit, name)) for fit in fits]


def _wrong(fits: dict[str, list[LineFit]]) -> list[Claim]:
    """Of (a) and (b): samples match p, the density does not."""
    exact = sum(_values(fits["importance"], "kl")) / len(fits["importance"])
    claims = []
    for row in ("srlmc", "replay", "srlmc-tilted"):
        found = fits[row]
        claims += [
            claim(f"{row}: KL(p‖q)", "wrong", _values(found, "kl"), lambda v: v >= 10 * exact),
            claim(
                f"{row}: samples to p (Wasserstein)",
                "identical to p",
                _values(found, "samples_to_p"),
                lambda v: v <= 0.05,
            ),
            claim(
                f"{row}: OOD above the median ID density",
                "a significant portion",
                _values(found, "ood_share"),
                lambda v: v > 0.02,
            ),
            claim(
                f"{row}: tilt of log q − its shoulder (above 0, OOD passes half of the data)",
                "second mode much lower",
                [fit.tilt - fit.shoulder for fit in found],
                lambda v: v > 0,
            ),
            claim(
                f"{row}: |mass of q on a side − 1/2|",
                "one mode much lower",
                [abs(fit.mass_left - 0.5) for fit in found],
                lambda v: v > 0.1,
            ),
        ]
    return claims


def _same(fits: dict[str, list[LineFit]], apart: list[float]) -> list[Claim]:
    """Of (a) and (b): which solution it is."""
    return [
        claim(
            "srlmc: |q0's mass of the left basin − 1/2|",
            "equals p's",
            [abs((fit.barrier + 1) / 2 - 0.5) for fit in fits["srlmc"]],
            lambda v: v < 0.05,
        ),
        claim(
            "replay and srlmc: total variation between them, up to reflection",
            "essentially the same solution",
            apart,
            lambda v: v < 0.1,
        ),
    ]


def _right(fits: dict[str, list[LineFit]]) -> list[Claim]:
    """Of (c): the density is p's."""
    claims = []
    for row in ("importance", "riemann"):
        found = fits[row]
        claims += [
            claim(f"{row}: KL(p‖q)", "excellent", _values(found, "kl"), lambda v: v <= 0.02),
            claim(
                f"{row}: |mass of q on a side − 1/2|",
                "correct mass",
                [abs(fit.mass_left - 0.5) for fit in found],
                lambda v: v < 0.05,
            ),
            claim(
                f"{row}: OOD above the median ID density",
                "none",
                _values(found, "ood_share"),
                lambda v: v < 0.01,
            ),
        ]
    return claims


def _draw(stem: Path, drawn: list[tuple[str, Run, GridDensity, Tensor]]) -> None:
    figure, panels = new_figure(columns=4, rows=len(drawn), size=2.8)
    p = true_line()
    x, support = p.x.flatten(), in_distribution(p)
    for k, (row, trained, q, samples) in enumerate(drawn):
        norms, densities, histograms, energies = panels[4 * k : 4 * k + 4]
        colour = COLOURS["srlmc"] if row in ("srlmc", "replay") else COLOURS["importance"]
        history = trained.history
        norms.semilogy([h["step"] for h in history], [h["gradient_norm"] for h in history],
                       linewidth=0.5, color=colour)  # fmt: skip
        norms.set_title(f"{ROW_TITLES[row]}: gradient norm", fontsize=8)
        densities.scatter(x[support], q.log_q[support], s=1, color=COLOURS["data"], label="support")
        densities.scatter(x[~support], q.log_q[~support], s=1, color=COLOURS["ood"], label="OOD")
        densities.set_title("log q", fontsize=8)
        densities.set_ylim(bottom=q.log_q.max().item() - 25)
        densities.legend(loc="upper right", fontsize=6, markerscale=4)
        histograms.hist(samples.flatten().numpy(), bins=200, range=(-1, 1), density=True,
                        color=colour, alpha=0.4, label="SRLMC samples")  # fmt: skip
        histograms.plot(x, p.log_q.exp(), color=COLOURS["data"], linewidth=1, label="p")
        histograms.plot(x, q.log_q.exp(), color=colour, linewidth=1, label="q")
        histograms.set_title("densities", fontsize=8)
        histograms.legend(loc="upper right", fontsize=6)
        energies.plot(x, -energy_at(trained.energy, q.x), color=colour, linewidth=1)
        energies.set_title("−E", fontsize=8)
        for panel in (norms, densities, histograms, energies):
            panel.tick_params(labelsize=6, which="both")
    save_figure(figure, stem)
