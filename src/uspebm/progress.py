"""Showing long work: a live bar on a terminal, a plain line now and then elsewhere."""

import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from .train import Record

console = Console(highlight=False)


def shown(
    records: Iterator[Record],
    total: int,
    title: str,
    figures: Callable[[Record], str],
    seconds_between_lines: float = 10.0,
) -> Iterator[Record]:
    """Pass ``records`` on while showing how far they are and what ``figures`` says of them."""
    if console.is_terminal:
        yield from _bar(records, total, title, figures)
    else:
        yield from _lines(records, total, title, figures, seconds_between_lines)


def _bar(
    records: Iterator[Record], total: int, title: str, figures: Callable[[Record], str]
) -> Iterator[Record]:
    columns = (
        TextColumn("{task.description:8}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[figures]}"),
    )
    with Progress(*columns, console=console, refresh_per_second=4) as progress:
        task = progress.add_task(title, total=total, figures="")
        for record in records:
            progress.update(task, completed=record.step, figures=figures(record))
            yield record


def _lines(
    records: Iterator[Record],
    total: int,
    title: str,
    figures: Callable[[Record], str],
    seconds: float,
) -> Iterator[Record]:
    last = float("-inf")
    for record in records:
        if time.monotonic() - last >= seconds or record.step == total:
            console.print(f"{title} {record.step}/{total}  {figures(record)}", soft_wrap=True)
            last = time.monotonic()
        yield record
