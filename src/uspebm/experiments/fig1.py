"""Fig. 1: three ways to solve maximum likelihood on a 1-D mixture.

(a) SRLMC from U(−1, 1); (b) SRLMC with a replay buffer; (c) self-normalised importance sampling, or
a Riemann sum. Columns: norm of the parameters' gradient over training; log-density on the data's
support and on OOD regions; densities and histograms; negative energy. The point: in (a) and (b) the
samples match p although the density does not; in (c) the density does. Densities and samples are
those of the averaged weights: plain SGD keeps swinging about its solution.

Beyond the paper, (a) is also trained from a tilted start, a model that puts 97 % on one side: which
of its many solutions SRLMC ends in depends on where it began.

Presets (two cores):
    PAPER  the appendix's settings: width 512, batch 1,000, 5,000 updates; an estimated three hours.
    FAST   width 128, batch 500, 3,000 updates; about twelve minutes per seed on one thread.
    SMOKE  seconds.
"""

from dataclasses import asdict
from pathlib import Path

from torch import Tensor

from ..density import GridDensity
from ..gradient import energy_at
from ..plots import COLOURS, new_figure, save_figure
from .claims import Claim, claim, save_results
from .training import Training
from .two_modes import (
    FAST,
    LINE,
    PAPER,
    SMOKE,
    Config,
    Measured,
    in_distribution,
    learn,
    measure,
    sample,
    starts,
    tilted_start,
    truth,
)

__all__ = ["FAST", "PAPER", "SMOKE", "run"]

ROWS = {
    "srlmc": "(a) SRLMC",
    "replay": "(b) SRLMC with replay buffer",
    "importance": "(c) importance sampling",
    "riemann": "(c) Riemann sum",
}


def run(out: Path, config: Config, seeds: int) -> list[Claim]:
    """Train the rows for every seed, measure, draw the first seed."""
    measured: dict[str, list[Measured]] = {row: [] for row in (*ROWS, "srlmc-tilted")}
    drawn = []
    apart = []
    for seed in range(seeds):
        densities = {}
        for row, phase in config.phases().items():
            training = learn(row, phase, config, out / "runs", seed)
            energy = training.state.average.module
            start = starts(LINE, 10_000, seed)
            if row == "replay":
                start = training.state.negative[0][:10_000]
            samples = sample(energy, config.langevin(), start, seed)
            q, m = measure(energy, samples)
            measured[row].append(m)
            densities[row] = q
            if seed == 0:
                drawn.append((row, training, q, samples))
        apart.append(_apart(densities["srlmc"], densities["replay"]))
        tilted = tilted_start(config, out / "runs", seed)
        energy = learn(
            "srlmc-tilted", config.langevin(), config, out / "runs", seed, tilted
        ).state.average.module
        samples = sample(energy, config.langevin(), starts(LINE, 10_000, seed), seed)
        measured["srlmc-tilted"].append(measure(energy, samples)[1])
    _draw(out / "fig1", drawn)
    claims = _claims(measured, apart)
    results = {row: [m._asdict() for m in ms] for row, ms in measured.items()}
    save_results(out / "results.json", claims, rows=results, config=asdict(config))
    return claims


def _apart(a: GridDensity, b: GridDensity) -> float:
    """Total variation between two densities, or one and the mirror image of the other."""
    return min((a.mass - mass).abs().sum().item() / 2 for mass in (b.mass, b.mass.flip(0)))


def _claims(measured: dict[str, list[Measured]], apart: list[float]) -> list[Claim]:
    def values(row: str, name: str) -> list[float]:
        return [float(getattr(m, name)) for m in measured[row]]

    kl_c = sum(values("importance", "kl")) / len(measured["importance"])
    claims = []
    for row in ("srlmc", "replay", "srlmc-tilted"):
        claims += [
            claim(f"{row}: KL(p‖q)", "wrong", values(row, "kl"), lambda v: v >= 10 * kl_c),
            claim(
                f"{row}: samples to p (Wasserstein)",
                "identical to p",
                values(row, "samples_to_p"),
                lambda v: v <= 0.05,
            ),
            claim(
                f"{row}: OOD above the median ID density",
                "a significant portion",
                values(row, "ood_share"),
                lambda v: v > 0.02,
            ),
            claim(
                f"{row}: tilt of log q − its shoulder (above 0, OOD passes half of the data)",
                "second mode much lower",
                [m.tilt - m.shoulder for m in measured[row]],
                lambda v: v > 0,
            ),
            claim(
                f"{row}: |mass of q on a side − 1/2|",
                "one mode much lower",
                [abs(m.mass_left - 0.5) for m in measured[row]],
                lambda v: v > 0.1,
            ),
        ]
    claims.append(
        claim(
            "srlmc: |q0's mass of the left basin − 1/2|",
            "equals p's",
            [abs((m.barrier + 1) / 2 - 0.5) for m in measured["srlmc"]],
            lambda v: v < 0.05,
        )
    )
    claims.append(
        claim(
            "replay and srlmc: total variation between them, up to reflection",
            "essentially the same solution",
            apart,
            lambda v: v < 0.1,
        )
    )
    for row in ("importance", "riemann"):
        claims += [
            claim(f"{row}: KL(p‖q)", "excellent", values(row, "kl"), lambda v: v <= 0.02),
            claim(
                f"{row}: |mass of q on a side − 1/2|",
                "correct mass",
                [abs(m.mass_left - 0.5) for m in measured[row]],
                lambda v: v < 0.05,
            ),
            claim(
                f"{row}: OOD above the median ID density",
                "none",
                values(row, "ood_share"),
                lambda v: v < 0.01,
            ),
        ]
    return claims


def _draw(stem: Path, drawn: list[tuple[str, Training, GridDensity, Tensor]]) -> None:
    figure, panels = new_figure(columns=4, rows=len(drawn), size=2.8)
    p = truth()
    x, support = p.x.flatten(), in_distribution(p)
    for k, (row, training, q, samples) in enumerate(drawn):
        norms, densities, histograms, energies = panels[4 * k : 4 * k + 4]
        colour = COLOURS["srlmc"] if row in ("srlmc", "replay") else COLOURS["importance"]
        history = training.history
        norms.semilogy([h["step"] for h in history], [h["gradient_norm"] for h in history],
                       linewidth=0.5, color=colour)  # fmt: skip
        norms.set_title(f"{ROWS[row]}: gradient norm", fontsize=8)
        densities.scatter(x[support], q.log_q[support], s=1, color=COLOURS["data"], label="support")
        densities.scatter(x[~support], q.log_q[~support], s=1, color=COLOURS["ood"], label="OOD")
        densities.set_title("log q", fontsize=8)
        densities.set_ylim(bottom=q.log_q.max().item() - 25)
        densities.legend(fontsize=6, markerscale=4)
        histograms.hist(samples.flatten().numpy(), bins=200, range=(-1, 1), density=True,
                        color=colour, alpha=0.4, label="SRLMC samples")  # fmt: skip
        histograms.plot(x, p.log_q.exp(), color=COLOURS["data"], linewidth=1, label="p")
        histograms.plot(x, q.log_q.exp(), color=colour, linewidth=1, label="q")
        histograms.set_title("densities", fontsize=8)
        histograms.legend(fontsize=6)
        energies.plot(x, -energy_at(training.state.average.module, q.x), color=colour, linewidth=1)
        energies.set_title("−E", fontsize=8)
        for panel in (norms, densities, histograms, energies):
            panel.tick_params(labelsize=6, which="both")
    save_figure(figure, stem)
