"""A page as a file: what users wrote stays text, nothing is asked for, and it is small."""

import json
import re
from html import unescape
from pathlib import Path

import pytest

from uspebm.report.html import _web, document, plain_numbers, write_page
from uspebm.report.page import Chart, Code, Page, Remark, Section, Sheet, Words

from .common import HOSTILE

LARGEST = 5_000_000
PLAIN = Chart("chart", {"data": [{"type": "scatter", "x": [1], "y": [2.0]}], "layout": {}}, "alt")


def page_with(text: str) -> Page:
    figure = {"data": [{"type": "scatter", "x": [1], "y": [2.0], "name": text}], "layout": {}}
    blocks = (
        Words(text),
        Code(text, text),
        Sheet(text, (text, text), ((text, text),)),
        Chart(text, figure, text, text),
        Remark(text, text, text),
    )
    return Page(text, (Remark(text, text, text),), ((text, text),), (Section(text, blocks),))


def test_what_users_write_stays_text_everywhere() -> None:
    written = document(page_with(HOSTILE))
    assert "<script>window" not in written
    assert "<img src=x" not in written
    assert written.count("window.hacked") >= 20  # and it is there to be read
    assert HOSTILE in unescape(written)


def test_the_mutant_of_the_last_test_fails_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without escaping, the same texts would be elements."""
    import jinja2

    from uspebm.report import html

    class Trusting(jinja2.Environment):
        def __init__(self, **settings: object) -> None:
            super().__init__(**{**settings, "autoescape": False})  # type: ignore[arg-type]

    monkeypatch.setattr(jinja2, "Environment", Trusting)
    html._templates.cache_clear()
    try:
        assert "<script>window" in document(page_with(HOSTILE))
    finally:
        html._templates.cache_clear()


def test_only_its_own_scripts_may_run_and_nothing_is_asked_for() -> None:
    written = document(page_with("x"))
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', written)
    rules = dict(rule.strip().split(" ", 1) for rule in unescape(policy).split(";"))
    assert rules["default-src"] == rules["connect-src"] == "'none'"
    assert rules["script-src"] == f"'nonce-{re.findall('<script nonce=.([0-9a-f]+)', written)[0]}'"
    outside = re.sub(r'<script type="text/plain" id="library">.*?</script>', "", written)
    assert not re.findall(r"https?://", outside)
    assert "connect-src 'self'" in unescape(document(page_with("x"), live=True))


def test_a_text_cannot_end_the_data() -> None:
    written = document(page_with("</script><b>"))
    (data,) = re.findall(
        r'<script type="application/json" id="data">(.*?)</script>', written, re.DOTALL
    )
    assert json.loads(data)["s0b3"]["figure"]["data"][0]["name"] == "</script><b>"


def test_numbers_that_are_none_are_gaps() -> None:
    values = {"x": [1.0, float("nan"), float("inf")], "y": (1 / 3,)}
    assert plain_numbers(values) == {"x": [1.0, None, None], "y": [0.333333]}


def test_a_file_is_small_and_the_same_each_time(tmp_path: Path) -> None:
    page = Page("title", (), (), (Section("one", (PLAIN,)),))
    write_page(page, tmp_path / "report.html")
    written = (tmp_path / "report.html").read_text()
    assert len(written) < LARGEST / 2
    assert written == document(page)


def luminance(colour: str) -> float:
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """As WCAG 2 defines it.

    >>> contrast("#000000", "#ffffff")
    21.0
    """
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_text_and_lines_can_be_read(theme: int) -> None:
    """4.5 for text and 3 for graphics, as WCAG 2 asks for at level AA."""
    blocks = re.findall(r":root[^{]*\{([^}]*)\}", _web("page.css"))
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", blocks[theme]))
    for text in ("ink", "soft", "link"):
        for ground in ("ground", "card", "plain-ground"):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    for tone in ("good", "bad"):
        assert contrast(colours[tone], colours[f"{tone}-ground"]) >= 4.5
        assert contrast(colours["ink"], colours[f"{tone}-ground"]) >= 4.5
    for line in (
        *("data", "ps_usp", "srlmc", "ood", "importance", "wrong"),
        *("third", "fourth", "fifth", "sixth", "seventh"),
    ):
        assert contrast(colours[line], colours["card"]) >= 3, line
