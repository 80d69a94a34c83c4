"""Table 1: out-of-distribution detection on Fashion-MNIST, or another set, by one score.

SRLMC and PS-USP with the appendix's settings, our crowded PS-USP, and the detectors that a user
would try first. Development looks at proxies (LOG.md lists every look at the OOD sets); what is
scored are averaged weights, by their last update.

Presets (two cores, times on Fashion-MNIST by the benchmark and per seed):
    PAPER  the appendix's SRLMC in full (24,000 updates, 50 epochs of 60,000 images; two hours,
           if it does not diverge, as seeds 0 and 2 do at updates 4,400 and 5,764).
           PS-USP (N = 100, ε = 10, Adam 1e-3) within a budget: 2,400 updates with n = 10,000 by
           both readings of Λ (80 and 130 minutes), and 200 with each of its n, one seed (6 to 8
           minutes).
    FAST   our PS-USP, scored by its energy (52 to 55 minutes on one thread of a busy machine), by
           likelihood alone, and by the features of a lighter training (nine minutes); and the
           appendix's SRLMC for as many updates, 2,400 (28 minutes on one thread).
    SMOKE  a few updates on a few images: seconds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

from torch import Tensor, nn

from ..detector.energy_detector import EnergyDetector
from ..detector.folder import save_model
from ..domains import Box
from ..evaluation.metrics import fpr_at_tpr
from ..evaluation.uniform_bound import least_bits_per_dimension
from ..negative import Langevin, Replay
from ..objective import Likelihood
from ..recipes import Recipe, Run, Schedule
from ..recipes.images import crowded_recipe, energy_recipe, image_recipe
from ..recipes.paper import EPOCHS_50, ps_usp_recipe, srlmc_recipe
from ..recipes.plain import as_plain
from ..support.files import whole_file
from ..support.progress import console
from ..types import Energy
from .baselines import BASELINES, kept_detections
from .claims import Claim, save_results
from .image_models import Method, energy_scores, image_run, last_quarter
from .image_problem import FASHION_MNIST, ImageProblem, ImageSplit, OpenedSets, problem
from .ood_table import OODTable, judged, row
from .table1_claims import Trained, table1_claims


@dataclass(frozen=True)
class Table1Settings:
    """What is trained, on what, and on how many images of each set it is judged."""

    methods: Mapping[str, Method]
    problem: ImageProblem = FASHION_MNIST
    baselines: bool = True
    images: int = 10_000
    """Images of each test set that are scored, at most."""
    part: bool = False
    """Whether methods were left out."""

    @property
    def suffix(self) -> str:
        """Of files with results: those of a part, or another set, do not take another's place."""
        names = [] if self.problem is FASHION_MNIST else [self.problem.name.lower()]
        return "".join(f"-{name}" for name in (*names, *(self.methods if self.part else ())))

    def only(self, names: Sequence[str]) -> "Table1Settings":
        """Of the methods, those; and no baselines."""
        if unknown := [name for name in names if name not in self.methods]:
            raise ValueError(f"there is no method {unknown[0]!r}, but {', '.join(self.methods)}")
        chosen = {name: method for name, method in self.methods.items() if name in names}
        return replace(self, methods=chosen, baselines=False, part=True)

    def rolling_back(self, times: int) -> "Table1Settings":
        """The same, where a divergence does not end a run until it was gone back from so often."""
        methods = {name: replace(m, rollbacks=times) for name, m in self.methods.items()}
        return replace(self, methods=methods)

    def inside(self, name: str) -> "Table1Settings":
        """The same on another in-distribution set: a name, or a path to images."""
        return replace(self, problem=problem(name))


def _shape(images: Tensor) -> tuple[int, ...]:
    return tuple(images.shape[1:])


def _srlmc(updates: int, images: Tensor) -> Recipe:
    return srlmc_recipe(_shape(images), updates)


def _ps_usp(
    particles: int, updates: int, reading: Literal["list", "text"], images: Tensor
) -> Recipe:
    return ps_usp_recipe(_shape(images), particles, updates, reading)


def _by_likelihood(images: Tensor) -> Recipe:
    """Ours by maximum likelihood, as the others are: what the leveled objective is for."""
    return replace(energy_recipe(images), objective=Likelihood())


def _untrained(images: Tensor) -> Recipe:
    """Features of a network as it is before training: what training is worth."""
    recipe = image_recipe(images)
    return replace(recipe, schedule=replace(recipe.schedule, updates=0))


_SMOKE = Schedule(updates=8, batch_size=10, snapshot_every=2)


def _smoke_srlmc(images: Tensor) -> Recipe:
    domain = Box(-1.0, 1.0, _shape(images))
    phase = Replay(Langevin(domain, 10, 2, 2.0, 0.01, domain), capacity=20)
    return replace(srlmc_recipe(domain.shape), phase=phase, schedule=_SMOKE)


