"""Fig. 5: partition points beside training images, and where the density errs.

Partition points of the model that PS-USP trained, each above the training image nearest to it; and,
for comparison, SRLMC's samples. Beyond the paper: for every method and OOD set its scores against
those of the test images, and the images that are most overestimated. Presets are those of Table 1,
whose models are used if they are there.
"""

from pathlib import Path

import torch
from torch import Tensor

from ..datasets import OOD_NAMES, fashion_mnist, ood, scaled
from ..metrics import fpr_at_tpr
from ..plots import COLOURS, new_figure, save_figure
from ..randomness import generator
from ..types import Energy
from .claims import Claim, claim, save_results
from .fashion import IMAGES, energy_of, scores, snapshots, split, train
from .table1 import FAST, PAPER, SMOKE, Config

__all__ = ["FAST", "PAPER", "SMOKE", "run"]

COLUMNS = 12
"""Images in a row of the galleries."""


def run(out: Path, config: Config, seeds: int) -> list[Claim]:
    """Galleries of every method's first seed; its points and its errors measured on every seed."""
    data = split()
    folder = out.parent / "table1"
    known = scaled(fashion_mnist("test"))[: config.images]
    claims: list[Claim] = []
    for name, method in config.methods.items():
        closer: list[float] = []
        overestimated: list[float] = []
        gaps: list[float] = []
        for seed in range(seeds):
            # Particles, or the replay buffer: what the model takes for its own distribution.
            points = train(name, method, data.train, folder, seed).state.negative[0]
            energy = energy_of(snapshots(folder, name, seed)[-1])
            chosen = points[: 20 * COLUMNS]
            nearest = torch.cdist(chosen.flatten(1), data.train.flatten(1)).min(1)
            noise = IMAGES.sample(len(chosen), generator(seed, "noise")).flatten(1)
            from_noise = torch.cdist(noise, data.train.flatten(1)).min(1).values
            closer.append((nearest.values.median() / from_noise.median()).item())
            inside, digits = scores(energy, known), scores(energy, ood("MNIST")[: config.images])
            overestimated.append(100 * (digits > inside.median()).float().mean().item())
            gaps.append(((scores(energy, chosen).mean() - inside.mean()) / inside.std()).item())
            if seed == 0:
                _gallery(out / f"points-{name.lower()}", chosen, data.train[nearest.indices])
                _errors(out / name.lower(), energy, config.images)
        claims += [
            claim(
                f"{name}: points' distance to the nearest training image, over that of noise",
                "resemble the data",
                closer,
                lambda v: v < 0.6,
            ),
            claim(
                f"{name}: points' mean score minus the test images', in their deviations",
                "about 0",
                gaps,
                lambda v: abs(v) < 3,
            ),
            claim(
                f"{name}: share of MNIST above the median score of test images, %",
                "high" if name == "SRLMC" else "0",
                overestimated,
                (lambda v: v > 10) if name == "SRLMC" else (lambda v: v < 1),
            ),
        ]
    save_results(out / "results.json", claims)
    return claims


def _gallery(stem: Path, points: Tensor, nearest: Tensor) -> None:
    """Points in the first and third rows, the training images nearest to them below."""
    rows, columns = [], min(COLUMNS, len(points) // 2)
    for k in range(2):
        part = slice(columns * k, columns * (k + 1))
        rows += [torch.cat(list(images[part].view(-1, 28, 28)), 1) for images in (points, nearest)]
    figure, (panel,) = new_figure(columns=1)
    figure.set_size_inches(6.4, 2.4)
    panel.imshow(torch.cat(rows).numpy(), cmap="gray", vmin=-1, vmax=1)
    panel.set_title("points, and below each the nearest training image", fontsize=8)
    panel.set_axis_off()
    save_figure(figure, stem)


def _errors(out: Path, energy: Energy, images: int) -> None:
    """For every OOD set: histograms of scores, and the images that score highest."""
    known = scores(energy, scaled(fashion_mnist("test"))[:images])
    for name in OOD_NAMES:
        strange = ood(name)[:images]
        found = scores(energy, strange)
        figure, (histogram, worst) = new_figure(columns=2, size=3.2)
        low = torch.cat([known, found]).quantile(0.02).item()
        span = (low, max(known.max().item(), found.max().item()))
        for values, label, colour in (
            (known, "Fashion-MNIST", COLOURS["data"]),
            (found, name, COLOURS["ood"]),
        ):
            histogram.hist(values.clamp_min(low).numpy(), bins=100, range=span, density=True,
                           alpha=0.5, color=colour, label=label)  # fmt: skip
        histogram.axvline(known.quantile(0.05).item(), color=COLOURS["data"], linewidth=0.8)
        rate = 100 * fpr_at_tpr(known, found)
        histogram.set_title(f"{name}: FPR95 {rate:.2f} %", fontsize=9)
        histogram.set_xlabel("log-density up to a constant", fontsize=7)
        histogram.tick_params(labelsize=6)
        histogram.legend(fontsize=7)
        top = found.argsort(descending=True)[:36]
        rows = strange[top].view(-1, 28, 28).split(6)
        grid = torch.cat([torch.cat(list(row), 1) for row in rows])
        worst.imshow(grid.numpy(), cmap="gray", vmin=-1, vmax=1)
        worst.set_title("most overestimated", fontsize=9)
        worst.set_axis_off()
        save_figure(figure, out / f"scores-{name.lower()}")
