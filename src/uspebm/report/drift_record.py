"""What ``uspebm drift`` saw, kept beside a model for its page: ``drift.json``."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from ..detector.drift import DriftMonitor
from ..detector.folder import DRIFT
from ..support.files import whole_file
from ..support.reading import reading
from ..support.words import point_word, said_count
from .curves import MOST_DRAWN, line_trace
from .html import plain_numbers
from .page import Chart, Remark, Section, Words
from .run_files import read_object

LINES = ("@data", "@ps_usp", "@ood", "@third")
"""Colours: all together first, then what grew most."""


class DriftRecord(NamedTuple):
    """One look at new data."""

    data: str
    date: str
    rate: float
    rows: int
    alarm_at: int | None
    alarm_level: float
    at: list[int]
    """Rows, some of them."""
    lines: list[tuple[str, list[float]]]
    """log10 of capitals after those rows: of all together, and of the streams that grew most."""
    images: bool = False
    """Whether rows are images."""

    @property
    def said(self) -> str:
        """In a sentence."""
        seen = f"{said_count(self.rows, self.images)} of {self.data}, {self.date}"
        if self.alarm_at is None:
            return f"No drift in {seen}."
        return f"Drift, noticed at {point_word(self.images)} {self.alarm_at:,} of {seen}."


def keep_drift(folder: Path, monitor: DriftMonitor, data: str, images: bool = False) -> None:
    """Write what ``monitor`` saw of ``data``, whole or not at all; what was there is replaced."""
    at, lines = monitor.over_time()
    step = -(-len(at) // MOST_DRAWN)
    record = DriftRecord(
        data,
        datetime.now(UTC).date().isoformat(),
        monitor.false_alarm_rate,
        monitor.rows,
        monitor.alarm_at,
        monitor.alarm_level,
        at[::step],
        [(name, values[::step].tolist()) for name, values in lines],
        images,
    )
    with whole_file(folder / DRIFT) as file:
        file.write(json.dumps(plain_numbers(record._asdict()), allow_nan=False).encode())


def drift_in(folder: Path) -> DriftRecord | None:
    """What was kept in ``folder``; None where nothing was."""
    path = folder / DRIFT
    if not path.is_file():
        return None
    found = read_object(path)
    with reading(path, "is not what uspebm wrote: remove it"):
        kept = DriftRecord(**found)
        lines = [(str(name), [float(v) for v in values]) for name, values in kept.lines]
        at = [int(row) for row in kept.at]
        if not lines or any(len(values) != len(at) for _, values in lines):
            raise ValueError("lines and rows differ in length")
        return DriftRecord(
            str(kept.data),
            str(kept.date),
            float(kept.rate),
            int(kept.rows),
            None if kept.alarm_at is None else int(kept.alarm_at),
            float(kept.alarm_level),
            at,
            lines,
            bool(kept.images),
        )


def drift_remarks(record: DriftRecord | None) -> tuple[Remark, ...]:
    """For the verdict: where there was an alarm."""
    if record is None or record.alarm_at is None:
        return ()
    text = "New data no longer look like those that the model was fitted to: its rates hold no more"
    return (Remark(record.said, f"{text}.", advice="fit it again, to data of today", tone="bad"),)


def drift_sections(record: DriftRecord | None) -> tuple[Section, ...]:
    """The evidence over time."""
    if record is None:
        return ()
    word = point_word(record.images)
    lines = [
        line_trace(record.at, values, name, colour)
        for (name, values), colour in zip(record.lines, LINES, strict=False)
    ]
    level: dict[str, Any] = {"y0": record.alarm_level, "y1": record.alarm_level, "x0": 0, "x1": 1}
    shapes = [{"type": "line", "xref": "paper", **level, "line": {"color": "@wrong", "width": 1}}]
    layout = {
        "xaxis": {"title": {"text": f"{word}s"}},
        "yaxis": {"title": {"text": "evidence, log10"}},
        "showlegend": True,
        "shapes": shapes,
    }
    note = (
        f"If {word}s are drawn like the data, the line of all together ever reaches "
        f"{record.alarm_level:.3g} with a probability of at most {record.rate:g}."
    )
    alt = f"Evidence of drift over {said_count(record.rows, record.images)}. {record.said}"
    chart = Chart("Evidence over time", {"data": lines, "layout": layout}, alt, note, wide=True)
    return (Section("Drift", (Words(record.said), chart)),)
