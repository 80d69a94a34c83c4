"""What each part of the images recipe is worth: all of its halves, judged by what was left out.

The recipe has three parts that the paper does not: a spacing that follows the points, points that
start afresh at random fields, and an objective other than the likelihood. Each is taken away, alone
and together with the others. Every network is trained on Fashion-MNIST without some kinds, and
judged on these kinds *and* on changed images (:mod:`.left_out`), by its features and by its energy,
beside what needs no training. SRLMC, by likelihood and leveled, tells whether the objective alone
would do.

Presets (one thread):
    PAPER  as FAST: the paper has no such experiment.
    FAST   600 updates of each, without shoes and bags: two minutes each, SRLMC five.
    SMOKE  a few updates of few points: seconds.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from operator import le
from pathlib import Path

from torch import Tensor

from ..negative import CrowdedUSP
from ..objective import LIKELIHOOD, Leveled, Objective, Tempered
from ..recipes import Recipe
from ..recipes.images import crowded_recipe, image_recipe
from ..recipes.paper import srlmc_recipe
from ..recipes.recipe import AtData
from ..support.files import whole_file
from .claims import Claim, claim, save_results
from .image_models import image_run
from .image_problem import FASHION_MNIST, ImageSplit
from .left_out import Findings, controls, judged_by, kinds_in, trained_scores, without

OBJECTIVES: Mapping[str, Objective] = {
    "leveled": Leveled(10.0),
    "tempered": Tempered(10.0),
    "likelihood": LIKELIHOOD,
}
WHOLE_RECIPE = "ε adapts, fresh fields, leveled"
"""The recipe with all its parts."""
DIVERGED = "diverged"


@dataclass(frozen=True)
class AblationSettings:
    """How long each is trained, and without what."""

    updates: int = 600
    kinds: str = "shoes-and-bags"
    particles: int | None = None
    """Of the images recipe, instead of its own number."""


FAST = AblationSettings()
PAPER = FAST
SMOKE = AblationSettings(updates=2, particles=50)


def run(out: Path, config: AblationSettings, seeds: int) -> list[Claim]:
    """Train what is missing, judge all, compare each with the whole recipe."""
    known, unknown = without(FASHION_MNIST, kinds_in(FASHION_MNIST, config.kinds))
    made = dict(variants(config, known.train))
    found = {
        name: [_judged(name, recipe, (known, unknown), out, seed) for seed in range(seeds)]
        for name, recipe in made.items()
    }
    whole = made[WHOLE_RECIPE]
    for scorer, make in controls(whole, known.train).items():
        found[f"control: {scorer}"] = [{"": judged_by(make(), known, unknown)}]
    with whole_file(out / "ablation.md") as file:
        file.write(_markdown(found).encode())
    claims = list(_claims(found))
    rates = {name: [_rates(one) for one in ones] for name, ones in found.items()}
    save_results(out / "results.json", claims, fpr95=rates, config=asdict(config))
    return claims


def variants(config: AblationSettings, images: Tensor) -> Iterator[tuple[str, Recipe]]:
    """Every recipe by what it has, the whole one first."""
    whole = image_recipe(images)
    if config.particles is not None:
        whole = crowded_recipe(tuple(images.shape[1:]), 10.0, config.particles)
    whole = _shortened(whole, config.updates)
    assert isinstance(whole.phase, CrowdedUSP)
    spacings = {"ε adapts": whole.phase, "ε stays": replace(whole.phase, rate=0.0)}
    for (how, phase), fresh in itertools.product(spacings.items(), (True, False)):
        start = whole.start if fresh else AtData()
        given = phase if fresh else replace(phase, restarts=0.0, fresh=None)
        for aim, objective in OBJECTIVES.items():
            name = f"{how}, {'' if fresh else 'no '}fresh fields, {aim}"
            yield name, replace(whole, phase=given, start=start, objective=objective)
    chains = _shortened(srlmc_recipe(tuple(images.shape[1:])), config.updates)
    for aim in ("likelihood", "leveled"):
        yield f"SRLMC, {aim}", replace(chains, objective=OBJECTIVES[aim], score=whole.score)


def _shortened(recipe: Recipe, updates: int) -> Recipe:
    return replace(recipe, schedule=replace(recipe.schedule, updates=updates, cooling=0.25))


def _judged(
    name: str, recipe: Recipe, images: tuple[ImageSplit, Mapping[str, Tensor]], out: Path, seed: int
) -> dict[str, Findings] | None:
    """By features and by energy; None where training diverges."""
    known, unknown = images
    folder = name.replace("ε", "spacing").replace(",", "").replace(" ", "-")
    trained = image_run(folder, recipe, known.train, out, seed)
    if trained is None:
        return None
    scores = trained_scores(recipe, trained.energy, known.train)
    return {scorer: judged_by(make(), known, unknown) for scorer, make in scores.items()}


BySeed = Mapping[str, list[dict[str, Findings] | None]]
"""By variant, seed and score."""


def _rates(one: dict[str, Findings] | None) -> dict[str, tuple[float, float]] | None:
    return None if one is None else {scorer: f.mean_fpr95() for scorer, f in one.items()}


def _mean_of(ones: list[dict[str, Findings] | None], get: Callable[[Findings], float]) -> list[str]:
    """A cell per score: the mean over the seeds that did not diverge."""
    trained = [one for one in ones if one is not None]
    if not trained:
        return [DIVERGED]
    return [f"{sum(get(one[s]) for one in trained) / len(trained):.1f}" for s in trained[0]]


def _markdown(found: BySeed) -> str:
    lines = [
        "FPR95 in per cent: mean over the kinds left out / mean over changed images.",
        "",
        "| what | by features | by energy |",
        "|---|---|---|",
    ]
    for name, ones in found.items():
        kinds = _mean_of(ones, lambda f: f.mean_fpr95()[0])
        changed = _mean_of(ones, lambda f: f.mean_fpr95()[1])
        pairs = zip(kinds, changed, strict=True)
        cells = [a if a == DIVERGED else f"{a} / {b}" for a, b in pairs]
        cells += ["–"] * (2 - len(cells))  # a control is one score
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _claims(found: BySeed) -> Iterator[Claim]:
    """That nothing with a part less, and no control, is better than the whole recipe."""
    means = {
        name: [sum(_first(one).mean_fpr95()) / 2 for one in ones if one is not None]
        for name, ones in found.items()
    }
    whole = means.pop(WHOLE_RECIPE)
    if not whole:
        return
    best = sum(whole) / len(whole)
    yield claim(
        f"{WHOLE_RECIPE}: mean FPR95 of kinds and changed images",
        "not given",
        whole,
        lambda _: True,
    )
    for name, values in means.items():
        if values:
            yield claim(f"{name}: the same (not below)", "not given", values, partial(le, best))


def _first(one: dict[str, Findings]) -> Findings:
    """By features; of a control, by the one score that it is."""
    return next(iter(one.values()))
