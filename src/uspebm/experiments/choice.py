"""Is the paper's Table 1 a property of PS-USP, or of the choice of a checkpoint?

The paper takes the checkpoint with the least FPR95 on OOD validation images. Here every snapshot of
the runs of Table 1 with the appendix's settings, raw and averaged weights, is scored on all OOD
sets; FPR95 over the updates is drawn, and one snapshot of each run is taken as the paper does: by
the mean FPR95 on the first halves of MNIST and KMNIST. What it then has on the second halves stands
beside what the last one has. Rows are labelled: *chosen on OOD data, as in the paper*.

It trains nothing: runs that ``uspebm reproduce table1`` made are found beside its own folder,
finished or not. What was scored is kept: the command goes on.

Presets (one thread):
    PAPER  runs of table1 --preset paper, every snapshot, 4,000 images of each set: 6 to 10 s each.
    FAST   those of table1 --preset fast.
    SMOKE  those of table1 --preset smoke, 200 images.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from operator import ge
from pathlib import Path

import numpy as np
from torch import Tensor

from ..energies import Conv
from ..evaluation.metrics import fpr_at_tpr
from ..recipes.snapshots import WEIGHT_KINDS
from ..support.checksums import content_checksum
from ..support.files import whole_file
from ..support.plots import new_figure, save_figure
from ..support.progress import console
from ..training import load_snapshot
from .claims import Claim, claim, save_results
from .image_models import energy_scores
from .image_problem import FASHION_MNIST, OpenedSets

VALIDATED_BY = ("MNIST", "KMNIST")


@dataclass(frozen=True)
class ChoiceSettings:
    """How many images of each set are scored."""

    images: int = 4_000


PAPER = ChoiceSettings()
FAST = PAPER
SMOKE = ChoiceSettings(images=200)
Scored = dict[str, dict[str, float]]
"""FPR95 in per cent by set, and by half or whole."""


def run(out: Path, config: ChoiceSettings, seeds: int) -> list[Claim]:
    """Score what is there, choose, compare; of as many seeds as there are runs."""
    runs = sorted(path for path in (out.parent / "table1" / "runs").glob("*-*") if path.is_dir())
    runs = [path for path in runs if any((path / "snapshots").glob("*.safetensors"))]
    if not runs:
        raise ValueError(
            f"{out.parent / 'table1' / 'runs'} has no run with snapshots: uspebm reproduce table1 "
            "makes them"
        )
    sets = FASHION_MNIST.opened(config.images)
    curves = {
        f"{path.name}, {weights}": _curve(out, path, weights, sets)
        for path in runs
        for weights in WEIGHT_KINDS
    }
    _draw(out, curves)
    claims = [one for name, curve in curves.items() for one in _judged(name, curve)]
    save_results(out / "results.json", claims, curves=curves, images=config.images)
    return claims


def _curve(out: Path, path: Path, weights: str, sets: OpenedSets) -> dict[int, Scored]:
    """What every snapshot has, by its update."""
    found = {}
    for snapshot in sorted((path / "snapshots").glob(f"{weights}-*.safetensors")):
        update = int(snapshot.stem.rpartition("-")[2])
        kept = out / "snapshots" / path.name / f"{snapshot.stem}.json"
        told = json.loads(kept.read_text()) if kept.exists() else {}
        of = {"images": len(sets.inside), "sha256": content_checksum(snapshot)}
        if not of.items() <= told.items():
            told = {**of, "fpr95": _scored(snapshot, sets)}
            with whole_file(kept) as file:
                file.write(json.dumps(told).encode())
            whole = {name: round(value["whole"], 2) for name, value in told["fpr95"].items()}
            console.print(f"{path.name}, {weights}, update {update}: {whole}", markup=False)
        found[update] = told["fpr95"]
    return found


def _scored(snapshot: Path, sets: OpenedSets) -> Scored:
    network = Conv(tuple(sets.inside.shape[1:]))
    load_snapshot(network, snapshot)
    inside = energy_scores(network.eval(), sets.inside)
    return {
        name: dict(_parts(inside, energy_scores(network, images)))
        for name, images in sets.outside.items()
    }


def _parts(inside: Tensor, outside: Tensor) -> Iterator[tuple[str, float]]:
    """Of all images, and of each half against its half of those inside."""
    known, new = inside.tensor_split(2), outside.tensor_split(2)
    for name, pair in (
        ("whole", (inside, outside)),
        ("first", (known[0], new[0])),
        ("second", (known[1], new[1])),
    ):
        yield name, 100 * fpr_at_tpr(*pair)


def _judged(name: str, curve: dict[int, Scored]) -> Iterator[Claim]:
    """The snapshot that validation images choose, and the last one, on the other halves."""
    figures = FASHION_MNIST.paper_figures
    assert figures is not None
    method = "SRLMC" if name.startswith("SRLMC") else "PS-USP"
    theirs = dict(zip(FASHION_MNIST.ood, figures.fpr95[method], strict=True))
    best = min(curve, key=lambda u: np.mean([curve[u][v]["first"] for v in VALIDATED_BY]))
    for what, update in (("chosen on OOD data, as in the paper", best), ("last", max(curve))):
        for kind, (paper, _) in theirs.items():
            value = curve[update][kind]["second"]
            title = f"{name}: FPR95 on {kind}, {what} (update {update})"
            yield claim(title, f"{paper}", [value], partial(ge, paper))


def _draw(out: Path, curves: dict[str, dict[int, Scored]]) -> None:
    figure, panels = new_figure(columns=2, rows=-(-len(curves) // 2), size=3.4)
    for panel, (name, curve) in zip(panels, curves.items(), strict=False):
        for kind in FASHION_MNIST.ood:
            values = [scored[kind]["whole"] for scored in curve.values()]
            panel.plot(list(curve), values, label=kind, linewidth=1.0, marker=".", markersize=3)
        panel.set_title(name, fontsize=8)
        panel.set_xlabel("update", fontsize=7)
        panel.set_ylabel("FPR95, per cent", fontsize=7)
        panel.tick_params(labelsize=6)
        panel.set_ylim(-2, 112)  # room for the legend
        panel.legend(loc="upper center", ncols=len(FASHION_MNIST.ood), fontsize=5, frameon=False)
    for panel in panels[len(curves) :]:
        panel.axis("off")
    save_figure(figure, out / "choice")
