"""A table of OOD detection: methods against data sets, the paper's figures above ours."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from numpy.typing import ArrayLike
from rich.table import Table
from torch import Tensor

from ..evaluation.metrics import Detection, detection
from .image_problem import ImageProblem, MeanAndSpread, OpenedSets

Row = dict[str, list[Detection]]
"""For every OOD set, the detection of each seed."""
PAPER_SEEDS = "3"
FIGURE_TITLES = {
    "fpr95": "FPR95 (lower is better)",
    "auroc": "AUROC",
    "aupr_id": "AUPR, ID positive",
    "aupr_ood": "AUPR, OOD positive",
}


def judged(score: Callable[[Tensor], ArrayLike], sets: OpenedSets) -> dict[str, Detection]:
    """How well ``score`` tells what is inside from each set outside."""
    known = score(sets.inside)
    return {name: detection(known, score(images)) for name, images in sets.outside.items()}


def row(seeds: Sequence[Mapping[str, Detection]]) -> Row:
    """What was found with every seed, by set."""
    return {name: [one[name] for one in seeds] for name in seeds[0]}


@dataclass(frozen=True)
class OODTable:
    """What was found on a problem: a row per method, and the seeds that a row lacks."""

    problem: ImageProblem
    rows: Mapping[str, Row]
    diverged: Mapping[str, Sequence[int]]
    images: int
    """Of each set, that were scored."""
    bits: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Of the energies, by method and seed: per dimension on what is inside, at least."""

    @property
    def headings(self) -> tuple[str, ...]:
        """Of the columns."""
        return "method", "seeds", *self.problem.ood

    def terminal(self) -> Table:
        """FPR95 and, below it, AUROC, in per cent."""
        result = Table(title=f"{self.problem.name} against …: FPR95 (AUROC), per cent")
        for heading in self.headings:
            result.add_column(heading, overflow="fold")
        for name, figures in self._paper("fpr95").items():
            result.add_row(f"{name} (paper)", PAPER_SEEDS, *(_figure(*v) for v in figures))
        for name, found in self.rows.items():
            cells = (f"{self._fpr95(d)}\n({_cell(d, 'auroc')})" for d in found.values())
            result.add_row(name, self._seeds(name), *cells)
        for name in self._lost:
            result.add_row(name, "all diverged")
        return result

    def _fpr95(self, found: Sequence[Detection]) -> str:
        """In per cent; of none in n no more is known than that it is below 3 / n, most likely."""
        if any(d.fpr95 for d in found):
            return _cell(found, "fpr95")
        return f"< {300 / self.images:.2g}"

    def markdown(self) -> str:
        """All four figures, a table each; AUPR depends on how many images there are of each."""
        text = (
            f"In-distribution: {self.images:,} test images of {self.problem.name}, against as many "
            "of each set. Per cent; mean ± standard deviation over seeds."
        )
        if self.problem.paper_figures is not None:
            text += (
                " The paper does not say which of the two its AUPR takes for positive, nor of how "
                "many images: it stands in both tables, and can be compared with neither."
            )
        text += "\n"
        for what, title in FIGURE_TITLES.items():
            text += (
                f"\n{title}\n\n" + _line(*self.headings) + _line(*("---" for _ in self.headings))
            )
            for name, figures in self._paper(what).items():
                text += _line(f"{name} (paper)", PAPER_SEEDS, *(_figure(*v) for v in figures))
            for name, found in self.rows.items():
                cell = self._fpr95 if what == "fpr95" else partial(_cell, what=what)
                text += _line(name, self._seeds(name), *map(cell, found.values()))
            for name in self._lost:
                text += _line(name, "all diverged", *("–" for _ in self.problem.ood))
        return text + self._bits()

    def _bits(self) -> str:
        """What the energies are as densities, which is next to nothing on images."""
        if not self.bits:
            return ""
        text = (
            "\nBits per dimension of the energies, normalised, on the test images: at least, by "
            "uniform draws. The uniform law has 8: these order images, they do not measure them.\n"
            "\n" + _line("method", "bits per dimension") + _line("---", "---")
        )
        for name, values in self.bits.items():
            spread = statistics.stdev(values) if len(values) > 1 else None
            text += _line(name, _figure(statistics.fmean(values), spread, 3))
        return text

    def _paper(self, what: str) -> Mapping[str, tuple[MeanAndSpread, ...]]:
        paper = self.problem.paper_figures
        if paper is None or what == "auroc":
            return {}
        return paper.fpr95 if what == "fpr95" else paper.aupr

    def _seeds(self, name: str) -> str:
        there, gone = len(next(iter(self.rows[name].values()))), len(self.diverged.get(name, ()))
        return f"{there} of {there + gone}; the others diverged" if gone else f"{there}"

    @property
    def _lost(self) -> list[str]:
        """Methods of which no seed is left: they are not to vanish."""
        return [name for name in self.diverged if name not in self.rows]


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |\n"


def _cell(found: Sequence[Detection], what: str) -> str:
    values = [100 * getattr(d, what) for d in found]
    return _figure(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None)


def _figure(mean: float, spread: float | None, digits: int = 2) -> str:
    return f"{mean:.{digits}f}" + (f" ± {spread:.{digits}f}" if spread is not None else "")
