"""The demo as a page: what PS-USP does that SRLMC does not."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..support.reading import reading
from .densities import METHOD_COLOURS, method_name
from .diagnoses import diagnosed
from .evidence import evidence_in
from .page import Block, Chart, Page, Remark, Section, Sheet, Words
from .run_files import RunFiles, read_object, read_run
from .run_page import (
    command_section,
    density_blocks,
    run_sections,
    run_verdict,
    said_seconds,
    settings_section,
    truth_beside,
)

PARTITIONED, CHAINED = "ps_usp", "srlmc"
LEARNED = 0.1
"""KL(p‖q) in nats up to which a density is called learned."""
WHY = (
    "Both methods push the energy up at points that stand in for the model, and down at the data. "
    "SRLMC's points are the ends of short chains. Chains hardly cross from one mode to another, so "
    "their ends lie where the data lie, however much mass the model gives to each mode, and to the "
    "region between them: training sees nothing wrong, and comes to rest at a wrong density.",
    "PS-USP spreads its points evenly over all that the model might call likely, and weights each "
    "by the model's own density there. A mode with too much mass weighs too much, and so does a "
    "region without data: the gradient pushes it down. Its points need not be samples, so nothing "
    "has to cross between modes.",
)
PLAYED = (
    "Drag the slider: everything starts in the rightmost mode. White dots are the points that each "
    "method learns from: partition points on the side of PS-USP, ends of chains on that of SRLMC. "
    "Many of SRLMC's dots lie where its density is next to nothing: they count alike wherever they "
    "are, so training does not notice."
)


def is_demo(folder: Path) -> bool:
    """Whether the demo ran in ``folder`` to its end."""
    return (folder / "config.json").is_file() and (folder / "results.json").is_file()


def demo_page(folder: Path) -> Page:
    """From what the demo leaves."""
    path = folder / "results.json"
    results = read_object(path)
    runs = {
        name: read_run(folder / name) for name in (PARTITIONED, CHAINED) if (folder / name).is_dir()
    }
    with reading(path):
        verdict, figures, facts = demo_verdict(results), _figures(results), _facts(results)
    kept = evidence_in(folder)
    once_more = () if kept is None else (command_section(kept.command),)
    players = density_blocks(list(runs.values()), truth_beside(folder), "Densities", PLAYED)
    return Page(
        title="PS-USP and SRLMC on a mixture of six Gaussians",
        verdict=verdict,
        facts=facts,
        sections=(
            Section("What was learned", players),
            Section("How good it is", figures),
            Section("Why", tuple(map(Words, WHY))),
            *_training(runs),
            settings_section(runs),
            *once_more,
        ),
    )


def demo_verdict(results: Mapping[str, Any]) -> tuple[Remark, ...]:
    """Which of the two learned the density."""
    return tuple(_judged(name, results[name]) for name in (PARTITIONED, CHAINED))


def _judged(name: str, fit: Mapping[str, Any]) -> Remark:
    masses = [float(mass) for mass in fit["mode_mass"]]
    kl, strange = float(fit["kl"]), float(fit["ood_share"])
    figures = (
        f"KL(p‖q) is {kl:.3f} nats; the six modes, with {1 / len(masses):.3f} of the mass each, "
        f"have from {min(masses):.3f} to {max(masses):.3f} of it; in {strange:.1%} of the region "
        "without data the model is denser than at half of the data."
    )
    if kl <= LEARNED:
        text = f"{figures} Its density can be trusted here, also to tell what is unlike the data."
        return Remark(f"{method_name(name)} learned the density", text, tone="good")
    advice = "train longer (--steps): its points have to find all modes first"
    if name == CHAINED:
        advice = "use PS-USP: the error comes of how SRLMC makes its points, not of too few updates"
    return Remark(
        f"{method_name(name)} did not learn the density",
        f"{figures} Do not use it to tell what is unlike the data.",
        advice=advice,
        tone="bad",
    )


def _facts(results: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    config = results["config"]
    seconds = sum(float(results[name]["seconds"]) for name in (PARTITIONED, CHAINED))
    return (
        ("data", "draws from six Gaussians in the plane, each with a sixth of the mass"),
        ("started", "all points in the rightmost one"),
        ("updates", f"{int(config[PARTITIONED]['schedule']['updates']):,} of each model"),
        ("time", said_seconds(seconds)),
        ("seed", str(config["seed"])),
    )


def _figures(results: Mapping[str, Any]) -> tuple[Block, ...]:
    names = (PARTITIONED, CHAINED)
    modes = range(1, 1 + len(results[PARTITIONED]["mode_mass"]))
    share = 1 / len(modes)
    bars = [
        {
            "type": "bar",
            "x": [f"mode {k}" for k in modes],
            "y": list(map(float, results[name]["mode_mass"])),
            "name": method_name(name),
            "marker": {"color": METHOD_COLOURS[name]},
        }
        for name in names
    ]
    line = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": share, "y1": share}
    layout = {
        "barmode": "group",
        "showlegend": True,
        "yaxis": {"title": {"text": "share of the mass"}},
        "shapes": [line | {"line": {"color": "@data", "dash": "dot"}}],
    }
    masses = "; ".join(
        f"{method_name(n)}: {', '.join(f'{m:.3f}' for m in results[n]['mode_mass'])}" for n in names
    )
    body = tuple(
        (
            method_name(name),
            f"{results[name]['kl']:.3f}",
            f"{results[name]['ood_share']:.1%}",
            said_seconds(float(results[name]["seconds"])),
        )
        for name in names
    )
    head = ("method", "KL(p‖q), nats", "OOD share", "time")
    chart = Chart(
        "Mass that the model gives to each mode",
        {"data": bars, "layout": layout},
        f"Bars of the mass per mode, beside the true {share:.3f}. {masses}.",
        "The dotted line is the truth.",
        wide=True,
    )
    what = (
        "OOD share: of the region outside 99.9 % of the data's mass, the part where the model is "
        "denser than its median over the data. Zero is right."
    )
    return chart, Sheet("Figures over an exact grid", head, body), Words(what)


def _training(runs: Mapping[str, RunFiles]) -> list[Section]:
    sections = []
    for run in runs.values():
        moments = diagnosed(run.rows)
        section = run_sections(run, moments)[-1]
        sections.append(Section(section.title, (run_verdict(run, moments), *section.blocks)))
    return sections
