"""Detectors side by side: how well each finds points unlike those it was fitted to.

Every detector is fitted to every problem (:mod:`uspebm.evaluation.anomaly_problems`) as it comes. A
mean rank depends on the problems and detectors it is taken over.
"""

import math
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.stats import studentized_range

from .anomaly_problems import AnomalyProblem
from .classical import MakeDetector
from .metrics import detection

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Judgement:
    """One detector on one problem; ``ap``, average precision with anomalies as the positives."""

    problem: str
    family: str
    detector: str
    seed: int
    auroc: float
    ap: float
    fit_seconds: float
    score_seconds: float


def compare_detectors(
    problems: Callable[[int], Iterable[AnomalyProblem]],
    detectors: Mapping[str, MakeDetector],
    seeds: Iterable[int],
) -> Iterator[Judgement]:
    """Fit and judge every detector on every problem of every seed, one result at a time."""
    for seed in seeds:
        for problem in problems(seed):
            for name, make in detectors.items():
                yield judgement_of(problem, name, make, seed)


def judgement_of(problem: AnomalyProblem, name: str, make: MakeDetector, seed: int) -> Judgement:
    """Fit and judge one detector on one problem."""
    points = np.concatenate([problem.inside, problem.outside])
    detector = make(seed)
    start = time.perf_counter()
    detector.fit(problem.train)
    fitted = time.perf_counter()
    scores = np.asarray(detector.score_samples(points))
    times = (fitted - start, time.perf_counter() - fitted)
    try:
        found = detection(*np.split(scores, [len(problem.inside)]))
    except ValueError as error:
        raise ValueError(f"{name} on {problem.name}, seed {seed}: {error}") from error
    return Judgement(problem.name, problem.family, name, seed, found.auroc, found.aupr_ood, *times)


def judgement_rows(results: Iterable[Judgement]) -> list[dict[str, Any]]:
    """For JSON."""
    return [asdict(result) for result in results]


def by_family(results: Sequence[Judgement], figure: str = "auroc") -> dict[str, dict[str, float]]:
    """For every family, each detector's mean ``figure`` over its problems and the seeds."""
    names = list(dict.fromkeys(r.detector for r in results))
    values: dict[str, dict[str, list[float]]] = {}
    for r in results:
        found = values.setdefault(r.family, {name: [] for name in names})
        found[r.detector].append(getattr(r, figure))
    for family, found in values.items():
        if len({len(v) for v in found.values()}) > 1:
            raise ValueError(f"{family}: some detectors have fewer results; finish the comparison")
    return {f: {n: statistics.fmean(v) for n, v in found.items()} for f, found in values.items()}


def mean_ranks(results: Sequence[Judgement]) -> dict[str, float]:
    """Mean over families of the rank by AUROC, 1 for the best; equals share their mean rank."""
    summary = list(by_family(results).values())
    values = np.array([list(found.values()) for found in summary]).round(9)  # equal but for sums
    above = (values[:, None, :] > values[:, :, None]).sum(2)
    equal = (values[:, None, :] == values[:, :, None]).sum(2)
    return dict(zip(summary[0], (above + (equal + 1) / 2).mean(0).tolist(), strict=True))


def critical_difference(detectors: int, families: int) -> float:
    """By so much mean ranks differ by chance at most, at the 5 per cent level (Nemenyi's test).

    Demsar (2006), *Statistical comparisons of classifiers over multiple data sets*: 2.728 is the
    critical value of five.

    >>> round(critical_difference(5, 30), 3)
    1.114
    """
    critical = studentized_range.ppf(0.95, detectors, np.inf) / math.sqrt(2)
    return float(critical * math.sqrt(detectors * (detectors + 1) / (6 * families)))


def comparison_table(results: Sequence[Judgement]) -> "Table":
    """For a terminal: AUROC in per cent, mean ranks and seconds."""
    from rich.table import Column, Table

    # Names are folded where there is no room: cut, nobody could tell them apart.
    names = [Column(name, justify="right", overflow="fold") for name in mean_ranks(results)]
    result = Table(Column("problem", overflow="fold"), *names, title="AUROC, per cent")
    for line in _lines(results, "auroc", "[bold]{}[/]"):
        result.add_row(*line)
    return result


def summary_table(results: Sequence[Judgement]) -> "Table":
    """For a terminal, where there are many problems: a line for each detector, the best first."""
    from rich.table import Table

    result = Table(title="Means over problems and seeds, per cent")
    for heading in ("detector", "AUROC", "average precision", "mean rank", "fit, s", "score, s"):
        side: Literal["left", "right"] = "left" if heading == "detector" else "right"
        result.add_column(heading, justify=side, overflow="fold")
    for line in summary_lines(results):
        result.add_row(*line)
    return result


def summary_lines(results: Sequence[Judgement]) -> list[tuple[str, ...]]:
    """For each detector, the best first: both figures in per cent, mean rank, and mean seconds."""
    ranks, lines = mean_ranks(results), []
    families = [by_family(results, figure).values() for figure in ("auroc", "ap")]
    for name in sorted(ranks, key=ranks.__getitem__):
        own = [r for r in results if r.detector == name]
        figures = [statistics.fmean(found[name] for found in each) for each in families]
        seconds = [
            statistics.fmean(getattr(r, f"{what}_seconds") for r in own)
            for what in ("fit", "score")
        ]
        cells = (*(f"{100 * mean:.2f}" for mean in figures), f"{ranks[name]:.2f}")
        lines.append((name, *cells, *(f"{value:.2g}" for value in seconds)))
    return lines


def comparison_markdown(results: Sequence[Judgement]) -> str:
    """AUROC and average precision, a table each."""
    text = "Per cent, mean over a family's problems and the seeds; the best in bold.\n"
    names = list(mean_ranks(results))
    for figure, title in (("auroc", "AUROC"), ("ap", "Average precision, anomalies positive")):
        text += f"\n{title}\n\n| problem | {' | '.join(names)} |\n|---|{'---:|' * len(names)}\n"
        text += "".join(f"| {' | '.join(line)} |\n" for line in _lines(results, figure, "**{}**"))
    return text


def _lines(results: Sequence[Judgement], figure: str, best: str) -> list[list[str]]:
    lines = []
    for family, found in by_family(results, figure).items():
        cells, top = [f"{100 * v:.1f}" for v in found.values()], f"{100 * max(found.values()):.1f}"
        lines.append([family, *(best.format(cell) if cell == top else cell for cell in cells)])
    summary = by_family(results, figure).values()
    means = [f"{100 * statistics.fmean(f[n] for f in summary):.1f}" for n in mean_ranks(results)]
    lines.append(["mean", *means])
    if figure == "auroc":
        ranks = mean_ranks(results)
        lines.append(["mean rank", *(f"{rank:.2f}" for rank in ranks.values())])
        for what in ("fit", "score"):
            seconds = dict.fromkeys(ranks, 0.0)
            for r in results:
                seconds[r.detector] += getattr(r, f"{what}_seconds")
            lines.append([f"{what}, s in all", *(f"{s:.2g}" for s in seconds.values())])
    return lines
