"""Results to pictures. One colour per method, in every figure."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from .density import GridDensity
from .domains import Box

COLOURS = {
    "data": "#333333",
    "ood": "#dd8452",
    "srlmc": "#c44e52",
    "importance": "#55a868",
    "ps_usp": "#4c72b0",
}
SIDES_COLOURS = ("#8172b3", "#937860")
"""Two things that are no methods, such as left and right."""
DENSITY = "viridis"


def new_figure(columns: int, rows: int = 1, size: float = 3.2) -> tuple[Figure, list[Axes]]:
    """A figure that needs no display, and its panels from left to right, top to bottom."""
    figure = Figure(figsize=(size * columns, size * rows), layout="constrained", dpi=150)
    panels = figure.subplots(rows, columns, squeeze=False)
    return figure, list(panels.flat)


def density_panel(panel: Axes, density: GridDensity, domain: Box, peak: float, title: str) -> None:
    """A 2-D density as an image; ``peak`` fixes the colours so that panels compare."""
    side = round(len(density.log_q) ** 0.5)
    (left, bottom), (right, top) = _corners(domain)
    panel.imshow(
        density.log_q.exp().reshape(side, side).T.numpy(),
        origin="lower",
        extent=(left, right, bottom, top),
        cmap=DENSITY,
        vmin=0.0,
        vmax=peak,
        interpolation="bilinear",
    )
    panel.set_title(title, fontsize=10)
    panel.tick_params(labelsize=7)


def points_panel(panel: Axes, points: Tensor, domain: Box, colour: str, title: str) -> None:
    """A 2-D point set."""
    (left, bottom), (right, top) = _corners(domain)
    x, y = points.T.numpy()
    panel.scatter(x, y, s=2.0, color=colour, linewidths=0)
    panel.set(xlim=(left, right), ylim=(bottom, top), aspect="equal")
    panel.set_title(title, fontsize=10)
    panel.tick_params(labelsize=7)


def save_figure(figure: Figure, stem: Path, formats: tuple[str, ...] = ("png", "svg")) -> None:
    """Write ``stem.png``, ``stem.svg``, ... the same bytes for the same picture."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    metadata: Mapping[str, Mapping[str, None]] = {"svg": {"Date": None}}
    with mpl.rc_context({"svg.hashsalt": "uspebm"}):
        for kind in formats:
            figure.savefig(stem.with_suffix(f".{kind}"), metadata=metadata.get(kind))


def save_images(stem: Path, rows: Sequence[tuple[str, Tensor]], columns: int = 12) -> None:
    """A titled row of grey images in [-1, 1] for each of ``rows``, at most ``columns`` in each."""
    figure, panels = new_figure(columns=1, rows=len(rows))
    figure.set_size_inches(6.4, 0.8 * len(rows))
    for panel, (title, images) in zip(panels, rows, strict=True):
        row = torch.cat(list(images[:columns].view(-1, *images.shape[-2:])), 1)
        panel.imshow(row.numpy(), cmap="gray", vmin=-1, vmax=1)
        panel.set_title(title, fontsize=8)
        panel.set_axis_off()
    save_figure(figure, stem)


def _corners(domain: Box) -> tuple[list[float], list[float]]:
    corners = domain.project(domain.grid(1).new_tensor([[-1e30] * 2, [1e30] * 2])).tolist()
    return corners[0], corners[1]