def _smoke_crowded(images: Tensor) -> Recipe:
    return replace(crowded_recipe(_shape(images), 10.0, particles=50), schedule=_SMOKE)


PAPER = Table1Settings(
    methods={
        "SRLMC": Method(partial(_srlmc, EPOCHS_50)),
        "PS-USP": Method(partial(_ps_usp, 10_000, 2400, "list")),
        "PS-USP-text": Method(partial(_ps_usp, 10_000, 2400, "text")),
        **{
            f"PS-USP-{n}": Method(partial(_ps_usp, n, 200, "list"), most_seeds=1)
            for n in (10_000, 25_000, 50_000)
        },
    },
    baselines=False,  # as in the other table
)
FAST = Table1Settings(
    methods={
        "SRLMC": Method(partial(_srlmc, 2400)),
        "crowded-PS-USP": Method(energy_recipe),
        "crowded-PS-USP-mle": Method(_by_likelihood),
        "crowded-features": Method(image_recipe),
        "random-features": Method(_untrained),
    }
)
SMOKE = Table1Settings(
    methods={"SRLMC": Method(_smoke_srlmc), "crowded-PS-USP": Method(_smoke_crowded)},
    baselines=False,
    images=200,
)


def run(out: Path, config: Table1Settings, seeds: int) -> list[Claim]:
    """Train what is missing, score, compare."""
    data, sets = config.problem.split(), config.problem.opened(config.images)
    by_name = {name: _trained(config, name, data, sets, out, seeds) for name in config.methods}
    rows = {name: row(trained.found) for name, trained in by_name.items() if trained.found}
    for name, baseline in BASELINES.items() if config.baselines else ():
        stem = out / "baselines" / name.replace(" ", "-")
        rows[name] = row(
            [
                kept_detections(Path(f"{stem}-{seed}.json"), baseline, seed, data.train, sets)
                for seed in baseline.seeds(seeds)
            ]
        )
    diverged = {name: trained.diverged for name, trained in by_name.items() if trained.diverged}
    bits = {name: trained.bits for name, trained in by_name.items() if trained.bits}
    table = OODTable(config.problem, rows, diverged, len(sets.inside), bits)
    with whole_file(out / f"table1{config.suffix}.md") as file:
        file.write(table.markdown().encode())
    console.print(table.terminal())
    claims = table1_claims(config.problem, by_name, rows)
    save_results(
        out / f"results{config.suffix}.json",
        claims,
        rows={n: {k: [d._asdict() for d in ds] for k, ds in r.items()} for n, r in rows.items()},
        spans={name: trained.spans for name, trained in by_name.items()},
        diverged=diverged,
        bits_per_dimension=bits,
        recipes={name: as_plain(trained.recipe) for name, trained in by_name.items()},
        images=len(sets.inside),
    )
    return claims


def _trained(
    config: Table1Settings, name: str, data: ImageSplit, sets: OpenedSets, out: Path, seeds: int
) -> Trained:
    recipe = config.methods[name].given(data.train)
    found, spans, diverged, bits = [], [], [], []
    for seed in config.methods[name].seeds(seeds):
        trained = image_run(name, recipe, data.train, out, seed)
        if trained is None:
            diverged.append(seed)
            continue
        *quarter, last = (
            recipe.scored_by(energy, data.train, seed)
            for energy in (*last_quarter(trained), trained.energy)
        )
        found.append(judged(partial(energy_scores, last), sets))
        spans.append(span(quarter, sets))
        law = Box(-1.0, 1.0, _shape(sets.inside))
        bits.append(least_bits_per_dimension(trained.energy, sets.inside, law))
        title = f"{config.problem.name} by {name}, seed {seed}"
        model = _kept(trained, last, data)
        save_model(model, out / "models" / f"{name}-{seed}", title, _about(data, config.problem))
    return Trained(recipe, found, spans, diverged, bits)


def _kept(trained: Run, energy: nn.Module, data: ImageSplit) -> EnergyDetector:
    """As a model that others can use."""
    return EnergyDetector.from_energy(
        energy,
        data.held_out,
        recipe=trained.recipe,
        random_state=trained.seed,
        calibration=1 / 12,  # what the split holds back: a clone trains on these, or 500 fewer
        of_bytes=True,
    )


def _about(data: ImageSplit, inside: ImageProblem) -> str:
    return (
        f"{len(data.train):,} training images of {inside.name}, calibrated on "
        f"{len(data.held_out):,} further ones, which development looked at too"
    )


def span(energies: Sequence[Energy], sets: OpenedSets) -> float:
    """Between the best and the worst FPR95 of the energies on the first OOD set, in points."""
    inside, outside = sets.inside, sets.outside[sets.first]
    found = [
        100 * fpr_at_tpr(energy_scores(e, inside), energy_scores(e, outside)) for e in energies
    ]
    return max(found, default=0.0) - min(found, default=0.0)
