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
import math
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from rich.table import Table
from torch import Tensor

from ..checkpoint import checkpointed, checkpoints, resume, save_snapshot
from ..density import GridDensity, grid_density, kl, mass_by_nearest, ood_share
from ..domains import Box
from ..energies import MLP, Gaussian, GaussianMixture
from ..files import whole_file
from ..negative import Langevin, PersistentUSP, Replay
from ..plots import COLOURS, density_panel, new_figure, points_panel, save_figure
from ..progress import console, shown
from ..runlog import logged, rewind, rows
from ..train import Record, TrainState, fit
from ..types import NegativePhase

DOMAIN = Box(-2.0, 2.0, shape=(2,))
MODES = tuple((math.cos(k * math.pi / 3), math.sin(k * math.pi / 3)) for k in range(6))
MIXTURE = GaussianMixture(MODES, std=0.1)
RIGHTMOST = Gaussian(MODES[0], std=0.1)
METHODS = ("ps_usp", "srlmc")
CELLS = 200
"""Grid cells per axis: a fifth of the modes' width, so that sums over the grid are exact."""

PS_USP = PersistentUSP(
    domain=DOMAIN,
    particles=2000,
    spacing=0.08,
    proposal=RIGHTMOST,
    active=500,
    nodes=2000,
    rounds=20,
)
SRLMC = Replay(
    Langevin(RIGHTMOST, chains=1000, steps=40, step_size=1e-3, noise_scale=1e-4),
    capacity=50_000,
    refresh=0.05,
)


@dataclass(frozen=True)
class Config:
    """What is trained, and for how long."""

    width: int = 128
    ps_usp_rate: float = 1e-3
    srlmc_rate: float = 3e-4
    average_decay: float = 0.97
    batch_size: int = 1000
    steps: int = 500
    seed: int = 0
    ps_usp: PersistentUSP = PS_USP
    srlmc: Replay = SRLMC


class Measured(NamedTuple):
    """How well a model has learned the mixture."""

    kl: float
    mode_mass: list[float]
    ood_share: float
    seconds: float


def run(out: Path, config: Config, fresh: bool = False) -> dict[str, Measured]:
    """Train both, measure both, and write ``results.json``, ``metrics.jsonl`` and the picture.

    A run that was interrupted goes on where it stopped, unless ``fresh``. The trained models are
    kept as snapshots beside the figures.
    """
    _prepare(out, config, fresh)
    truth = grid_density(MIXTURE, DOMAIN, CELLS)
    densities: dict[str, GridDensity] = {}
    measured: dict[str, Measured] = {}
    points = torch.empty(0, 2)
    methods: dict[str, tuple[NegativePhase[Any], float]] = {
        "ps_usp": (config.ps_usp, config.ps_usp_rate),
        "srlmc": (config.srlmc, config.srlmc_rate),
    }
    for name, (phase, learning_rate) in methods.items():
        state, seconds = _train(name, phase, learning_rate, out, config)
        q = grid_density(state.average.module, DOMAIN, CELLS)
        save_snapshot(state.average.module, out / f"{name}.safetensors", weights="averaged")
        densities[name] = q
        measured[name] = Measured(
            kl(truth, q), mass_by_nearest(q, torch.tensor(MODES)), ood_share(truth, q), seconds
        )
        if name == "ps_usp":
            points = state.negative[0]
    _draw(out / "demo", truth, densities, points, measured)
    results = {name: m._asdict() for name, m in measured.items()}
    with whole_file(out / "results.json") as file:
        file.write(json.dumps({**results, "config": asdict(config)}, indent=2).encode())
    _drop_checkpoints(out)  # the run is complete
    return measured


def _prepare(out: Path, config: Config, fresh: bool) -> None:
    """A folder that is empty, or holds a run of the same config, or may be overwritten."""
    settings = out / "config.json"
    wanted = json.dumps(asdict(config), indent=2)
    unfinished = any(checkpoints(out / name) for name in METHODS)
    if settings.exists() and settings.read_text() != wanted and not fresh:
        raise ValueError(
            f"{out} holds {'an unfinished' if unfinished else 'a'} run with other settings: "
            "choose another --out, or overwrite it with --fresh"
        )
    if unfinished and not fresh:
        return
    _drop_checkpoints(out)
    (out / "metrics.jsonl").unlink(missing_ok=True)
    with whole_file(settings) as file:
        file.write(wanted.encode())


def _drop_checkpoints(out: Path) -> None:
    for name in METHODS:
        for path in checkpoints(out / name):
            path.unlink()
        with suppress(OSError):  # not there, or not ours alone
            (out / name).rmdir()


def _train(
    name: str, phase: NegativePhase[Any], learning_rate: float, out: Path, config: Config
) -> tuple[TrainState, float]:
    """The trained state, and the seconds that its updates took in all."""
    torch.manual_seed(config.seed)
    module = MLP(2, width=config.width)
    optimizer = torch.optim.Adam(module.parameters(), learning_rate)
    state = TrainState.start(
        module, phase, optimizer, average_decay=config.average_decay, seed=config.seed
    )
    if resume(state, out / name):
        console.print(f"{name}: resuming at update {state.step}")
    log = out / "metrics.jsonl"
    rewind(log, state.step, method=name)
    records = fit(state, phase, MIXTURE, batch_size=config.batch_size, steps=config.steps)
    records = checkpointed(records, state, out / name, seconds=20.0)
    records = logged(records, log, method=name)
    for _ in shown(records, config.steps, name, _figures, done=state.step):
        pass
    return state, sum(row["seconds"] for row in rows(log) if row["method"] == name)


def _figures(record: Record) -> str:
    """The numbers that matter while training."""
    text = f"loss {record.loss:+.3f}  nodes {record.ess:.0f} effective"
    info = record.info._asdict()
    if "violating" in info:
        text += f"  violating {info['violating']:.0%}"
    if "rho" in info:
        text += f"  ρ {info['rho']:g}"
    return text


def _draw(
    stem: Path,
    truth: GridDensity,
    densities: dict[str, GridDensity],
    points: Tensor,
    measured: dict[str, Measured],
) -> None:
    figure, panels = new_figure(columns=4)
    peak = truth.log_q.max().exp().item()
    density_panel(panels[0], truth, DOMAIN, peak, "truth p")
    density_panel(
        panels[1], densities["srlmc"], DOMAIN, peak, f"SRLMC, KL {measured['srlmc'].kl:.2f}"
    )
    density_panel(
        panels[2], densities["ps_usp"], DOMAIN, peak, f"PS-USP, KL {measured['ps_usp'].kl:.3f}"
    )
    points_panel(panels[3], points, DOMAIN, COLOURS["ps_usp"], "PS-USP partition points")
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
