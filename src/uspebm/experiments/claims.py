"""What the paper claims, what was measured, and whether it holds."""

import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from ..support.files import whole_file


@dataclass(frozen=True)
class Claim:
    """One claim: the mean over seeds, their standard deviation, and the verdict."""

    name: str
    paper: str
    measured: float
    spread: float
    seeds: int
    holds: bool


def claim(name: str, paper: str, values: Sequence[float], holds: Callable[[float], bool]) -> Claim:
    """Judge the mean of ``values``, one per seed."""
    mean = statistics.fmean(values)
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return Claim(name, paper, mean, spread, len(values), holds(mean))


def save_results(path: Path, claims: Sequence[Claim], **more: Any) -> None:
    """``results.json``: the claims, and whatever else was measured."""
    content = {"claims": [asdict(c) for c in claims], **more}
    with whole_file(path) as file:
        file.write(json.dumps(content, indent=2).encode())


def table(title: str, claims: Sequence[Claim]) -> Table:
    """For a terminal."""
    result = Table(title=title)
    for heading in ("claim", "paper", "measured", "holds"):
        result.add_column(heading)
    for c in claims:
        value = f"{c.measured:.4g}" + (
            f" ± {c.spread:.2g} ({c.seeds} seeds)" if c.seeds > 1 else ""
        )
        result.add_row(c.name, c.paper, value, "yes" if c.holds else "NO")
    return result
