"""Table 1: out-of-distribution detection on Fashion-MNIST by density alone.

SRLMC and PS-USP with the appendix's settings, our crowded PS-USP, and the detectors that a user
would try first. No OOD image is used for any choice: development looks at proxies.

Presets (two cores, times by the benchmark and per seed):
    PAPER  the appendix's SRLMC in full (50 epochs: 24,000 updates, two hours). PS-USP (N = 100,
           ε = 10, Adam 1e-3) within a budget, one seed: 600 updates with n = 10,000 (20 minutes),
           and 200 with each of its n (6 to 8 minutes).
    FAST   our PS-USP (48 to 52 minutes on one thread of a busy machine), and the appendix's SRLMC
           for as many updates, 2,400 (28 minutes on one thread).
    SMOKE  a few updates on a few images: seconds.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from operator import ge, lt
from pathlib import Path
from typing import Any

from torch import Tensor

from ..appendix import FASHION_PS_USP, FASHION_SRLMC, IMAGES
from ..datasets import OOD_NAMES, fashion_mnist, ood, scaled
from ..files import whole_file
from ..metrics import Detection, fpr_at_tpr
from ..modelfile import save
from ..negative import CrowdedUSP, Langevin, Replay
from ..progress import console
from ..proposals import RandomFields
from ..train import DivergedError
from ..types import Energy
from . import baselines
from .claims import Claim, claim, save_results
from .fashion import Method, as_detector, energy_of, scores, snapshots, split, train
from .ood_table import PAPER_FPR95, Row, judged, markdown, row, terminal
from .training import Recipe

DATA = (
    "55,000 training images of Fashion-MNIST, calibrated on 2,500 further ones, which development "
    "looked at too"
)
"""For the models' cards."""
BAD = 10.0
"""An FPR95 above it is a failure."""

CROWDED = CrowdedUSP(
    phase=replace(FASHION_PS_USP, rounds=20, ascent_size=2.0),
    restarts=6.25,  # a twentieth of what is visited
    fresh=RandomFields((1, 28, 28)),
)


@dataclass(frozen=True)
class Config:
    methods: Mapping[str, Method] = field(default_factory=dict)
    baselines: bool = True
    images: int = 10_000
    """Images of each test set that are scored."""

    def only(self, names: Sequence[str]) -> "Config":
        """Of the methods, those; and no baselines."""
        if unknown := [name for name in names if name not in self.methods]:
            raise ValueError(f"there is no method {unknown[0]!r}, but {', '.join(self.methods)}")
        chosen = {name: method for name, method in self.methods.items() if name in names}
        return replace(self, methods=chosen, baselines=False)


def _srlmc(steps: int) -> Method:
    recipe = Recipe("adam", 1e-3, steps=steps, batch_size=125)
    return Method(FASHION_SRLMC, recipe, noise=0.1)


def _ps_usp(particles: int, steps: int) -> Method:
    recipe = Recipe("adam", 1e-3, steps=steps, batch_size=125)
    return Method(replace(FASHION_PS_USP, particles=particles), recipe, most_seeds=1)


PAPER = Config(
    methods={
        "SRLMC": _srlmc(steps=24_000),
        "PS-USP": _ps_usp(10_000, steps=600),
        **{f"PS-USP-{n}": _ps_usp(n, steps=200) for n in (10_000, 25_000, 50_000)},
    },
    baselines=False,  # as in the other table
)
FAST = Config(
    methods={
        "SRLMC": _srlmc(steps=2400),
        "crowded-PS-USP": Method(
            CROWDED,
            Recipe(
                "adam",
                1e-3,
                steps=2400,
                batch_size=125,
                average_decay=0.995,
                level=10.0,
                cool=0.25,
            ),
            afresh=0.05,
        ),
    }
)
SMOKE = Config(
    methods={
        "SRLMC": Method(
            Replay(Langevin(IMAGES, 10, 2, 2.0, 0.01, IMAGES), capacity=20),
            Recipe("adam", 1e-3, steps=8, batch_size=10),
            noise=0.1,
        ),
        "crowded-PS-USP": Method(
            replace(
                CROWDED,
                phase=replace(FASHION_PS_USP, particles=50, active=10, nodes=20, rounds=2),
                restarts=0.5,
            ),
            Recipe("adam", 1e-3, steps=8, batch_size=10),
            afresh=0.2,
        ),
    },
    baselines=False,
    images=200,
)


