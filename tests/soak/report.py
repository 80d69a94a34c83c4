"""What was tried and what held, as one table."""

import sys
import time
from collections.abc import Sequence
from typing import NamedTuple


class Row(NamedTuple):
    """One kind of attack.

    Arguments:
        name: What was done.
        tried: How often.
        held: How often nothing was lost and nothing silent; anything below ``tried`` is a fault.
        seconds: How long it took.
        note: What held means here, or what did not, in a few words.
    """

    name: str
    tried: int
    held: int
    seconds: float
    note: str = ""


def table(rows: Sequence[Row]) -> str:
    """The rows in Markdown; what did not hold is in bold."""
    lines = ["| what was tried | times | held | seconds | |", "|---|---:|---:|---:|---|"]
    for row in rows:
        held = f"{row.held:,}" if row.held == row.tried else f"**{row.held:,}**"
        lines.append(f"| {row.name} | {row.tried:,} | {held} | {row.seconds:,.0f} | {row.note} |")
    return "\n".join(lines)


def say(text: str) -> None:
    """Progress, at once; a line."""
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stderr.flush()
