"""One training, or several beside each other, as a page."""

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..recipes.frames import Frame, read_frame
from .curves import moment_remarks, training_charts
from .densities import density_player, method_name
from .diagnoses import Moment, diagnosed
from .images import point_gallery
from .page import Block, Code, Page, Remark, Section, Words
from .run_files import RunFiles, read_run, runs_below

TRUTH = "truth.npz"
"""The density that data were drawn from, as a frame, where it is known."""
MOST_RUNS = 6
"""Whose curves are shown; of more runs, the first ones."""
MOVE = "Move the slider to go through training; points are where the method put them."


def run_page(folder: Path) -> Page:
    """A run, as far as it has come."""
    run = read_run(folder)
    moments = diagnosed(run.rows)
    sections = [
        Section("Density", blocks)
        for blocks in [density_blocks([run], truth_beside(folder))]
        if blocks
    ]
    return Page(
        title=f"Training of {method_name(run.name)}",
        verdict=(run_verdict(run, moments), *moment_remarks(moments)),
        facts=run_facts(run),
        sections=(*sections, *run_sections(run, moments), settings_section({run.name: run})),
    )


def runs_page(folder: Path) -> Page:
    """Several runs that are, or were, made in one folder."""
    found = [read_run(path) for path in runs_below(folder)]
    return Page(
        title=f"Trainings in {folder.resolve().name}",
        verdict=tuple(run_verdict(run, diagnosed(run.rows)) for run in found[:MOST_RUNS]),
        facts=(("runs", f"{len(found)}"), ("time", said_seconds(sum(r.seconds for r in found)))),
        sections=runs_sections(found, truth_beside(folder)),
    )


def runs_sections(found: Sequence[RunFiles], truth: Frame | None) -> tuple[Section, ...]:
    """Densities side by side, then the curves of every run, then settings."""
    shown = list(found[:MOST_RUNS])
    sections = []
    if blocks := density_blocks(shown, truth):
        sections.append(Section("Densities through training", blocks))
    for run in shown:
        sections.extend(run_sections(run, diagnosed(run.rows)))
    if len(found) > len(shown):
        sections.append(_left_out(len(found), len(shown)))
    if shown:
        sections.append(settings_section({run.name: run for run in shown}))
    return tuple(sections)


def _left_out(runs: int, shown: int) -> Section:
    return Section("More runs", (Words(f"The curves of {runs - shown} more runs are left out."),))


def truth_beside(folder: Path) -> Frame | None:
    """Of the folder's runs, or of the one that it is."""
    for place in (folder / TRUTH, folder.parent / TRUTH):
        if place.is_file():
            return read_frame(place)
    return None


def density_blocks(
    found: Sequence[RunFiles],
    truth: Frame | None,
    title: str = "What was learned",
    note: str = MOVE,
) -> tuple[Block, ...]:
    """A player, where there are densities of one or two dimensions: of runs on the same data."""
    alike = [run for run in found if run.about.get("data") == found[0].about.get("data")]
    player = density_player({run.name: run.frames for run in alike}, truth, title, note)
    return () if player is None else (player,)


def run_sections(run: RunFiles, moments: Sequence[Moment]) -> list[Section]:
    """The curves of a run, and its points if they are images."""
    charts: tuple[Block, ...] = training_charts(run.rows, moments)
    marks: tuple[Block, ...] = moment_remarks(moments)
    if not charts:
        charts = (Words("No update is logged so far."),)
    gallery = point_gallery(run.frames)
    name = method_name(run.name)
    sections = [Section(f"Training curves of {name}", (*marks, *charts))]
    if gallery is not None:
        sections.insert(0, Section(f"Partition points of {name}", (gallery,)))
    return sections


def run_verdict(run: RunFiles, moments: Sequence[Moment]) -> Remark:
    """In words, as far as a log can tell."""
    name, done = method_name(run.name), len(run.rows)
    if not done:
        return Remark(f"{name} has not begun", "No update is logged so far.")
    back = f" It went back {len(run.rollbacks)} times after running away." if run.rollbacks else ""
    far = f"{done:,} of {max(run.updates, done):,} updates"
    if moments:
        names = ", ".join(dict.fromkeys(m.name.lower() for m in moments))
        return Remark(f"{name}: something went wrong: {names}", f"After {far}.{back}", tone="bad")
    text = f"After {far}, no diagnosis finds a fault in its log.{back} A log without faults is no "
    return Remark(
        f"{name}: training went as it should",
        text
        + "proof of a good model: look at what it learned, and evaluate it on data it never saw.",
        tone="good",
    )


def run_facts(run: RunFiles) -> tuple[tuple[str, str], ...]:
    """What was run, on what, how long."""
    speed = f"{run.seconds / len(run.rows):.2g} s" if run.rows else "not known"
    engine = str(run.rows[-1].get("engine", "not known")) if run.rows else "not known"
    return (
        ("recipe", run.recipe),
        ("updates", f"{len(run.rows):,} of {max(run.updates, len(run.rows)):,}"),
        ("time", said_seconds(run.seconds)),
        ("an update takes", speed),
        ("particles are moved by", engine),
        ("seed", str(run.about.get("seed"))),
        ("data", shortened(str(run.about.get("data", "not known")))),
    )


def settings_section(runs: Mapping[str, RunFiles]) -> Section:
    """All that decided the trainings."""
    blocks = [
        Code(json.dumps(run.about.get("recipe"), indent=1), f"Recipe of {method_name(name)}")
        for name, run in runs.items()
    ]
    return Section("Settings", tuple(blocks))


def command_section(command: Sequence[str]) -> Section:
    """The command that repeats it."""
    return Section("Once more", (Code(shlex.join(command), "The command that repeats this"),))


def said_seconds(seconds: float) -> str:
    """A time in words.

    >>> said_seconds(5.23), said_seconds(95), said_seconds(9000)
    ('5.2 s', '1.6 min', '2.5 h')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"


def shortened(text: str, most: int = 120) -> str:
    """At most so many characters.

    >>> shortened("abcdef", 4)
    'abc…'
    """
    return text if len(text) <= most else f"{text[: most - 1]}…"
