"""An experiment of the paper as a page: its claims, what was measured, figures and trainings."""

import base64
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..support.reading import read_at_most, reading
from .evidence import evidence_in
from .page import Block, Code, Gallery, Page, Picture, Remark, Section, Sheet
from .run_files import read_object, read_run, runs_below
from .run_page import command_section, runs_sections, said_seconds, truth_beside

MOST_PICTURES = 700_000
"""Bytes of all figures of a page together; those beyond are left out, and named."""

MOST_TEXT = 1 << 18
"""Bytes of a table in Markdown."""


def results_in(folder: Path) -> list[Path]:
    """Files with claims, one for each kind of results."""
    return [
        path
        for path in sorted(folder.glob("results*.json"))
        if isinstance(read_object(path).get("claims"), list)
    ]


def experiment_page(folder: Path) -> Page:
    """From ``results.json``, the figures beside it, and the runs below."""
    found = {path.stem: read_object(path) for path in results_in(folder)}
    kept = evidence_in(folder)
    with reading(folder):
        claims = [claim for results in found.values() for claim in results["claims"]]
        sheet = _sheet(claims)
        seeds = max((int(claim["seeds"]) for claim in claims), default=0)
        verdict = _verdict(claims, smoke=kept is not None and "smoke" in kept.command)
    runs = [read_run(path) for path in runs_below(folder)]
    taken = sum(run.seconds for run in runs) if kept is None else kept.seconds
    return Page(
        title=f"{folder.resolve().name}: what the paper claims, and what was measured",
        verdict=verdict,
        facts=(
            ("claims", f"{len(claims)}"),
            ("seeds", f"{seeds}"),
            ("runs", f"{len(runs)}"),
            ("time", said_seconds(taken)),
            *(() if kept is None else kept.facts),
        ),
        sections=(
            Section("Claims", (sheet,)),
            *_figures(folder),
            *runs_sections(runs, truth_beside(folder)),
            *_settings(found),
            *(() if kept is None else (command_section(kept.command),)),
        ),
    )


def _verdict(claims: Sequence[Mapping[str, Any]], smoke: bool) -> tuple[Remark, ...]:
    failed = [claim for claim in claims if not claim["holds"]]
    held = f"{len(claims) - len(failed)} of {len(claims)} claims hold in what was measured"
    if smoke:
        text = "A smoke run shows that everything works; its claims mean nothing."
        return (Remark("This says nothing of the paper", f"{text} {held}."),)
    if not failed:
        return (Remark(held, "", tone="good"),)
    missed = "; ".join(
        f"{claim['name']} ({_measured(claim)}, the paper says: {claim['paper']})"
        for claim in failed
    )
    advice = "take more seeds (--seeds), or the appendix's settings (--preset paper)"
    return (Remark(held, f"These do not: {missed}.", advice=advice, tone="bad"),)


def _sheet(claims: Sequence[Mapping[str, Any]]) -> Sheet:
    body = tuple(
        (str(c["name"]), str(c["paper"]), _measured(c), "yes" if c["holds"] else "NO")
        for c in claims
    )
    head = ("claim", "the paper says", "measured", "holds")
    return Sheet("Means over seeds, with standard deviations", head, body, texts=True)


def _measured(claim: Mapping[str, Any]) -> str:
    value = f"{claim['measured']:.4g}"
    if int(claim["seeds"]) < 2:
        return value
    return f"{value} ± {claim['spread']:.2g} ({claim['seeds']} seeds)"


def _figures(folder: Path) -> tuple[Section, ...]:
    """Pictures that stand beside the results, and tables in Markdown as they are."""
    left, pictures, names = MOST_PICTURES, [], []
    for path in sorted(folder.glob("*.png")):
        if path.stat().st_size > left:
            names.append(path.name)
            continue
        left -= path.stat().st_size
        source = f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}"
        pictures.append(Picture(source, f"The figure {path.stem}", path.name))
    blocks: list[Block] = []
    if pictures:
        note = f"Left out, for their size: {', '.join(names)}." if names else ""
        blocks.append(Gallery("Figures", tuple(pictures), note, large=True))
    blocks += [
        Code(read_at_most(path, MOST_TEXT).decode(errors="replace"), path.name)
        for path in sorted(folder.glob("*.md"))
    ]
    return (Section("Figures and tables", tuple(blocks)),) if blocks else ()


def _settings(found: Mapping[str, Mapping[str, Any]]) -> tuple[Section, ...]:
    blocks = tuple(
        Code(json.dumps(results["config"], indent=1), f"Settings in {name}.json")
        for name, results in found.items()
        if "config" in results
    )
    return (Section("Settings of the experiment", blocks),) if blocks else ()
