"""Reports as people open them: from disk, wide and narrow, light and dark, by keyboard."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from uspebm.report.build import write_report

from .browser import Looked, chromium
from .common import HOSTILE, image_model, rows, short_demo, table_model, write_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser

MADE: dict[str, Callable[[Path], Path]] = {
    "demo": short_demo,
    "table": lambda folder: table_model(folder, HOSTILE),
    "images": image_model,
    "faulty run": lambda folder: write_run(folder, rows(60, lambda step: {"violating": 0.0})),
}
UNNAMED = """() => [...document.querySelectorAll("input, button, img, .plot, [role=region]")]
    .filter((e) => !(e.alt || e.ariaLabel || e.textContent.trim() || e.labels?.length))
    .map((e) => e.outerHTML)"""


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    place = tmp_path_factory.mktemp("reports")
    return {kind: write_report(make(place / kind)).as_uri() for kind, make in MADE.items()}


@pytest.mark.parametrize("kind", MADE)
def test_it_opens_from_disk_in_silence_and_asks_for_nothing(
    browser: "Browser", reports: dict[str, str], kind: str
) -> None:
    looked = Looked(browser)
    page = looked.open(reports[kind])
    assert looked.faults == []
    assert [url for url in looked.asked if not url.startswith(("data:", "blob:"))] == [
        reports[kind]
    ]
    assert page.locator(".plot").count() > 0
    assert page.locator(".plot:not(:has(.main-svg))").count() == 0
    assert page.evaluate("window.hacked") is None
    assert page.evaluate(UNNAMED) == []


def test_the_policy_stops_what_escaping_would_let_through(
    browser: "Browser", reports: dict[str, str], tmp_path: Path
) -> None:
    """The control: a script that stands in the file, without the page's own number."""
    written = Path(reports["demo"].removeprefix("file://")).read_text()
    (tmp_path / "report.html").write_text(
        written.replace("<h1>", "<script>window.hacked = 1</script><h1>", 1)
    )
    looked = Looked(browser)
    page = looked.open((tmp_path / "report.html").as_uri())
    assert page.evaluate("window.hacked") is None
    assert any("Content Security Policy" in fault for fault in looked.faults)


def test_the_slider_goes_through_training_by_keyboard(
    browser: "Browser", reports: dict[str, str]
) -> None:
    page = Looked(browser).open(reports["demo"])
    slider, shown = page.locator(".player input[type=range]"), page.locator(".player output")
    density = "() => document.querySelectorAll('.player .plot')[1].data[0].z.flat().join()"
    assert shown.inner_text() == "update 6"
    last = page.evaluate(density)
    slider.focus()
    page.keyboard.press("Home")
    assert shown.inner_text() == "update 1"
    assert slider.get_attribute("aria-valuetext") == "update 1"
    assert page.evaluate(density) != last
    points = "() => document.querySelectorAll('.player .plot')[1].data[1].x.length"
    assert page.evaluate(points) == 200
    page.locator(".player input.points").uncheck()
    assert page.evaluate(points) == 0
    page.locator(".player input.log").check()
    assert page.evaluate("() => document.querySelector('.player .plot').data[0].zmin") < 0


def test_the_dial_shows_alarms_and_misses(browser: "Browser", reports: dict[str, str]) -> None:
    page = Looked(browser).open(reports["table"])
    slider, shown = page.locator(".dial input"), page.locator(".dial output")
    before, said = shown.inner_text(), page.locator(".readings").inner_text()
    assert before.startswith("5.0 %")
    slider.focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    assert shown.inner_text() != before
    assert page.locator(".readings").inner_text() != said
    assert "are missed" in said
    line = page.evaluate("() => document.querySelector('.dial .plot').layout.shapes[0].x0")
    assert "threshold" in (page.locator(".dial .legend").text_content() or "")
    assert float(shown.inner_text().split()[-1]) == pytest.approx(line, rel=1e-3)


@pytest.mark.parametrize("kind", MADE)
def test_a_narrow_screen_needs_no_scrolling_to_the_side(
    browser: "Browser", reports: dict[str, str], kind: str
) -> None:
    page = Looked(browser, narrow=True).open(reports[kind])
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_dark_is_dark_and_can_be_changed(browser: "Browser", reports: dict[str, str]) -> None:
    ground = "() => getComputedStyle(document.body).backgroundColor"
    ink = "() => document.querySelector('.chart .plot').layout.font.color"
    page = Looked(browser, "dark").open(reports["demo"])
    dark = page.evaluate(ground), page.evaluate(ink)
    page.get_by_role("button", name="Switch to light colours").click()
    light = page.evaluate(ground), page.evaluate(ink)
    assert dark != light
    other = Looked(browser).open(reports["demo"])
    assert (other.evaluate(ground), other.evaluate(ink)) == light