def run(out: Path, config: Config, seeds: int) -> list[Claim]:
    """Train what is missing, score, compare."""
    data = split()
    inside = scaled(fashion_mnist("test"))[: config.images]
    outside: dict[str, Tensor] = {name: ood(name)[: config.images] for name in OOD_NAMES}
    rows: dict[str, Row] = {}
    spans: dict[str, list[float]] = {}
    diverged: dict[str, list[int]] = {}
    for name, method in config.methods.items():
        found = []
        for seed in method.seeds(seeds):
            try:
                train(name, method, data.train, out, seed)
            except DivergedError as error:
                # It would again; the other rows should not have to do without each other.
                console.print(f"{name}, seed {seed}, is left out: {error}", markup=False)
                diverged.setdefault(name, []).append(seed)
                continue
            energies = [energy_of(path) for path in snapshots(out, name, method, seed)]
            found.append(judged(partial(scores, energies[-1]), inside, outside))
            spans.setdefault(name, []).append(_span(energies, inside, outside["MNIST"]))
            save(
                as_detector(energies[-1], data.held_out, method, seed),
                out / "models" / f"{name}-{seed}",
                f"Fashion-MNIST by {name}, seed {seed}",
                DATA,
                training=plain(asdict(method)),
            )
        if found:
            rows[name] = row(found)
    if config.baselines:
        for name, baseline in BASELINES.items():
            several = range(seeds if baseline.by_chance else 1)
            rows[name] = row(
                [_kept(out, name, baseline, s, data.train, inside, outside) for s in several]
            )
    with whole_file(out / "table1.md") as file:
        file.write(markdown(rows, config.images).encode())
    console.print(terminal(rows))
    claims = _claims(config.methods, rows, spans)
    save_results(
        out / "results.json",
        claims,
        rows={n: {k: [d._asdict() for d in ds] for k, ds in r.items()} for n, r in rows.items()},
        spans=spans,
        diverged=diverged,
        config=plain(asdict(config)),
    )
    return claims


def plain(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings that JSON can hold."""
    result: dict[str, Any] = json.loads(json.dumps(settings, default=str))
    return result


@dataclass(frozen=True)
class Baseline:
    """A detector that a user would try first."""

    make: Callable[[Tensor, int], baselines.Score]
    by_chance: bool
    """Whether seeds matter."""


NEAREST = "nearest neighbour"
BASELINES = {
    NEAREST: Baseline(lambda x, _: baselines.nearest_neighbour(x), by_chance=False),
    "10 nearest neighbours": Baseline(
        lambda x, _: baselines.nearest_neighbour(x, 10), by_chance=False
    ),
    "PCA reconstruction": Baseline(lambda x, _: baselines.pca_reconstruction(x), by_chance=False),
    "Gaussian mixture on PCA": Baseline(baselines.gaussian_mixture, by_chance=True),
    "isolation forest": Baseline(baselines.isolation_forest, by_chance=True),
    "autoencoder": Baseline(baselines.autoencoder, by_chance=True),
}


def _kept(
    out: Path,
    name: str,
    baseline: Baseline,
    seed: int,
    train: Tensor,
    inside: Tensor,
    outside: Mapping[str, Tensor],
) -> dict[str, Detection]:
    """What a baseline finds, kept in a file: minutes each, and no other run would differ."""
    path = out / "baselines" / f"{name.replace(' ', '-')}-{seed}-{len(inside)}.json"
    if not path.exists():
        console.print(f"{name}, seed {seed} ...")
        found = judged(baseline.make(train, seed), inside, outside)
        with whole_file(path) as file:
            file.write(json.dumps({k: d._asdict() for k, d in found.items()}).encode())
    return {k: Detection(**d) for k, d in json.loads(path.read_text()).items()}


def _span(energies: Sequence[Energy], inside: Tensor, outside: Tensor) -> float:
    """Between the best and the worst FPR95 of the last quarter's snapshots, in points."""
    found = [100 * fpr_at_tpr(scores(e, inside), scores(e, outside)) for e in energies]
    return max(found) - min(found)


def _claims(
    methods: Mapping[str, Method], rows: Mapping[str, Row], spans: Mapping[str, Sequence[float]]
) -> list[Claim]:
    """FPR95 in per cent: PS-USP at most the paper's and at rest, SRLMC bad where the paper's is."""
    claims = []
    for name in filter(rows.__contains__, methods):
        fails = methods[name].kind == "srlmc"
        paper = PAPER_FPR95["SRLMC" if fails else "PS-USP"]
        for kind, (theirs, _) in zip(OOD_NAMES, paper, strict=True):
            what, values = f"{name}: FPR95 on {kind}, %", [100 * d.fpr95 for d in rows[name][kind]]
            if fails:
                if theirs > BAD:
                    what += f" (a failure: above {BAD:g})"
                    claims.append(claim(what, f"{theirs}", values, partial(lt, BAD)))
                continue
            claims.append(claim(what, f"{theirs}", values, partial(ge, theirs)))
            if NEAREST in rows:
                best = 100 * rows[NEAREST][kind][0].fpr95
                what += f" (nearest neighbour: {best:.2f})"
                claims.append(claim(what, "not given", values, partial(ge, best)))
        if not fails:
            what = f"{name}: widest span of FPR95 on MNIST in the last quarter of a run"
            claims.append(claim(what, "not given", [max(spans[name])], lambda v: v <= 3))
    return claims
