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


def terminal(rows: Mapping[str, Row]) -> Table:
    """FPR95 and, below it, AUROC, in per cent."""
    result = Table(title="Fashion-MNIST against …: FPR95 (AUROC), per cent")
    for heading in ("method", *OOD_NAMES):
        result.add_column(heading)
    for name, figures in PAPER_FPR95.items():
        result.add_row(f"{name} (paper)", *(_figure(*v) for v in figures))
    for name, figures_of in rows.items():
        cells = (f"{_cell(d, 'fpr95')}\n({_cell(d, 'auroc')})" for d in figures_of.values())
        result.add_row(name, *cells)
    return result


def markdown(rows: Mapping[str, Row], images: int) -> str:
    """All four figures, a table each; AUPR depends on how many ``images`` there are of each."""
    text = (
        f"In-distribution: {images:,} test images of Fashion-MNIST, against as many of each set. "
        "Per cent; mean ± standard deviation over seeds.\n"
    )
    paper = {"fpr95": PAPER_FPR95, "aupr_id": PAPER_AUPR, "aupr_ood": PAPER_AUPR}
    for what, title in TITLES.items():
        text += (
            f"\n{title}\n\n| method | {' | '.join(OOD_NAMES)} |\n|---|{'---|' * len(OOD_NAMES)}\n"
        )
        for name, figures in paper.get(what, {}).items():
            text += f"| {name} (paper) | {' | '.join(_figure(*v) for v in figures)} |\n"
        for name, figures_of in rows.items():
            text += f"| {name} | {' | '.join(_cell(d, what) for d in figures_of.values())} |\n"
    return text


def _cell(found: Sequence[Detection], what: str) -> str:
    values = [100 * getattr(d, what) for d in found]
    return _figure(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None)


def _figure(mean: float, spread: float | None) -> str:
    return f"{mean:.2f}" + (f" ± {spread:.2f}" if spread is not None else "")
