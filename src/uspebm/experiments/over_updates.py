"""Figs. 1 (a) and (b) over the updates: what one sees depends on when one looks.

Chains do not cross the barrier between the modes, so little in the gradient compares the two sides:
log q leans to one and then to the other while its samples match p throughout. OOD points pass half
of the data whenever the tilt exceeds the shoulder. Here both are taken of every snapshot, with the
raw and with the averaged weights.
"""

import copy
from collections.abc import Mapping
from pathlib import Path

from ..evaluation.grid_density import grid_density
from ..recipes import Run
from ..recipes.paper import LINE
from ..recipes.snapshots import WEIGHT_KINDS
from ..support.plots import COLOURS, new_figure, save_figure
from ..training import load_snapshot
from .claims import Claim, claim
from .two_modes import LINE_CELLS, LineLean, line_lean

Course = dict[int, LineLean]
"""By update."""
Courses = dict[str, Course]
"""Of the averaged and of the raw weights."""
LEAST_SEEN = 0.02
"""A share of the OOD region that is no accident of the grid."""


def courses_of(run: Run) -> Courses:
    """How a run on the mixture leaned, snapshot by snapshot."""
    energy = copy.deepcopy(run.energy)
    courses: Courses = {}
    for weights in WEIGHT_KINDS:
        courses[weights] = {}
        for update, path in run.snapshots(weights).items():
            load_snapshot(energy, path)
            courses[weights][update] = line_lean(grid_density(energy, LINE, LINE_CELLS))
    return courses


def course_claims(courses: Mapping[str, list[Courses]]) -> list[Claim]:
    """The most that is seen in the last two thirds of a training, and how often something is.

    Before that a model is flat, and half of whatever there is lies above its median.
    """
    claims = []
    for row, found in courses.items():
        for weights in WEIGHT_KINDS:
            shares = [_late_shares(one[weights]) for one in found]
            what = f"{row}, {weights} weights: OOD above the median ID density"
            often = [sum(share > LEAST_SEEN for share in one) / len(one) for one in shares]
            claims += [
                claim(
                    f"{what}, the most in the last two thirds",
                    "a significant portion",
                    [max(one) for one in shares],
                    lambda v: v > LEAST_SEEN,
                ),
                claim(f"{what}, share of the looks", "not given", often, lambda v: v > 0),
            ]
    return claims


def _late_shares(course: Course) -> list[float]:
    return [lean.ood_share for update, lean in course.items() if 3 * update >= max(course)]


def draw_courses(stem: Path, courses: Mapping[str, list[Courses]]) -> None:
    """Tilt and shoulder, and the OOD share, of every seed."""
    figure, panels = new_figure(columns=4, rows=len(courses), size=2.8)
    for k, (row, found) in enumerate(courses.items()):
        for j, weights in enumerate(WEIGHT_KINDS):
            tilts, shares = panels[4 * k + 2 * j : 4 * k + 2 * j + 2]
            for one in found:
                updates, leans = list(one[weights]), list(one[weights].values())
                for what, colour in (("tilt", "srlmc"), ("shoulder", "data")):
                    values = [getattr(lean, what) for lean in leans]
                    label = what if one is found[0] else None
                    tilts.plot(updates, values, linewidth=0.8, color=COLOURS[colour], label=label)
                shares.plot(updates, [100 * lean.ood_share for lean in leans], linewidth=0.8,
                            color=COLOURS["ood"])  # fmt: skip
            tilts.set_title(f"{row}, {weights}: tilt of log q", fontsize=8)
            tilts.legend(loc="upper right", fontsize=6)
            shares.set_title("OOD above the median, %", fontsize=8)
            for panel in (tilts, shares):
                panel.set_xlabel("update", fontsize=7)
                panel.tick_params(labelsize=6)
    save_figure(figure, stem)
