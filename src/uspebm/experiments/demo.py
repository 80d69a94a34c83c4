"""The paper's Fig. 4 in a minute: two ways to learn six modes when starting in only one.

Everything starts in the rightmost mode: the partition points of PS-USP, and the proposal of the
short-run Langevin chains (SRLMC, with replay buffer). PS-USP finds the other five and weighs
them right. SRLMC's chains hardly leave home, so the model has no reason to put mass where
they cannot see.

To fit a minute on two cores the demo takes a narrower network than the paper (128 units, not
512), fewer points at a wider spacing (2,000 at 0.08, not 5,000 at 0.05), 20 rounds per update
(not 50), and Adam with averaged weights (not SGD). SRLMC has a learning rate of its own, the best
of those tried for it: at PS-USP's it does worse.
"""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from rich.table import Table
from torch import Tensor

from ..appendix import MIXTURE_PS_USP, MIXTURE_SRLMC, PLANE
from ..checkpoint import save_snapshot
from ..density import GridDensity
from ..energies import MLP
from ..files import whole_file
from ..negative import PersistentUSP, Replay
from ..plots import COLOURS, density_panel, new_figure, points_panel, save_figure
from ..types import NegativePhase
from .mixture import MIXTURE, Measured, measure, truth
from .training import Recipe, Training, drop_checkpoints, unfinished

METHODS = ("ps_usp", "srlmc")
PS_USP = replace(MIXTURE_PS_USP, particles=2000, spacing=0.08, active=500, nodes=2000, rounds=20)


@dataclass(frozen=True)
class Config:
    """What is trained, and for how long."""

    steps: int = 500
    seed: int = 0
    width: int = 128
    batch_size: int = 1000
    average_decay: float = 0.97
    ps_usp_rate: float = 1e-3
    srlmc_rate: float = 3e-4
    ps_usp: PersistentUSP = PS_USP
    srlmc: Replay = MIXTURE_SRLMC

    def recipe(self, learning_rate: float) -> Recipe:
        return Recipe("adam", learning_rate, self.steps, self.batch_size, self.average_decay)


def run(out: Path, config: Config, fresh: bool = False) -> dict[str, Measured]:
    """Train both, measure both, and write ``results.json``, ``metrics.jsonl`` and the picture.

    A run that was interrupted goes on where it stopped, unless ``fresh``. The trained models are
    kept as snapshots beside the figures.
    """
    _prepare(out, config, fresh)
    densities: dict[str, GridDensity] = {}
    measured: dict[str, Measured] = {}
    points = torch.empty(0, 2)
    log = ""
    methods: dict[str, tuple[NegativePhase[Any], float]] = {
        "ps_usp": (config.ps_usp, config.ps_usp_rate),
        "srlmc": (config.srlmc, config.srlmc_rate),
    }
    for name, (phase, learning_rate) in methods.items():
        torch.manual_seed(config.seed)
        module = MLP(2, width=config.width)
        recipe = config.recipe(learning_rate)
        training = Training(name, module, phase, MIXTURE, recipe, out / name, config.seed).finish()
        learned = training.state.average.module
        densities[name], measured[name] = measure(learned, training.seconds)
        save_snapshot(learned, out / f"{name}.safetensors", weights="averaged")
        log += "".join(json.dumps(row) + "\n" for row in training.history)
        if name == "ps_usp":
            points = training.state.negative[0]
    _draw(out / "demo", densities, points, measured)
    with whole_file(out / "metrics.jsonl") as file:
        file.write(log.encode())
    results = {name: m._asdict() for name, m in measured.items()}
    with whole_file(out / "results.json") as file:
        file.write(json.dumps({**results, "config": asdict(config)}, indent=2).encode())
    _drop_run(out)
    return measured


def _prepare(out: Path, config: Config, fresh: bool) -> None:
    """A folder that is empty, or holds a run of the same config, or may be overwritten."""
    settings = out / "config.json"
    wanted = json.dumps(asdict(config), indent=2)
    if settings.exists() and settings.read_text() != wanted and not fresh:
        raise ValueError(
            f"{out} holds {'an unfinished' if unfinished(out) else 'a'} run with other settings: "
            "choose another --out, or overwrite it with --fresh"
        )
    if fresh or not unfinished(out):
        _drop_run(out)
        with whole_file(settings) as file:
            file.write(wanted.encode())


def _drop_run(out: Path) -> None:
    """Remove what only resuming needs."""
    drop_checkpoints(out)
    for name in METHODS:
        for left in (".jsonl", ".settings.json"):
            (out / name).with_suffix(left).unlink(missing_ok=True)


def _draw(
    stem: Path, densities: dict[str, GridDensity], points: Tensor, measured: dict[str, Measured]
) -> None:
    figure, panels = new_figure(columns=4)
    p = truth()
    peak = p.log_q.max().exp().item()
    titles = {
        "srlmc": f"SRLMC, KL {measured['srlmc'].kl:.2f}",
        "ps_usp": f"PS-USP, KL {measured['ps_usp'].kl:.3f}",
    }
    density_panel(panels[0], p, PLANE, peak, "truth p")
    for panel, (name, title) in zip(panels[1:3], titles.items(), strict=True):
        density_panel(panel, densities[name], PLANE, peak, title)
    points_panel(panels[3], points, PLANE, COLOURS["ps_usp"], "PS-USP partition points")
    save_figure(figure, stem)


def table(measured: dict[str, Measured]) -> Table:
    """The figures of the run, for a terminal."""
    result = Table(title="Six-mode mixture, everything started in the rightmost mode")
    for heading in ("method", "KL(p‖q)", "mass per mode (each 0.167)", "OOD share", "seconds"):
        result.add_column(heading)
    for name, m in measured.items():
        masses = " ".join(f"{mass:.3f}" for mass in m.mode_mass)
        result.add_row(name, f"{m.kl:.3f}", masses, f"{m.ood_share:.1%}", f"{m.seconds:.0f}")
    return result
