"""Fig. 5: partition points beside training images, and where the score errs.

Partition points of the model that PS-USP trained, each above the training image nearest to it; and,
for comparison, SRLMC's samples. Beyond the paper: for every method and OOD set its scores against
those of the test images, and the images that are most overestimated; whether SRLMC's chains mix;
and what its model does when only its nodes are exchanged. Presets are those of Table 1, whose
models are used if they are there.
"""

from collections.abc import Mapping
from math import isfinite
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from ..domains import Box
from ..evaluation.metrics import fpr_at_tpr
from ..negative import Replay
from ..recipes import Recipe, Run
from ..support.plots import COLOURS, images_panel, new_figure, save_figure, save_images
from ..support.randomness import generator
from ..training.engine import available, energy_on
from .chains import RUNS_LATER, kept_class
from .claims import Claim, claim, save_results
from .exchange import with_own_nodes, with_points
from .image_models import Method, by_chains, energy_scores, image_run
from .image_problem import ImageProblem, OpenedSets
from .table1 import FAST, PAPER, SMOKE, Table1Settings
from .table1_claims import BAD

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FAST", "PAPER", "SMOKE", "run"]

GALLERY = 12
"""Images in a row."""
POINTS = 20 * GALLERY
"""Points that are compared with the training images."""
BLACK = -0.9
"""Pixels below it count as black; digits are black for the most part."""


class ImageModel(NamedTuple):
    """One of Table 1's."""

    recipe: Recipe
    energy: nn.Module
    """With averaged weights, as it scores. The points below follow the raw ones."""
    negative: tuple[Any, ...]
    """State of the negative phase."""
    points: Tensor
    """Particles, or the replay buffer, as far as training has moved them, in random order: what the
    model takes for its own law."""


class PointsLook(NamedTuple):
    """What a model's own points look like, and what it makes of the first OOD set."""

    closer: float
    """Median distance of its points to the nearest training image, over that of noise."""
    gap: float
    """Mean score of its points minus the test images', in their deviations."""
    overestimated: float
    """OOD images that score above the median of test images, in per cent."""
    darkness: float
    """Correlation of test images' scores with the share of their pixels that are black."""


def run(out: Path, config: Table1Settings, seeds: int) -> list[Claim]:
    """Galleries of every method's first seed; its points and its errors measured on every seed."""
    inside = config.problem
    data, labels, sets = inside.split(), inside.split_labels(), inside.opened(config.images)
    # Beside it, whatever set is inside.
    table1 = out.with_name(out.name.replace("fig5", "table1"))
    models = {
        name: _models(name, method, data.train, table1, seeds)
        for name, method in config.methods.items()
    }
    claims: list[Claim] = []
    for name, by_seed in models.items():
        looks, stays = [], []
        chains = any(by_chains(model.recipe) for model in by_seed.values())
        for seed, model in by_seed.items():
            picture = out / name.lower() if seed == min(by_seed) else None
            looks.append(points_look(model, data.train, sets, seed, picture))
            if picture is not None:
                _errors(picture, model.energy, inside.name, sets)
            if chains and labels is not None:
                stays.append(_stay(model, data.train, labels.train, seed, picture))
        if looks:
            claims += _points_claims(name, inside, looks, chains)
        if stays:
            claims.append(_mixing_claim(name, stays))
    claims += _exchanges(out, inside, models, data.train, sets)
    save_results(out / f"results{config.suffix}.json", claims)
    return claims


def _models(
    name: str, method: Method, images: Tensor, table1: Path, seeds: int
) -> dict[int, ImageModel]:
    """Table 1's models by seed, trained if they are not there; without those that diverge."""
    models = {}
    recipe = method.given(images)
    for seed in method.seeds(seeds):
        trained = image_run(name, recipe, images, table1, seed)
        if trained is None:
            continue
        negative = trained.state.negative
        start = Run(recipe, images, None, seed, show=False).state.negative[0]
        models[seed] = ImageModel(
            recipe, trained.energy, negative, moved_points(negative[0], start, seed)
        )
    return models


