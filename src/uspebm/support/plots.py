"""Results to pictures. One colour per method, in every figure.

A figure has panels (:func:`new_figure`), which show a 2-D density (:func:`density_panel`), points
of the plane (:func:`points_panel`) or images (:func:`images_panel`), and is then written to files
(:func:`save_figure`). Two do all of it: :func:`plot_run`, the curves of a training, and
:func:`save_images`. A panel is one of matplotlib's axes, to which more can be added.

Only drawing needs matplotlib: it is imported when the first figure is made.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from .extras import need
from .files import whole_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
Extent = tuple[float, float, float, float]
"""The edges of a picture of the plane: left, right, bottom, top."""
CURVES = {
    "terms of the loss": ("data_term", "node_energy", "loss"),
    "effective nodes": ("ess",),
    "violating share": ("violating",),
    "spacing ε": ("spacing",),
    "norm of the gradient": ("gradient_norm",),
}
"""What a run's figure shows, a panel each, of the numbers that records have."""


class RunRecord(Protocol):
    """One update in numbers, such as :class:`~uspebm.Record`."""

    def row(self) -> Mapping[str, Any]:
        """Its numbers by their names, ``step`` among them."""
        ...


def new_figure(columns: int, rows: int = 1, size: float = 3.2) -> "tuple[Figure, list[Axes]]":
    """A figure that needs no display, and its panels from left to right, top to bottom."""
    # Of its search for fonts, once on every machine, nobody wants to know.
    logging.getLogger("matplotlib.font_manager").setLevel(logging.WARNING)
    figure: Figure = need("matplotlib.figure", "drawing", "plots").Figure(
        figsize=(size * columns, size * rows), layout="constrained", dpi=150
    )
    panels = figure.subplots(rows, columns, squeeze=False)
    return figure, list(panels.flat)


def density_panel(panel: "Axes", density: Tensor, extent: Extent, peak: float, title: str) -> None:
    """A 2-D density as an image; ``peak`` fixes the colours so that panels compare.

    ``density``: its values on a regular grid of as many cells per axis, ``(cells²,)`` with the
    second coordinate fastest.
    """
    side = round(len(density) ** 0.5)
    panel.imshow(
        _plain(density).reshape(side, side).T.numpy(),
        origin="lower",
        extent=extent,
        cmap=DENSITY,
        vmin=0.0,
        vmax=peak,
        interpolation="bilinear",
    )
    panel.set_title(title, fontsize=10)
    panel.tick_params(labelsize=7)


def points_panel(panel: "Axes", points: Tensor, extent: Extent, colour: str, title: str) -> None:
    """A 2-D point set, ``(N, 2)``."""
    x, y = _plain(points).T.numpy()
    panel.scatter(x, y, s=2.0, color=colour, linewidths=0)
    panel.set(xlim=extent[:2], ylim=extent[2:], aspect="equal")
    panel.set_title(title, fontsize=10)
    panel.tick_params(labelsize=7)


def save_figure(figure: "Figure", stem: Path, formats: tuple[str, ...] = ("png", "svg")) -> None:
    """Write ``stem.png``, ``stem.svg``, ... the same bytes for the same picture."""
    for kind in formats:
        _write(figure, stem.with_suffix(f".{kind}"))


def _write(figure: "Figure", path: Path) -> None:
    metadata: Mapping[str, Mapping[str, None]] = {"svg": {"Date": None}}
    kind = path.suffix[1:]
    with (
        need("matplotlib", "drawing", "plots").rc_context({"svg.hashsalt": "uspebm"}),
        whole_file(path) as file,
    ):
        figure.savefig(file, format=kind, metadata=metadata.get(kind))


def _plain(values: Tensor) -> Tensor:
    return values.detach().cpu()


def shades(count: int) -> "list[tuple[float, float, float, float]]":
    """Of SRLMC's colour, from light to dark: where all that is drawn is SRLMC."""
    reds = need("matplotlib", "drawing", "plots").colormaps["Reds"]
    return [reds(0.3 + 0.7 * k / max(1, count - 1)) for k in range(count)]


def images_panel(panel: "Axes", images: Tensor, columns: int, title: str) -> None:
    """Images ``(N, C, H, W)`` in [−1, 1], grey or RGB, side by side, ``columns`` in a row."""
    images, missing = _plain(images), -len(images) % columns
    filled = torch.cat([images, images.new_ones(missing, *images.shape[1:])])
    rows = [torch.cat(list(row), 2) for row in filled.split(columns)]
    picture = (0.5 * (torch.cat(rows, 1) + 1)).clamp(0.0, 1.0).permute(1, 2, 0)
    panel.imshow(picture.numpy(), cmap="gray", vmin=0, vmax=1)
    panel.set_title(title, fontsize=8)
    panel.set_axis_off()


def save_images(stem: Path, rows: Sequence[tuple[str, Tensor]], columns: int = 12) -> None:
    """A titled row of images in [-1, 1] for each of ``rows``, at most ``columns`` in each."""
    figure, panels = new_figure(columns=1, rows=len(rows))
    figure.set_size_inches(6.4, 0.8 * len(rows))
    for panel, (title, images) in zip(panels, rows, strict=True):
        images_panel(panel, images[:columns], min(columns, len(images)), title)
    save_figure(figure, stem)


def plot_run(records: "Iterable[RunRecord | Mapping[str, Any]]", path: Path | str) -> None:
    """Draw how a training went, over its updates, to ``path``: a picture of the kind it ends in.

    Curves: the terms of the loss, the effective number of nodes, the share of points that violate
    the spacing, the spacing, and the norm of the gradient; what the records do not have is left
    out.

    Arguments:
        records: What ``fit`` yielded, or the rows of a run's log.
        path: Such as ``run.png`` or ``run.svg``.
    """
    path = Path(path)
    if not path.suffix:
        raise ValueError(f"path={path} must end in the kind of picture, such as .png")
    rows = [record if isinstance(record, Mapping) else record.row() for record in records]
    if not rows:
        raise ValueError("records are empty: there is nothing to draw")
    drawn = {title: names for title, names in CURVES.items() if names[0] in rows[0]}
    figure, panels = new_figure(columns=len(drawn))
    steps = [row["step"] for row in rows]
    for panel, (title, names) in zip(panels, drawn.items(), strict=True):
        for name in names:
            panel.plot(steps, [row[name] for row in rows], linewidth=1.0, label=name)
        panel.set_title(title, fontsize=10)
        panel.set_xlabel("updates", fontsize=8)
        panel.tick_params(labelsize=7, which="both")
        if len(names) > 1:
            panel.legend(loc="upper right", fontsize=7, frameon=False)
        if title == "norm of the gradient":
            panel.set_yscale("log")
    _write(figure, path)
