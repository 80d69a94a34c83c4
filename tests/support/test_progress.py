"""Showing work changes nothing of it."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from rich.console import Console

from uspebm.support import progress


class Made(NamedTuple):
    """A record that has nothing of a training but its number."""

    step: int
    value: float


def records() -> Iterator[Made]:
    return (Made(k, k / 2) for k in range(1, 6))


@pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "file"])
def test_records_are_passed_on_while_they_are_shown(
    monkeypatch: pytest.MonkeyPatch, terminal: bool
) -> None:
    console = Console(force_terminal=terminal, width=100, record=True)
    monkeypatch.setattr(progress, "console", console)
    shown = progress.shown(records(), 5, "work", lambda made: f"value {made.value:g}")
    assert list(shown) == list(records())
    text = console.export_text()
    assert "5/5" in text
    assert "value 2.5" in text


def test_lines_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first and the last of five that are made at once."""
    console = Console(force_terminal=False, width=100, record=True)
    monkeypatch.setattr(progress, "console", console)
    list(progress.shown(records(), 5, "work", lambda made: f"value {made.value:g}"))
    assert console.export_text().splitlines() == ["work 1/5  value 0.5", "work 5/5  value 2.5"]


def test_chunks_of_any_kind_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(force_terminal=False, width=100, record=True)
    monkeypatch.setattr(progress, "console", console)
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    chunks = [[1, 2, 3], [4]]
    assert list(progress.counted(chunks, 4, "reading")) == chunks
    first, second = console.export_text().splitlines()
    assert first.startswith("reading 3 of 4 rows, ")
    assert second.startswith("reading 4 of 4 rows, ")


def test_images_are_called_images(monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(force_terminal=False, width=100, record=True)
    monkeypatch.setattr(progress, "console", console)
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    list(progress.counted([[1, 2, 3]], 4, "reading", images=True))
    (line,) = console.export_text().splitlines()
    assert line.startswith("reading 3 of 4 images, ")
    assert line.endswith(" images/s")