def moved_points(points: Tensor, start: Tensor, seed: int) -> Tensor:
    """The points that are no longer where they started, in random order."""
    moved = (points != start).flatten(1).any(1).nonzero().squeeze(1)
    return points[moved[torch.randperm(len(moved), generator=generator(seed, "points"))]]


def points_look(
    model: ImageModel, train: Tensor, sets: OpenedSets, seed: int, picture: Path | None
) -> PointsLook:
    """Look at a model's points, and draw some to ``picture`` if there is one."""
    points = model.points[:POINTS]
    nearest = torch.cdist(points.flatten(1), train.flatten(1)).min(1)
    law = Box(-1.0, 1.0, tuple(train.shape[1:]))
    noise = law.sample(len(points), generator(seed, "noise")).flatten(1)
    from_noise = torch.cdist(noise, train.flatten(1)).min(1).values
    if picture is not None:
        titled = (("points", points), ("nearest training images", train[nearest.indices]))
        rows = [(title, x[k : k + GALLERY]) for k in (0, GALLERY) for title, x in titled]
        save_images(picture / "points", [(title, x) for title, x in rows if len(x)])
    inside = energy_scores(model.energy, sets.inside)
    outside = energy_scores(model.energy, sets.outside[sets.first])
    black = (sets.inside < BLACK).flatten(1).float().mean(1)
    return PointsLook(
        (nearest.values.median() / from_noise.median()).item(),
        ((energy_scores(model.energy, points).mean() - inside.mean()) / inside.std()).item(),
        100 * (outside > inside.median()).float().mean().item(),
        torch.stack([inside, black]).corrcoef()[0, 1].item(),
    )


def _stay(
    model: ImageModel, train: Tensor, classes: Tensor, seed: int, picture: Path | None
) -> float:
    """Share of the samples whose class stays while chains run on."""
    phase = model.recipe.phase
    assert isinstance(phase, Replay)
    samples = model.points[:POINTS]
    energy = energy_on(available("native", model.energy, phase), model.energy)
    share, later = kept_class(energy, phase.sampler, samples, train, classes, seed)
    if picture is not None:
        title = f"{RUNS_LATER * phase.sampler.steps:,} steps later"
        save_images(picture / "chains", [("samples", samples), (title, later)])
    return share


def _exchanges(
    out: Path,
    inside: ImageProblem,
    models: Mapping[str, Mapping[int, ImageModel]],
    train: Tensor,
    sets: OpenedSets,
) -> list[Claim]:
    """SRLMC's models trained on: with their own nodes, and with the points of the first PS-USP.

    The control: their own samples, weighted as those points are, which are where they were.
    """
    names = reversed(list(models))
    kinds = {by_chains(m.recipe): name for name in names for m in models[name].values()}
    if len(kinds) < 2:
        return []
    theirs, ours = models[kinds[True]], models[kinds[False]]
    rates: dict[str, list[float]] = {}
    for seed in sorted(theirs.keys() & ours.keys()):
        recipe, energy, negative, samples = theirs[seed]
        energies = {
            "SRLMC": energy,
            "trained on": with_own_nodes(energy, recipe, negative, train, seed),
            "weighted": with_points(energy, recipe, samples, train, seed),
            "nodes exchanged": with_points(energy, recipe, ours[seed].points, train, seed),
        }
        found = {
            name: (energy_scores(e, sets.inside), energy_scores(e, sets.outside[sets.first]))
            for name, e in energies.items()
        }
        if not rates:
            figure, panels = new_figure(columns=len(found), size=3.0)
            for panel, (name, pair) in zip(panels, found.items(), strict=True):
                title = f"{name}: FPR95 {100 * fpr_at_tpr(*pair):.0f} %"
                _histograms(panel, pair, (inside.name, sets.first), title)
            save_figure(figure, out / "exchange")
        for name, pair in found.items():
            rates.setdefault(name, []).append(100 * fpr_at_tpr(*pair))
    if not rates:
        return []
    own, other = rates["trained on"], rates["nodes exchanged"]
    what = f"FPR95 on {sets.first}, %"
    weighted = f"the same with its own samples, weighted by exp(−E): {what} (above {BAD:g})"
    return [
        claim(
            f"{kinds[True]} trained on: {what} (above {BAD:g})",
            "high" if inside.paper_figures else "not given",
            own,
            lambda v: v > BAD,
        ),
        claim(weighted, "not given", rates["weighted"], lambda v: v > BAD),
        claim(
            f"the same with {kinds[False]}'s points for nodes: {what} (at most half of that)",
            "not given",
            other,
            lambda v: v <= fmean(own) / 2,
        ),
    ]


