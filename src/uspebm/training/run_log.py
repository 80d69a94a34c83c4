"""The log of a run: one JSON object per update, in a file that survives interruption.

Every line ends with a checksum of its own. A line that a kill cut short is the last one, and left
out; any other that is not what was written is an error.
"""

import json
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..support.files import appending, whole_file
from .checkpoint import CheckpointError
from .state import Record


def logged(records: Iterator[Record], path: Path) -> Iterator[Record]:
    """Pass ``records`` on, appending each to ``path`` as a line."""
    with appending(path) as file:
        for record in records:
            file.write(_line(record.row()).encode())
            file.flush()  # a kill loses no line but the last
            yield record


def log_rows(path: Path) -> list[dict[str, Any]]:
    """The lines of a log; one that a kill cut short is left out."""
    if not path.exists():
        return []
    *whole, cut_short = path.read_bytes().split(b"\n")
    found = [_row(line, path, k + 1) for k, line in enumerate(whole)]
    if _whole_after_all(cut_short[:-1]):  # not cut short: its end is another one
        _row(cut_short, path, len(found) + 1)
    return [*found, *_whole_after_all(cut_short)]


def whole_rows(path: Path) -> list[dict[str, Any]]:
    """The lines of a file that ``write_rows`` wrote, all of them; none where there is no file."""
    if path.exists() and not path.read_bytes().endswith(b"\n"):
        raise CheckpointError(f"{path} is damaged: its end is missing; remove the run's folder")
    return log_rows(path)


def write_rows(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write a file of such lines as a log's, whole or not at all."""
    with whole_file(path) as file:
        file.write("".join(map(_line, rows)).encode())


def rewind(path: Path, step: int) -> None:
    """Forget the rows after ``step``: a resumed run makes those updates again."""
    write_rows(path, [row for row in log_rows(path) if row["step"] <= step])


def _line(row: dict[str, Any]) -> str:
    text = json.dumps(row)
    return f'{text[:-1]}, "check": "{_check(text)}"}}\n'


def _row(line: bytes, path: Path, number: int) -> dict[str, Any]:
    try:
        row: dict[str, Any] = json.loads(line)
        said = row.pop("check")
        if _line(row).encode() == line + b"\n" and said == _check(json.dumps(row)):
            return row
    except (ValueError, AttributeError, KeyError, TypeError):
        pass  # damaged, one way or another
    raise CheckpointError(
        f"{path}: line {number} is damaged; remove the run's folder to train anew, or the line and "
        "those after it to do without them"
    )


def _whole_after_all(line: bytes) -> list[dict[str, Any]]:
    """The last line, if only its end is missing."""
    try:
        return [_row(line, Path(), 0)]
    except CheckpointError:
        return []


def _check(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"
