"""What Table 1 claims of the methods that were trained, judged by what they gave."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import ge, lt

from ..evaluation.metrics import Detection
from ..recipes import Recipe
from .baselines import NEAREST
from .claims import Claim, claim
from .image_models import by_chains
from .image_problem import ImageProblem
from .ood_table import Row

BAD = 10.0
"""An FPR95 above it is a failure."""


@dataclass(frozen=True)
class Trained:
    """What the seeds of a method gave."""

    recipe: Recipe
    found: Sequence[Mapping[str, Detection]]
    spans: Sequence[float]
    """Between the best and the worst FPR95 on the first OOD set in the last quarter, in points."""
    diverged: Sequence[int]
    bits: Sequence[float]
    """Per dimension that the energy has on test images, at least; the uniform law has eight."""


def table1_claims(
    inside: ImageProblem, methods: Mapping[str, Trained], rows: Mapping[str, Row]
) -> list[Claim]:
    """FPR95 in per cent: PS-USP at most the paper's and at rest, SRLMC bad where the paper's is."""
    claims = []
    for name in filter(rows.__contains__, methods):
        if not methods[name].recipe.schedule.updates:
            continue  # a control, of which nothing is claimed
        if by_chains(methods[name].recipe):
            claims += _failures(name, inside, rows[name])
            continue
        claims += _successes(name, inside, rows)
        per_set = [[100 * d.fpr95 for d in found] for found in rows[name].values()]
        what = f"{name}: FPR95 on the worst set, % (our aim: at most 1)"
        worst = max(per_set, key=statistics.fmean)
        claims.append(claim(what, "not given", worst, partial(ge, 1.0)))
        first = next(iter(inside.ood))
        what = f"{name}: widest span of FPR95 on {first} in the last quarter of a run"
        widest = max(methods[name].spans)
        claims.append(claim(what, "not given", [widest], partial(ge, 3.0)))
    return claims


def _failures(name: str, inside: ImageProblem, found: Row) -> list[Claim]:
    """Of SRLMC, where the paper's fails."""
    if inside.paper_figures is None:
        return []
    paper = zip(inside.ood, inside.paper_figures.fpr95["SRLMC"], strict=True)
    return [
        claim(
            f"{name}: FPR95 on {kind}, % (a failure: above {BAD:g})",
            f"{theirs}",
            [100 * d.fpr95 for d in found[kind]],
            partial(lt, BAD),
        )
        for kind, (theirs, _) in paper
        if theirs > BAD
    ]


def _successes(name: str, inside: ImageProblem, rows: Mapping[str, Row]) -> list[Claim]:
    """Of PS-USP: at most what the paper has, and what the nearest neighbour has."""
    claims = []
    for k, kind in enumerate(inside.ood):
        what, values = f"{name}: FPR95 on {kind}, %", [100 * d.fpr95 for d in rows[name][kind]]
        if inside.paper_figures is not None:
            theirs, _ = inside.paper_figures.fpr95["PS-USP"][k]
            claims.append(claim(what, f"{theirs}", values, partial(ge, theirs)))
        if NEAREST in rows:
            best = 100 * rows[NEAREST][kind][0].fpr95
            what += f" (nearest neighbour: {best:.2f})"
            claims.append(claim(what, "not given", values, partial(ge, best)))
    return claims