def _points_claims(
    name: str, inside: ImageProblem, looks: list[PointsLook], chains: bool
) -> list[Claim]:
    """Of a method, by ``chains`` or by partition points."""
    paper = inside.paper_figures is not None
    return [
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
            f"{name}: share of {next(iter(inside.ood))} above the median score of test images, % "
            + ("(above 10)" if chains else "(below 1)"),
            ("high" if chains else "0") if paper else "not given",
            [look.overestimated for look in looks],
            (lambda v: v > 10) if chains else (lambda v: v < 1),
        ),
        *_darkness_claims(name, looks, chains),
    ]


def _darkness_claims(name: str, looks: list[PointsLook], chains: bool) -> list[Claim]:
    """None where all images are as black."""
    values = [look.darkness for look in looks]
    if not all(map(isfinite, values)):
        return []
    what = f"{name}: correlation of test images' scores with the share of black pixels "
    if chains:
        return [claim(f"{what}(above 0.5)", "not given", values, lambda v: v > 0.5)]
    return [claim(f"{what}(within 0.5)", "not given", values, lambda v: abs(v) < 0.5)]


def _mixing_claim(name: str, stays: list[float]) -> Claim:
    what = f"{name}: samples still of the same class {RUNS_LATER} runs of chains later (above 0.9)"
    return claim(what, "do not mix", stays, lambda v: v > 0.9)


def _errors(out: Path, energy: nn.Module, inside: str, sets: OpenedSets) -> None:
    """For every OOD set: histograms of scores, and the images that score highest."""
    known = energy_scores(energy, sets.inside)
    for name, strange in sets.outside.items():
        found = energy_scores(energy, strange)
        figure, (histogram, worst) = new_figure(columns=2, size=3.2)
        rate = 100 * fpr_at_tpr(known, found)
        title = f"{name}: FPR95 {rate:.2f} %"
        _histograms(histogram, (known, found), (inside, name), title)
        top = found.argsort(descending=True)[:36]
        images_panel(worst, strange[top], 6, "most overestimated")
        save_figure(figure, out / f"scores-{name.lower()}")


def _histograms(
    panel: "Axes", scores: tuple[Tensor, Tensor], names: tuple[str, str], title: str
) -> None:
    """Scores of the test images and of another set; a line at the threshold of 95 %."""
    both = torch.cat(scores)
    low, high = both.quantile(0.02).item(), both.max().item()
    for values, label, colour in zip(scores, names, ("data", "ood"), strict=True):
        panel.hist(values.clamp_min(low).numpy(), bins=100, range=(low, high), density=True,
                   alpha=0.5, color=COLOURS[colour], label=label)  # fmt: skip
    panel.axvline(scores[0].quantile(0.05).item(), color=COLOURS["data"], linewidth=0.8)
    panel.set_title(title, fontsize=9)
    panel.set_xlabel("score: minus the energy", fontsize=7)
    panel.tick_params(labelsize=6)
    panel.legend(loc="upper right", fontsize=7)
