"""The log of a run: one JSON object per update, in a file that survives interruption."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .files import whole_file
from .train import Record


def logged(records: Iterator[Record], path: Path, **labels: str) -> Iterator[Record]:
    """Pass ``records`` on, appending each to ``path`` as a line that begins with ``labels``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", buffering=1) as file:  # by lines: a kill loses none but the last
        for record in records:
            file.write(json.dumps({**labels, **record.row()}) + "\n")
            yield record


def rows(path: Path) -> list[dict[str, Any]]:
    """The lines of a log; one that a kill cut short is left out."""
    if not path.exists():
        return []
    found = []
    for line in path.read_text().splitlines():
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return found


def rewind(path: Path, step: int, **labels: str) -> None:
    """Forget the rows with these labels after ``step``: a resumed run makes those updates again."""
    kept = [r for r in rows(path) if r["step"] <= step or not labels.items() <= r.items()]
    with whole_file(path) as file:
        file.write("".join(json.dumps(r) + "\n" for r in kept).encode())
