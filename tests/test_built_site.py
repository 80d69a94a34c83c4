"""The site as a reader gets it: built without a warning, whole, looked at in a browser."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from itertools import product
from pathlib import Path
from urllib.parse import unquote

import pytest

from .pages import ROOT
from .report.browser import Looked, chromium

LONGEST = 120
"""Seconds that building it may take."""
FAULTS = """[
    document.documentElement.scrollWidth - innerWidth,
    [...document.images].filter((image) => image.complete && !image.naturalWidth).length,
]"""
"""Pixels beyond the window's edge, and pictures that could not be read."""
LOOKED_AT = ("index", "why", "settings", "reference/phases", "record/results-speed")


class Seen(HTMLParser):
    """What a page has anchors for, links to, and needs to be read."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.needs: list[str] = []
        self.formulas = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if "id" in given:
            self.anchors.add(given["id"])
        if tag == "a":
            self.links.append(given.get("href", ""))
        elif tag == "link" and given.get("rel") in {"stylesheet", "icon", "preload"}:
            self.needs.append(given["href"])
        elif "src" in given:
            self.needs.append(given["src"])
        self.formulas += tag == "math"


def missing(pages: dict[Path, Seen]) -> list[str]:
    """Links to files or anchors of the site that are not there, and what is needed from afar."""
    wrong = []
    for path, seen in pages.items():
        wrong += [f"{path.name} needs {need}" for need in seen.needs if is_far(need)]
        for link in (*seen.links, *(need for need in seen.needs if not is_far(need))):
            if not link or is_far(link) or link.startswith("data:"):
                continue
            place, _, anchor = unquote(link).partition("#")
            aim = (path.parent / place.partition("?")[0]).resolve() if place else path
            if aim.is_dir():
                aim /= "index.html"
            if not aim.exists() or (anchor and aim in pages and anchor not in pages[aim].anchors):
                wrong.append(f"{path.name} → {link}")
    return wrong


def is_far(link: str) -> bool:
    return re.match(r"(https?:)?//|mailto:", link) is not None


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
    run = subprocess.run(
        [*command, str(ROOT / "docs"), str(out)], capture_output=True, text=True, timeout=LONGEST
    )
    assert (run.returncode, run.stderr) == (0, "")
    return out


def test_it_is_whole(site: Path) -> None:
    pages = {path: Seen(path.read_text()) for path in site.rglob("*.html")}
    assert len(pages) > 40
    assert missing(pages) == []
    assert pages[site / "why.html"].formulas > 10
    assert pages[site / "reference" / "phases.html"].formulas > 5
    drawn = "".join(path.read_text() for path in pages)
    assert "<mi>log</mi><mspace" in drawn  # and not "logq"
    assert "&#x029F5;" not in drawn  # which fonts lack
    results = [path for path in pages if path.name.startswith("results-")]
    headings = re.findall(r"^## ", (ROOT / "RESULTS.md").read_text(), re.MULTILINE)
    assert len(results) == len(headings)
    assert "uspebm" in (site / "searchindex.js").read_text()


def test_pages_fit_tables_sort_and_nothing_is_fetched(site: Path) -> None:
    """All pages on a dark telephone, which is the hardest; some of them in every other way."""
    backgrounds = {}
    every = [str(path.relative_to(site).with_suffix("")) for path in site.rglob("*.html")]
    with chromium() as browser:
        for scheme, narrow in product(("light", "dark"), (False, True)):
            looked = Looked(browser, scheme, narrow)
            page = looked.page
            hardest = narrow and scheme == "dark"
            for name in (*(sorted(every) if hardest else ()), *LOOKED_AT):
                page.goto((site / f"{name}.html").as_uri())
                assert (name, *page.evaluate(FAULTS)) == (name, 0, 0)
            assert [url for url in looked.asked if is_far(url)] == []
            assert looked.faults == []
            backgrounds[scheme] = page.evaluate("getComputedStyle(document.body).backgroundColor")
            table = page.locator("article table").first
            before = table.locator("tbody tr").all_inner_texts()
            table.locator(".sorter").first.click()
            after = table.locator("tbody tr").all_inner_texts()
            assert after != before
            assert sorted(after) == sorted(before)
    assert backgrounds["light"] != backgrounds["dark"]


def test_pages_are_found_by_their_words(site: Path) -> None:
    with chromium() as browser:
        page = Looked(browser).page
        page.goto((site / "search.html").as_uri() + "?q=crowding")
        found = page.locator("ul.search li a")
        found.first.wait_for()
        assert any("why.html" in (link.get_attribute("href") or "") for link in found.all())
        page.goto((site / "search.html").as_uri() + "?q=zzyzx")
        page.get_by_text("did not match any documents").wait_for()


def test_what_is_missing_is_noticed(tmp_path: Path) -> None:
    """The mutants: a page that is gone, an anchor that is gone, a script from afar."""
    one, other = tmp_path / "one.html", tmp_path / "other.html"
    one.write_text('<a href="other.html#here"></a><a href="gone.html"></a><a href="#gone"></a>')
    other.write_text('<p id="here"></p><script src="https://example.org/x.js"></script>')
    pages = {path: Seen(path.read_text()) for path in (one, other)}
    assert missing(pages) == [
        "one.html → gone.html",
        "one.html → #gone",
        "other.html needs https://example.org/x.js",
    ]
