"""A table of OOD detection: methods against data sets, the paper's figures above ours."""

import statistics
from collections.abc import Callable, Mapping, Sequence

from numpy.typing import ArrayLike
from rich.table import Table
from torch import Tensor

from ..datasets import OOD_NAMES
from ..metrics import Detection, detection

Row = dict[str, list[Detection]]
"""For every OOD set, the detection of each seed."""
PAPER_FPR95 = {
    "SRLMC": ((97.73, 0.76), (50.56, 6.02), (12.27, 3.06), (20.03, 12.47), (0.0, 0.0)),
    "PS-USP": ((2.18, 1.03), (1.84, 1.01), (7.04, 0.57), (0.97, 0.78), (0.0, 0.0)),
}
"""The paper's figures, in the order of ``OOD_NAMES``, in per cent: mean and deviation of three."""
PAPER_AUPR = {
    "SRLMC": ((86.01, 4.94), (90.57, 3.13), (99.05, 0.21), (99.89, 0.10), (100.0, 0.0)),
    "PS-USP": ((99.15, 0.29), (99.32, 0.12), (99.07, 0.27), (99.99, 0.00), (100.0, 0.0)),
}
"""Which of the two is positive is not said."""
PAPER_SEEDS = "3"
HEADINGS = ("method", "seeds", *OOD_NAMES)
TITLES = {
    "fpr95": "FPR95 (lower is better)",
    "auroc": "AUROC",
    "aupr_id": "AUPR, ID positive",
    "aupr_ood": "AUPR, OOD positive",
}


def judged(
    score: Callable[[Tensor], ArrayLike], inside: Tensor, outside: Mapping[str, Tensor]
) -> dict[str, Detection]:
    """How well ``score`` tells ``inside`` from each of ``outside``."""
    known = score(inside)
    return {name: detection(known, score(images)) for name, images in outside.items()}


def row(seeds: Sequence[Mapping[str, Detection]]) -> Row:
    """What was found with every seed, by set."""
    return {name: [one[name] for one in seeds] for name in seeds[0]}


def terminal(rows: Mapping[str, Row], diverged: Mapping[str, Sequence[int]]) -> Table:
    """FPR95 and, below it, AUROC, in per cent; ``diverged`` are the seeds that a row lacks."""
    result = Table(title="Fashion-MNIST against …: FPR95 (AUROC), per cent")
    for heading in HEADINGS:
        result.add_column(heading, overflow="fold")
    for name, figures in PAPER_FPR95.items():
        result.add_row(f"{name} (paper)", PAPER_SEEDS, *(_figure(*v) for v in figures))
    for name, found in rows.items():
        cells = (f"{_cell(d, 'fpr95')}\n({_cell(d, 'auroc')})" for d in found.values())
        result.add_row(name, _seeds(found, diverged.get(name, ())), *cells)
    for name in _lost(rows, diverged):
        result.add_row(name, "all diverged")
    return result


def markdown(rows: Mapping[str, Row], diverged: Mapping[str, Sequence[int]], images: int) -> str:
    """All four figures, a table each; AUPR depends on how many ``images`` there are of each."""
    text = (
        f"In-distribution: {images:,} test images of Fashion-MNIST, against as many of each set. "
        "Per cent; mean ± standard deviation over seeds. The paper does not say which of the two "
        "its AUPR takes for positive, nor of how many images: it stands in both tables, and can "
        "be compared with neither.\n"
    )
    paper = {"fpr95": PAPER_FPR95, "aupr_id": PAPER_AUPR, "aupr_ood": PAPER_AUPR}
    for what, title in TITLES.items():
        text += f"\n{title}\n\n" + _line(*HEADINGS) + _line(*("---" for _ in HEADINGS))
        for name, figures in paper.get(what, {}).items():
            text += _line(f"{name} (paper)", PAPER_SEEDS, *(_figure(*v) for v in figures))
        for name, found in rows.items():
            cells = (_cell(d, what) for d in found.values())
            text += _line(name, _seeds(found, diverged.get(name, ())), *cells)
        for name in _lost(rows, diverged):
            text += _line(name, "all diverged", *("–" for _ in OOD_NAMES))
    return text


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |\n"


def _seeds(found: Row, diverged: Sequence[int]) -> str:
    there = len(next(iter(found.values())))
    return f"{there} of {there + len(diverged)}; the others diverged" if diverged else f"{there}"


def _lost(rows: Mapping[str, Row], diverged: Mapping[str, Sequence[int]]) -> list[str]:
    """Methods of which no seed is left: they are not to vanish."""
    return [name for name in diverged if name not in rows]


def _cell(found: Sequence[Detection], what: str) -> str:
    values = [100 * getattr(d, what) for d in found]
    return _figure(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None)


def _figure(mean: float, spread: float | None) -> str:
    return f"{mean:.2f}" + (f" ± {spread:.2f}" if spread is not None else "")
