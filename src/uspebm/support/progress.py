"""Showing long work: a live bar on a terminal, a plain line now and then elsewhere."""

import time
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import BinaryIO, Protocol, TypeVar

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from .words import point_word

console = Console(highlight=False)
SECONDS_BETWEEN_LINES = 10.0


class Numbered(Protocol):
    """One of many things made one after the other, which knows its number, from 1."""

    @property
    def step(self) -> int: ...


_Record = TypeVar("_Record", bound=Numbered)
_Chunk = TypeVar("_Chunk", bound=Sized)


def shown(
    records: Iterator[_Record],
    total: int,
    title: str,
    figures: Callable[[_Record], str],
    done: int = 0,
) -> Iterator[_Record]:
    """Pass ``records`` on while showing how far they are and what ``figures`` says of them.

    ``done`` of the ``total`` were made before.
    """
    if console.is_terminal:
        yield from _bar(records, total, title, figures, done)
    else:
        yield from _lines(records, total, title, figures)


def _bar(
    records: Iterator[_Record],
    total: int,
    title: str,
    figures: Callable[[_Record], str],
    done: int,
) -> Iterator[_Record]:
    with Progress(*_columns(), console=console, refresh_per_second=4) as progress:
        task = progress.add_task(title, total=total, completed=done, figures="")
        for record in records:
            progress.update(task, completed=record.step, figures=figures(record))
            yield record


def _columns() -> tuple[ProgressColumn, ...]:
    return (
        TextColumn("{task.description:8}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True),
        TextColumn("{task.fields[figures]}"),
    )


def _lines(
    records: Iterator[_Record],
    total: int,
    title: str,
    figures: Callable[[_Record], str],
) -> Iterator[_Record]:
    last = float("-inf")
    for record in records:
        if time.monotonic() - last >= SECONDS_BETWEEN_LINES or record.step == total:
            console.print(f"{title} {record.step}/{total}  {figures(record)}", soft_wrap=True)
            last = time.monotonic()
        yield record


def counted(
    chunks: Iterable[_Chunk], total: int | None, title: str, images: bool = False
) -> Iterator[_Chunk]:
    """Pass ``chunks`` of rows on while showing how many there were, of ``total``, and how fast.

    Rows are called what they are: ``images``, where they are some.
    """
    word = f"{point_word(images)}s"
    began = last = time.monotonic()
    rows = 0
    with Progress(*_columns(), console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task(title, total=total, figures="")
        for chunk in chunks:
            yield chunk
            rows += len(chunk)
            now = time.monotonic()
            rate = f"{rows / max(now - began, 1e-9):,.0f} {word}/s"
            progress.update(task, completed=rows, figures=rate)
            if not console.is_terminal and now - last >= SECONDS_BETWEEN_LINES:
                of = "" if total is None else f" of {total:,}"
                console.print(f"{title} {rows:,}{of} {word}, {rate}", soft_wrap=True)
                last = now


def downloading(source: BinaryIO, title: str, size: int) -> bytes:
    """All of ``source``, of about ``size`` bytes (0: not known), while showing how far it is."""
    content = bytearray()
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), DownloadColumn())
    console.print(f"downloading {title}")
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task(title, total=size or None)
        while part := source.read(1 << 16):
            content += part
            progress.update(task, completed=len(content))
    return bytes(content)
