"""Detectors side by side, as a page."""

import json
from collections.abc import Sequence
from pathlib import Path

from ..evaluation.comparison import (
    Judgement,
    by_family,
    critical_difference,
    mean_ranks,
    summary_lines,
)
from ..support.reading import read_at_most, reading
from .curves import label
from .evidence import evidence_in
from .page import Chart, Figure, Page, Remark, Section, Sheet, Tone, Words
from .run_files import MOST_JSON
from .run_page import command_section, said_seconds

COMPARED = "compare.json"
OWN_DETECTOR = "EnergyDetector"
BAR_COLOURS = (
    *("@ps_usp", "@srlmc", "@importance", "@ood", "@third", "@fourth"),
    *("@fifth", "@sixth", "@seventh", "@data"),
)
MOST_BARS = 8
"""Problems whose bars can be told apart; of more, the table says it alone."""
MEANS = "Means over problems and seeds"
MEANS_HEAD = ("detector", "AUROC, %", "average precision, %", "mean rank", "fit, s", "score, s")
JUDGED_BY = {"auroc": "AUROC", "ap": "Average precision, anomalies positive"}


def is_comparison(folder: Path) -> bool:
    """Whether detectors were compared in ``folder``."""
    return (folder / COMPARED).is_file()


def comparison_page(folder: Path) -> Page:
    """From ``compare.json``."""
    path = folder / COMPARED
    with reading(path):
        results = [Judgement(**row) for row in json.loads(read_at_most(path, MOST_JSON))]
        if not results:
            raise ValueError("it has no results")
    kept = evidence_in(folder)
    seconds = sum(result.fit_seconds + result.score_seconds for result in results)
    ranks = mean_ranks(results)
    problems = len({r.problem for r in results})
    families, seeds = ({getattr(r, what) for r in results} for what in ("family", "seed"))
    return Page(
        title="Detectors compared",
        verdict=_verdict(ranks, len(families)),
        facts=(
            ("detectors", f"{len(ranks)}"),
            ("problems", f"{problems:,}, in {_said_families(len(families))}"),
            ("seeds", f"{len(seeds)}"),
            ("time of fitting and scoring", said_seconds(seconds)),
            *(() if kept is None else kept.facts),
        ),
        sections=(
            Section("In the mean", (Sheet(MEANS, MEANS_HEAD, tuple(summary_lines(results))),)),
            *(_by_problem(results, figure, title) for figure, title in JUDGED_BY.items()),
            *(() if kept is None else (command_section(kept.command),)),
        ),
    )


def _said_families(count: int) -> str:
    return "1 family" if count == 1 else f"{count:,} families"


def _verdict(ranks: dict[str, float], families: int) -> tuple[Remark, ...]:
    first = min(ranks, key=ranks.__getitem__)
    leaders = [name for name, rank in ranks.items() if rank == ranks[first]]
    order = ", ".join(f"{name} {ranks[name]:.2f}" for name in sorted(ranks, key=ranks.__getitem__))
    text = f"Mean ranks by AUROC, 1 is best: {order}."
    if families < 2:
        chance = "On a single family of problems, ranks may differ by chance."
        apart = float("inf")
    else:
        apart = critical_difference(len(ranks), families)
        chance = (
            f"Ranks that differ by less than {apart:.2f} may do so by chance (Nemenyi, 5 per cent)."
        )
    lead = min((rank for name, rank in ranks.items() if name not in leaders), default=apart)
    how = "comes" if len(leaders) == 1 else "come"
    sure = lead - ranks[first] >= apart
    tone: Tone = "good" if sure else "plain"
    remarks = [Remark(f"{' and '.join(leaders)} {how} first", f"{text} {chance}", tone=tone)]
    if OWN_DETECTOR in ranks and OWN_DETECTOR not in leaders:
        behind = ranks[OWN_DETECTOR] - ranks[first]
        by = "by more than chance" if behind >= apart else "which may be chance"
        remarks.append(
            Remark(
                f"{OWN_DETECTOR} is {behind:.2f} ranks behind, {by}",
                "On data like these, another detector finds more.",
                advice=f"use {first}, or give faults you know (--faults) to compare by those",
                tone="bad",
            )
        )
    missing = "How well faults of yours are found, unless they were given (--faults)."
    return (*remarks, Remark("What this does not tell", missing))


def _by_problem(results: Sequence[Judgement], figure: str, title: str) -> Section:
    found = by_family(results, figure)
    names = list(mean_ranks(results))
    bars: list[Figure] = [
        {
            "type": "bar",
            "x": [label(family) for family in found],
            "y": [100 * values[name] for values in found.values()],
            "name": label(name),
            "marker": {"color": BAR_COLOURS[k % len(BAR_COLOURS)]},
        }
        for k, name in enumerate(names)
    ]
    layout = {"barmode": "group", "showlegend": True, "yaxis": {"title": {"text": "per cent"}}}
    chart = Chart(
        title,
        {"data": bars, "layout": layout},
        f"Bars of {title} for every problem and detector; the table below has the numbers.",
        wide=True,
    )
    body = tuple(
        (family, *(f"{100 * values[name]:.1f}" for name in names))
        for family, values in found.items()
    )
    sheet = Sheet(f"{title}, per cent", ("problem", *names), body)
    said = Words("Means over a family's problems and the seeds.")
    return Section(title, (said, chart, sheet) if len(found) <= MOST_BARS else (said, sheet))
