"""How a training went, as charts over its updates, with the moments marked that went wrong."""

from collections.abc import Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np

from .diagnoses import GROWN, LogRow, Moment
from .page import Chart, Figure, Remark

MOST_DRAWN = 500
"""Updates in a chart: of more, evenly spaced ones are drawn."""


class Line(NamedTuple):
    """One line of a chart."""

    name: str
    label: str
    colour: str


class Panel(NamedTuple):
    """One chart: what it shows, and what to look for."""

    title: str
    curves: tuple[Line, ...]
    note: str
    log: bool = False


PANELS = (
    Panel(
        "Energies of data and nodes",
        (
            Line("data_energy", "data", "@data"),
            Line("node_energy", "nodes, weighted", "@ps_usp"),
        ),
        "They meet where training is at rest.",
    ),
    Panel(
        "Terms of the objective",
        (
            Line("data_term", "data term", "@data"),
            Line("node_energy", "node term", "@ps_usp"),
            Line("loss", "difference", "@ood"),
        ),
        "The difference is what the optimiser sees; it is no likelihood.",
    ),
    Panel(
        "Norm of the gradient",
        (Line("gradient_norm", "norm", "@third"),),
        "It need not fall: as the energy grows steeper it may rise tenfold to a hundredfold, with "
        "PS-USP above all, while training goes as it should. Where it stays above "
        f"{GROWN:g} times its median in the first half, that is marked.",
        log=True,
    ),
    Panel(
        "Effective nodes",
        (Line("ess", "effective", "@importance"), Line("nodes", "all nodes", "@fourth")),
        "How many nodes the gradient is an average over; near one, it is that of a single point.",
    ),
    Panel(
        "Violating share",
        (Line("violating", "share", "@ps_usp"),),
        "Points closer than the spacing. At zero, the points no longer push each other.",
    ),
    Panel(
        "Spacing ε",
        (Line("spacing", "ε", "@ps_usp"), Line("nearest", "nearest pair", "@ood")),
        "How far apart the points are to be, and how close the closest two are.",
    ),
    Panel(
        "Sampling power ρ",
        (Line("rho", "ρ", "@srlmc"),),
        "The chains sample q to this power; one is right.",
    ),
)


def training_charts(rows: Sequence[LogRow], moments: Sequence[Moment]) -> tuple[Chart, ...]:
    """A chart for all that the log has numbers of."""
    if not rows:
        return ()
    drawn = [panel for panel in PANELS if panel.curves[0].name in rows[0]]
    return tuple(_chart(panel, thinned(rows), moments) for panel in drawn)


def moment_remarks(moments: Sequence[Moment]) -> tuple[Remark, ...]:
    """Each moment in words."""
    return tuple(
        Remark(f"{m.name}, {m.when}", m.what, advice=m.advice, tone="bad") for m in moments
    )


def thinned(rows: Sequence[LogRow]) -> list[LogRow]:
    """At most :data:`MOST_DRAWN` of the rows, the first and the last among them."""
    if len(rows) <= MOST_DRAWN:
        return list(rows)
    return [rows[k] for k in np.linspace(0, len(rows) - 1, MOST_DRAWN).round().astype(int)]


def label(text: str) -> str:
    """A text of anybody's for a chart, whose library takes some HTML for what it says."""
    return escape(text, quote=False)


def line_trace(x: Sequence[float], y: Sequence[Any], name: str, colour: str) -> Figure:
    """A line of a chart; what is no number is a gap."""
    values = [float(v) if v is not None and np.isfinite(v) else None for v in y]
    return {
        "type": "scatter",
        "mode": "lines" if len(x) > 1 else "markers",
        "x": list(x),
        "y": values,
        "name": label(name),
        "line": {"color": colour, "width": 1.6},
        "marker": {"color": colour},
    }


def _chart(panel: Panel, rows: Sequence[LogRow], moments: Sequence[Moment]) -> Chart:
    steps = [int(row["step"]) for row in rows]
    curves = [curve for curve in panel.curves if curve.name in rows[0]]
    data = [line_trace(steps, [r[c.name] for r in rows], c.label, c.colour) for c in curves]
    shown = [m for m in moments if m.curve in {curve.name for curve in curves}]
    layout: Figure = {
        "xaxis": {"title": {"text": "updates"}},
        "yaxis": {"type": "log" if panel.log else "linear", "rangemode": "normal"},
        "showlegend": len(curves) > 1,
        "shapes": [_band(m) for m in shown],
        "annotations": [_flag(m) for m in shown],
    }
    said = "; ".join(f"{m.name} at {m.when}" for m in shown)
    alt = f"{panel.title} over the updates: {', '.join(c.label for c in curves)}." + (
        f" Marked: {said}." if said else ""
    )
    return Chart(panel.title, {"data": data, "layout": layout}, alt, panel.note)


def _band(moment: Moment) -> Figure:
    half = 0.5  # a moment of one update is to be seen, too
    edges = {"x0": moment.first - half, "x1": moment.last + half, "y0": 0, "y1": 1}
    look = {"fillcolor": "@wrong", "opacity": 0.18, "line": {"width": 0}, "layer": "below"}
    return {"type": "rect", "yref": "paper", **edges, **look}


def _flag(moment: Moment) -> Figure:
    place = {"x": moment.first, "xanchor": "left", "y": 1, "yref": "paper", "yanchor": "top"}
    return {**place, "text": moment.name, "showarrow": False, "font": {"color": "@wrong"}}
