"""Fig. 5: partition points beside training images, and where the density errs.

Partition points of the model that PS-USP trained, each above the training image nearest to it; and,
for comparison, SRLMC's samples. Beyond the paper: for every method and OOD set its scores against
those of the test images, and the images that are most overestimated; whether SRLMC's chains mix;
and what its model does when only its nodes are exchanged. Presets are those of Table 1, whose
models are used if they are there.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import torch
from matplotlib.axes import Axes
from torch import Tensor

from ..appendix import IMAGES
from ..datasets import OOD_NAMES, fashion_mnist, ood, scaled
from ..energies import Conv
from ..engine import available, energy_on
from ..metrics import fpr_at_tpr
from ..negative import Replay
from ..plots import COLOURS, new_figure, save_figure, save_images
from ..progress import console
from ..randomness import generator
from ..train import DivergedError
from .chains import LONG, kept_class
from .claims import Claim, claim, save_results
from .exchange import with_own_nodes, with_points
from .fashion import Method, energy_of, labels, scores, snapshots, split, start, train
from .table1 import BAD, FAST, PAPER, SMOKE, Config

__all__ = ["FAST", "PAPER", "SMOKE", "run"]

COLUMNS = 12
"""Images in a row of the galleries."""
POINTS = 20 * COLUMNS
"""Points that are compared with the training images."""
BLACK = -0.9
"""Pixels below it count as black; digits are black for the most part."""


class Model(NamedTuple):
    """One of Table 1's."""

    method: Method
    energy: Conv
    """With averaged weights, as it scores. The points below follow the raw ones."""
    negative: tuple[Any, ...]
    """State of the negative phase."""
    points: Tensor
    """Particles, or the replay buffer, as far as training has moved them, in random order: what the
    model takes for its own law."""


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


def run(out: Path, config: Config, seeds: int) -> list[Claim]:
    """Galleries of every method's first seed; its points and its errors measured on every seed."""
    data, classes = split(), labels().train
    known = scaled(fashion_mnist("test"))[: config.images]
    outside: dict[str, Tensor] = {name: ood(name)[: config.images] for name in OOD_NAMES}
    digits = outside["MNIST"]
    models = {
        name: _trained(name, method, data.train, out.parent / "table1", seeds)
        for name, method in config.methods.items()
    }
    claims: list[Claim] = []
    for name, by_seed in models.items():
        looks, stays = [], []
        for seed, model in by_seed.items():
            picture = out / name.lower() if seed == min(by_seed) else None
            looks.append(_look(model, data.train, known, digits, seed, picture))
            if picture is not None:
                _errors(picture, model.energy, known, outside)
            if isinstance(model.method.phase, Replay):
                stays.append(_stay(model, model.method.phase, data.train, classes, seed, picture))
        if looks:
            claims += _claims(name, looks, stays)
    claims += _exchanges(out, models, data.train, known, digits)
    save_results(out / f"results{config.suffix}.json", claims)
    return claims


def _trained(
    name: str, method: Method, images: Tensor, folder: Path, seeds: int
) -> dict[int, Model]:
    """Table 1's models by seed, trained if they are not there; without those that diverge."""
    models = {}
    for seed in method.seeds(seeds):
        try:
            negative = train(name, method, images, folder, seed).state.negative
        except DivergedError as error:
            console.print(f"{name}, seed {seed}, is left out: {error}", markup=False)
            continue
        energy = energy_of(snapshots(folder, name, method, seed)[-1])
        points = _moved(negative[0], start(method, images, seed)[0], seed)
        models[seed] = Model(method, energy, negative, points)
    return models


def _moved(points: Tensor, start: Tensor, seed: int) -> Tensor:
    """The points that are no longer where they started, in random order."""
    moved = (points != start).flatten(1).any(1).nonzero().squeeze(1)
    return points[moved[torch.randperm(len(moved), generator=generator(seed, "points"))]]


def _look(
    model: Model, train: Tensor, known: Tensor, digits: Tensor, seed: int, picture: Path | None
) -> Look:
    points = model.points[:POINTS]
    nearest = torch.cdist(points.flatten(1), train.flatten(1)).min(1)
    noise = IMAGES.sample(len(points), generator(seed, "noise")).flatten(1)
    from_noise = torch.cdist(noise, train.flatten(1)).min(1).values
    if picture is not None:
        titled = (("points", points), ("nearest training images", train[nearest.indices]))
        rows = [(title, x[k : k + COLUMNS]) for k in (0, COLUMNS) for title, x in titled]
        save_images(picture / "points", rows)
    inside = scores(model.energy, known)
    return Look(
        (nearest.values.median() / from_noise.median()).item(),
        ((scores(model.energy, points).mean() - inside.mean()) / inside.std()).item(),
        _overestimated(inside, scores(model.energy, digits)),
        torch.stack([inside, (known < BLACK).flatten(1).float().mean(1)]).corrcoef()[0, 1].item(),
    )


def _overestimated(inside: Tensor, outside: Tensor) -> float:
    """Share of the scores outside that exceed the median of those inside, in per cent."""
    return 100 * (outside > inside.median()).float().mean().item()


def _stay(
    model: Model, phase: Replay, train: Tensor, classes: Tensor, seed: int, picture: Path | None
) -> float:
    """Share of the samples whose class stays while chains run on."""
    samples = model.points[:POINTS]
    energy = energy_on(available("native", model.energy, phase), model.energy)
    share, later = kept_class(energy, phase.sampler, samples, train, classes, seed)
    if picture is not None:
        title = f"{LONG * phase.sampler.steps:,} steps later"
        save_images(picture / "chains", [("samples", samples), (title, later)])
    return share


