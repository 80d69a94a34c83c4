"""Fig. 3: a replay buffer approaches the data, and does not help mixing.

(a) the buffer's distribution over training tends to p; (b) chains that start at buffer samples of
one mode stay in that mode.

Presets (two cores): row (b) of Fig. 1, watched while it trains.
    PAPER  an estimated 25 minutes.    FAST  about three minutes per seed.    SMOKE  seconds.
"""

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..recipes import Run
from ..recipes.plain import as_plain
from ..support.files import whole_file
from ..support.plots import COLOURS, SIDES_COLOURS, new_figure, save_figure
from .claims import Claim, claim, save_results
from .two_modes import (
    FAST,
    PAPER,
    SMOKE,
    TWO_MODES,
    LineSettings,
    chain_ends,
    save_line_truth,
    true_line,
    wasserstein,
)

__all__ = ["FAST", "PAPER", "SMOKE", "run"]

BINS = 200
LOOKS = (0.0, 0.02, 0.1, 0.3, 1.0)
"""When the buffer is looked at, as a share of the updates."""


def run(out: Path, config: LineSettings, seeds: int) -> list[Claim]:
    """Watch the buffer for every seed, draw the first."""
    first: list[float] = []
    last: list[float] = []
    stayed: list[float] = []
    distances: list[dict[int, float]] = []
    save_line_truth(out)
    for seed in range(seeds):
        looks, watched = _watch(out, config, seed)
        distances.append({note["step"]: note["distance"] for note in looks})
        first.append(looks[0]["distance"])
        last.append(looks[-1]["distance"])
        buffer = watched.state.negative[0]
        ends = {}
        for side, chosen in (("left", buffer < 0), ("right", buffer > 0)):
            start = buffer[chosen.flatten()][:5000]
            ends[side] = chain_ends(watched.energy, config.sampler, start, seed)
        moved = [(ends["left"] < 0).double().mean(), (ends["right"] > 0).double().mean()]
        stayed.append(0.5 * (moved[0] + moved[1]).item())
        if seed == 0:
            _draw(out / "fig3", looks, ends)
    claims = [
        claim("buffer to p at the start (Wasserstein)", "far", first, lambda v: v > 0.1),
        claim("buffer to p at the end (Wasserstein)", "equal to data", last, lambda v: v < 0.05),
        claim("share of chains that stay in their mode", "all", stayed, lambda v: v > 0.98),
    ]
    save_results(out / "results.json", claims, distances=distances, config=as_plain(config))
    return claims


def _watch(out: Path, config: LineSettings, seed: int) -> tuple[list[dict[str, Any]], Run]:
    """Train with a replay buffer, noting its histogram now and then; notes outlast a restart."""
    recipe = config.recipe("replay", config.phases()["replay"])
    watched = Run(recipe, TWO_MODES, out / "runs" / f"replay-{seed}", seed)
    notes = out / "runs" / f"looks-{seed}.json"
    looks: list[dict[str, Any]] = json.loads(notes.read_text()) if notes.exists() else []
    due = [round(share * config.schedule.updates) for share in LOOKS]

    def look() -> None:
        if watched.state.step in due and watched.state.step not in [n["step"] for n in looks]:
            looks.append(_look(watched.state.step, watched.state.negative[0]))
            with whole_file(notes) as file:
                file.write(json.dumps(looks).encode())

    look()
    for _ in watched:
        look()
    return looks, watched


def _look(step: int, buffer: Tensor) -> dict[str, Any]:
    histogram = torch.histc(buffer, BINS, -1.0, 1.0) / len(buffer) * (BINS / 2.0)
    return {"step": step, "distance": wasserstein(buffer), "histogram": histogram.tolist()}


def _draw(stem: Path, looks: list[dict[str, Any]], ends: dict[str, Tensor]) -> None:
    figure, panels = new_figure(columns=len(looks) + 1, size=2.4)
    p = true_line()
    middles = [-1 + (k + 0.5) * 2 / BINS for k in range(BINS)]
    for panel, note in zip(panels, looks, strict=False):
        panel.bar(middles, note["histogram"], width=2 / BINS, color=COLOURS["srlmc"], alpha=0.6)
        panel.set_title(f"buffer, update {note['step']}", fontsize=8)
    for side, colour in zip(("left", "right"), SIDES_COLOURS, strict=True):
        half = torch.full((len(ends[side]),), 0.5 * BINS / 2 / len(ends[side]))
        panels[-1].hist(ends[side].flatten().numpy(), bins=BINS, range=(-1, 1), weights=half,
                        color=colour, alpha=0.6, label=f"from the {side} mode")  # fmt: skip
    panels[-1].set_title("chains from the buffer", fontsize=8)
    for panel in panels:
        panel.plot(p.x.flatten(), p.log_q.exp(), color=COLOURS["data"], linewidth=0.8, label="p")
        panel.tick_params(labelsize=6)
    panels[-1].legend(loc="upper right", fontsize=6)
    save_figure(figure, stem)
