"""Fig. 5: partition points beside training images, and where the density errs.

Partition points of the model that PS-USP trained, each above the training image nearest to it; and,
for comparison, SRLMC's samples. Beyond the paper: for every method and OOD set its scores against
those of the test images, and the images that are most overestimated. Presets are those of Table 1,
whose models are used if they are there.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from ..appendix import IMAGES
from ..datasets import OOD_NAMES, fashion_mnist, ood, scaled
from ..engine import available, energy_on
from ..metrics import fpr_at_tpr
from ..negative import Replay
from ..plots import COLOURS, new_figure, save_figure, save_images
from ..randomness import generator
from ..types import Energy
from .chains import LONG, Unmixed, unmixed
from .claims import Claim, claim, save_results
from .fashion import energy_of, labels, scores, snapshots, split, start, train
from .table1 import FAST, PAPER, SMOKE, Config

__all__ = ["FAST", "PAPER", "SMOKE", "run"]

COLUMNS = 12
"""Images in a row of the galleries."""
POINTS = 20 * COLUMNS
"""Points that are compared with the training images."""
BLACK = -0.9
"""Pixels below it count as black; digits are black for the most part."""


def run(out: Path, config: Config, seeds: int) -> list[Claim]:
    """Galleries of every method's first seed; its points and its errors measured on every seed."""
    data = split()
    folder = out.parent / "table1"
    known = scaled(fashion_mnist("test"))[: config.images]
    digits = ood("MNIST")[: config.images]
    claims: list[Claim] = []
    for name, method in config.methods.items():
        looks: list[Look] = []
        chains: list[Unmixed] = []
        for seed in method.seeds(seeds):
            # Particles, or the replay buffer: what the model takes for its own distribution.
            points = train(name, method, data.train, folder, seed).state.negative[0]
            points = _moved(points, start(method, data.train, seed)[0], seed)
            energy = energy_of(snapshots(folder, name, method, seed)[-1])
            picture = out / name.lower() if seed == 0 else None
            looks.append(_look(energy, points[:POINTS], data.train, known, digits, seed, picture))
            if picture is not None:
                _errors(picture, energy, known)
            if isinstance(method.phase, Replay):
                found = unmixed(
                    energy_on(available("native", energy, method.phase), energy),
                    method.phase.sampler,
                    points,
                    data.train,
                    labels().train,
                    digits[:POINTS],
                    seed,
                    picture / "chains" if picture else None,
                )
                chains.append(found)
        claims += _claims(name, looks, chains)
    save_results(out / "results.json", claims)
    return claims


def _moved(points: Tensor, start: Tensor, seed: int) -> Tensor:
    """The points that are no longer where they started, in random order."""
    moved = (points != start).flatten(1).any(1).nonzero().squeeze(1)
    return points[moved[torch.randperm(len(moved), generator=generator(seed, "points"))]]


class Look(NamedTuple):
    """What a model's own points look like, and what it makes of digits."""

    closer: float
    """Median distance of its points to the nearest training image, over that of noise."""
    gap: float
    """Mean score of its points minus the test images', in their deviations."""
    overestimated: float
    """Digits that score above the median of test images, in per cent."""
    darkness: float
    """Correlation of test images' scores with the share of their pixels that are black."""


def _look(
    energy: Energy,
    points: Tensor,
    train: Tensor,
    known: Tensor,
    digits: Tensor,
    seed: int,
    picture: Path | None,
) -> Look:
    nearest = torch.cdist(points.flatten(1), train.flatten(1)).min(1)
    noise = IMAGES.sample(len(points), generator(seed, "noise")).flatten(1)
    from_noise = torch.cdist(noise, train.flatten(1)).min(1).values
    if picture is not None:
        titled = (("points", points), ("nearest training images", train[nearest.indices]))
        rows = [(title, x[k : k + COLUMNS]) for k in (0, COLUMNS) for title, x in titled]
        save_images(picture / "points", rows)
    inside = scores(energy, known)
    return Look(
        (nearest.values.median() / from_noise.median()).item(),
        ((scores(energy, points).mean() - inside.mean()) / inside.std()).item(),
        100 * (scores(energy, digits) > inside.median()).float().mean().item(),
        torch.stack([inside, (known < BLACK).flatten(1).float().mean(1)]).corrcoef()[0, 1].item(),
    )


def _claims(name: str, looks: Sequence[Look], chains: Sequence[Unmixed]) -> list[Claim]:
    claims = [
        claim(
            f"{name}: points' distance to the nearest training image, over that of noise",
            "resemble the data",
            [look.closer for look in looks],
            lambda v: v < 0.6,
        ),
        claim(
            f"{name}: points' mean score minus the test images', in their deviations",
            "about 0",
            [look.gap for look in looks],
            lambda v: abs(v) < 3,
        ),
        claim(
            f"{name}: share of MNIST above the median score of test images, %",
            "high" if chains else "0",
            [look.overestimated for look in looks],
            (lambda v: v > 10) if chains else (lambda v: v < 1),
        ),
        claim(
            f"{name}: correlation of test images' scores with the share of black pixels",
            "not given",
            [look.darkness for look in looks],
            (lambda v: v > 0.5) if chains else (lambda v: abs(v) < 0.5),
        ),
    ]
    if not chains:
        return claims
    return [
        *claims,
        claim(
            f"{name}: share of chains from digits that end nearest to their own digit",
            "do not mix",
            [one.digits_stay for one in chains],
            lambda v: v > 0.9,
        ),
        claim(
            f"{name}: share of samples still of the same class, {LONG} runs of chains later",
            "do not mix",
            [one.samples_stay for one in chains],
            lambda v: v > 0.9,
        ),
        claim(
            f"{name}: digits' distance to the nearest sample, over that to training images",
            "not visited",
            [one.visited for one in chains],
            lambda v: v > 0.9,
        ),
    ]


def _errors(out: Path, energy: Energy, images: Tensor) -> None:
    """For every OOD set: histograms of scores, and the images that score highest."""
    known = scores(energy, images)
    for name in OOD_NAMES:
        strange = ood(name)[: len(images)]
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