def _exchanges(
    out: Path,
    models: Mapping[str, Mapping[int, Model]],
    train: Tensor,
    known: Tensor,
    digits: Tensor,
) -> list[Claim]:
    """SRLMC's models trained on: with their own nodes, and with the points of the first PS-USP."""
    names = reversed(list(models))
    by_kind = {m.method.kind: name for name in names for m in models[name].values()}
    if set(by_kind) != {"srlmc", "ps-usp"}:
        return []
    theirs, ours = models[by_kind["srlmc"]], models[by_kind["ps-usp"]]
    rates: dict[str, list[float]] = {}
    for seed in sorted(theirs.keys() & ours.keys()):
        method, energy, negative, _ = theirs[seed]
        energies = {
            "SRLMC": energy,
            "trained on": with_own_nodes(energy, method, negative, train, seed),
            "nodes exchanged": with_points(energy, method, ours[seed].points, train, seed),
        }
        found = {name: (scores(e, known), scores(e, digits)) for name, e in energies.items()}
        if not rates:
            figure, panels = new_figure(columns=len(found), size=3.0)
            for panel, (name, pair) in zip(panels, found.items(), strict=True):
                title = f"{name}: FPR95 {100 * fpr_at_tpr(*pair):.0f} %"
                _histograms(panel, *pair, "MNIST", title)
            save_figure(figure, out / "exchange")
        for name, pair in found.items():
            rates.setdefault(name, []).append(100 * fpr_at_tpr(*pair))
    own, other = rates["trained on"], rates["nodes exchanged"]
    what = "FPR95 on MNIST, %"
    return [
        claim(
            f"{by_kind['srlmc']} trained on: {what} (above {BAD:g})",
            "high",
            own,
            lambda v: v > BAD,
        ),
        claim(
            f"the same with {by_kind['ps-usp']}'s points for nodes: {what} (at most half of that)",
            "not given",
            other,
            lambda v: v <= fmean(own) / 2,
        ),
    ]


def _claims(name: str, looks: Sequence[Look], stays: Sequence[float]) -> list[Claim]:
    """Of a method; ``stays`` is empty where there are no chains."""
    claims = [
        claim(
            f"{name}: points' distance to the nearest training image, over noise's (below 0.6)",
            "resemble the data",
            [look.closer for look in looks],
            lambda v: v < 0.6,
        ),
        claim(
            f"{name}: points' mean score minus the test images', in their deviations (within 3)",
            "about 0",
            [look.gap for look in looks],
            lambda v: abs(v) < 3,
        ),
        claim(
            f"{name}: share of MNIST above the median score of test images, % "
            + ("(above 10)" if stays else "(below 1)"),
            "high" if stays else "0",
            [look.overestimated for look in looks],
            (lambda v: v > 10) if stays else (lambda v: v < 1),
        ),
        claim(
            f"{name}: correlation of test images' scores with the share of black pixels "
            + ("(above 0.5)" if stays else "(within 0.5)"),
            "not given",
            [look.darkness for look in looks],
            (lambda v: v > 0.5) if stays else (lambda v: abs(v) < 0.5),
        ),
    ]
    if stays:
        what = f"{name}: samples still of the same class {LONG} runs of chains later (above 0.9)"
        claims.append(claim(what, "do not mix", stays, lambda v: v > 0.9))
    return claims


def _errors(out: Path, energy: Conv, images: Tensor, outside: Mapping[str, Tensor]) -> None:
    """For every OOD set: histograms of scores, and the images that score highest."""
    known = scores(energy, images)
    for name, strange in outside.items():
        found = scores(energy, strange)
        figure, (histogram, worst) = new_figure(columns=2, size=3.2)
        rate = 100 * fpr_at_tpr(known, found)
        _histograms(histogram, known, found, name, f"{name}: FPR95 {rate:.2f} %")
        top = found.argsort(descending=True)[:36]
        rows = strange[top].view(-1, 28, 28).split(6)
        grid = torch.cat([torch.cat(list(row), 1) for row in rows])
        worst.imshow(grid.numpy(), cmap="gray", vmin=-1, vmax=1)
        worst.set_title("most overestimated", fontsize=9)
        worst.set_axis_off()
        save_figure(figure, out / f"scores-{name.lower()}")


def _histograms(panel: Axes, known: Tensor, found: Tensor, name: str, title: str) -> None:
    """Scores of the test images and of another set; a line at the threshold of 95 %."""
    low = torch.cat([known, found]).quantile(0.02).item()
    span = (low, max(known.max().item(), found.max().item()))
    for values, label, colour in (
        (known, "Fashion-MNIST", COLOURS["data"]),
        (found, name, COLOURS["ood"]),
    ):
        panel.hist(values.clamp_min(low).numpy(), bins=100, range=span, density=True,
                   alpha=0.5, color=colour, label=label)  # fmt: skip
    panel.axvline(known.quantile(0.05).item(), color=COLOURS["data"], linewidth=0.8)
    panel.set_title(title, fontsize=9)
    panel.set_xlabel("log-density up to a constant", fontsize=7)
    panel.tick_params(labelsize=6)
    panel.legend(fontsize=7)
