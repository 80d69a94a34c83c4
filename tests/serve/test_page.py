"""The page in a real browser: nothing goes wrong, and nobody else is asked."""

import base64
import io
import shutil
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from PIL import Image

from uspebm import load

from .common import FRAME, MIXED, PIXELS, TOKEN
from .explaining import EXPLAINING
from .processes import IMPATIENT, Running, running

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
playwright = pytest.importorskip(
    "playwright.sync_api", reason="needs playwright: pip install playwright"
)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")
DROP = """
([content, name]) => {
  const bytes = Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));
  const data = new DataTransfer();
  data.items.add(new File([bytes], name, { type: "image/png" }));
  document.getElementById("drop").dispatchEvent(
    new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
}
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as found:
        chromium = found.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


class Watched:
    """A page, and what went wrong on it."""

    def __init__(self, browser: Any, service: Running, **settings: Any) -> None:
        self.page = browser.new_context(**settings).new_page()
        self.errors: list[str] = []
        self.hosts: set[str] = set()
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda asked: self.hosts.add(urlsplit(asked.url).netloc))
        self.page.goto(service.url)

    def _heard(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(message.text)

    def text(self, name: str) -> str:
        return str(self.page.locator(f"#{name}").inner_text())

    def judged(self) -> tuple[str, float, float]:
        """The verdict, the score and the p-value, once there are some."""
        playwright.expect(self.page.locator("#score")).not_to_have_text("–", timeout=60_000)
        return self.text("call"), self.number("score"), self.number("p-value")

    def number(self, name: str) -> float:
        return float(self.text(name).replace("−", "-"))

    def close(self, service: Running) -> None:
        assert self.errors == []
        own = urlsplit(service.url).netloc
        assert self.hosts <= {own, ""}  # nothing but itself, and data: addresses
        self.page.context.close()


@pytest.fixture(scope="module")
def of_images(served: Path) -> Iterator[Running]:
    with running(served / "pixels") as service:
        yield service


@pytest.fixture(scope="module")
def of_rows(served: Path) -> Iterator[Running]:
    with running(served / "named") as service:
        yield service


def test_an_image_is_dropped(browser: Any, of_images: Running, served: Path) -> None:
    watched = Watched(browser, of_images)
    watched.page.wait_for_selector("#image-input:visible")
    content = io.BytesIO()
    Image.fromarray(PIXELS[5]).save(content, "png")
    sent = base64.b64encode(content.getvalue()).decode()
    watched.page.evaluate(DROP, [sent, "five.png"])
    verdict, score, p = watched.judged()
    detector = load(served / "pixels")
    assert score == pytest.approx(detector.score_samples(PIXELS[5:6])[0], rel=1e-3)
    assert p == pytest.approx(detector.p_values(PIXELS[5:6])[0], rel=1e-2)
    assert verdict == "Like the data"
    assert watched.page.locator("#nearest canvas").count() == 5
    assert watched.page.locator("#histogram .mark").count() == 1
    watched.close(of_images)


def test_the_slider_decides(browser: Any, of_images: Running, served: Path) -> None:
    """With the keyboard: at the lowest rate nothing usual is an outlier, at the highest much is."""
    watched = Watched(browser, of_images)
    watched.page.wait_for_selector("#image-input:visible")
    low = int(np.argmin(load(served / "pixels").score_samples(PIXELS)))
    content = io.BytesIO()
    Image.fromarray(PIXELS[low]).save(content, "png")
    watched.page.set_input_files(
        "#file", {"name": "x.png", "mimeType": "image/png", "buffer": content.getvalue()}
    )
    watched.judged()
    slider = watched.page.locator("#rate")
    slider.focus()
    thresholds = []
    for key, verdict in (("Home", "Like the data"), ("End", "Outlier")):
        watched.page.keyboard.press(key)
        assert watched.text("call") == verdict
        thresholds.append(watched.number("threshold"))
    assert thresholds[0] < thresholds[1]
    assert watched.text("rate-said") == "50 %"
    watched.close(of_images)


def test_an_image_is_drawn(browser: Any, of_images: Running) -> None:
    watched = Watched(browser, of_images)
    watched.page.wait_for_selector("#image-input:visible")
    box = watched.page.locator("#drawing").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    watched.page.mouse.move(x - 40, y)
    watched.page.mouse.down()
    watched.page.mouse.move(x + 40, y + 30, steps=5)
    watched.page.mouse.up()
    assert watched.judged()[0] == "Outlier"
    drawn = watched.text("score")
    watched.page.click("#clear")
    playwright.expect(watched.page.locator("#score")).not_to_have_text(drawn)
    watched.page.click("#swap")
    watched.close(of_images)


def test_what_is_no_image_is_said(browser: Any, of_images: Running) -> None:
    watched = Watched(browser, of_images)
    watched.page.wait_for_selector("#image-input:visible")
    watched.page.evaluate(DROP, [base64.b64encode(b"text").decode(), "words.txt"])
    watched.page.wait_for_selector("#problem:visible")
    assert watched.text("problem") == "words.txt is no image that this browser reads"
    watched.close(of_images)


def test_a_row_is_typed(browser: Any, of_rows: Running, served: Path) -> None:
    watched = Watched(browser, of_rows, viewport={"width": 390, "height": 844})
    assert watched.judged()[0] == "Like the data"  # the form begins with a usual row
    labels = watched.page.locator("#row label").all_inner_texts()
    assert labels == list(FRAME.columns)  # as text: nothing of a name is taken for HTML
    for k, value in enumerate(FRAME.iloc[4]):
        watched.page.fill(f"#column-{k}", repr(float(value)))
    expected = load(served / "named").score_samples(FRAME[4:5])[0]
    shown = f"{expected:.4g}".replace("-", "−")
    playwright.expect(watched.page.locator("#score")).to_have_text(shown)
    assert watched.page.locator("#nearest tr").count() == 6
    watched.page.fill("#column-0", "9999")
    playwright.expect(watched.page.locator("#call")).to_have_text("Outlier")
    watched.close(of_rows)


def test_rows_are_pasted(browser: Any, of_rows: Running, served: Path) -> None:
    watched = Watched(browser, of_rows)
    watched.judged()
    watched.page.click("#paste summary")
    strange = FRAME[:4].copy()
    strange.iloc[2] *= 50
    watched.page.fill("#csv", strange.to_csv(index=False))
    watched.page.click("#score-csv")
    watched.page.wait_for_selector("#all-rows td")
    assert watched.page.locator("#all-rows tr").count() == 5
    assert watched.page.locator("#all-rows tr[aria-current=true] button").inner_text() == "row 3"
    assert watched.text("call") == "Outlier"
    watched.page.click("#all-rows tr:nth-child(2) button")
    assert watched.text("call") == "Like the data"
    watched.close(of_rows)


def test_reasons_are_shown(browser: Any, served: Path) -> None:
    """Of a row as columns, of an image as heat over it."""
    for model, found in (("named", "#why meter"), ("pixels", "#why canvas")):
        with running(served / model, "{}", program=EXPLAINING + IMPATIENT) as service:
            watched = Watched(browser, service)
            if model == "pixels":
                watched.page.click("#clear")
            playwright.expect(watched.page.locator(found)).to_have_count(1)
            watched.close(service)


def test_what_the_service_refuses_is_said(browser: Any, of_rows: Running) -> None:
    watched = Watched(browser, of_rows)
    watched.judged()
    watched.page.fill("#column-0", "many")
    watched.page.wait_for_selector("#problem:visible")
    assert watched.text("problem") == "row 1, column 'a': \"many\" is not a number"
    # Browsers log every refusal of a request; it is the only thing they may have to say.
    assert all("422" in error for error in watched.errors)
    watched.errors.clear()
    watched.close(of_rows)


def test_words_and_dates_have_fields_of_their_own(browser: Any, served: Path) -> None:
    with running(served / "mixed") as service:
        watched = Watched(browser, service)
        watched.page.wait_for_selector("#row-input:visible")
        told = watched.page.evaluate("async () => (await (await fetch('/info')).json()).columns")
        moment = datetime.fromisoformat(watched.page.input_value("#column-3"))
        assert f"{moment:%a %H:%M}" == told[3]["usual"]  # no other day, whatever day it is
        watched.page.fill("#column-0", "0.1")
        watched.page.select_option("#column-1", MIXED["colour"][0])
        watched.page.select_option("#column-2", "true")
        watched.page.fill("#column-3", "2024-05-03T14:30")
        watched.page.wait_for_selector("#nearest td")
        watched.judged()
        assert watched.text("problem") == ""
        watched.close(service)


def test_a_token_is_asked_for(browser: Any, served: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USPEBM_TOKEN", TOKEN)
    with running(served / "named") as service:
        watched = Watched(browser, service)
        watched.page.wait_for_selector("#access:visible")
        assert not watched.page.is_visible("#work")
        watched.page.fill("#token", TOKEN)
        watched.page.keyboard.press("Enter")
        watched.judged()
        assert all("401" in error for error in watched.errors)
        watched.errors.clear()
        watched.close(service)


def test_the_page_for_programs_reads_the_schema(browser: Any, of_rows: Running) -> None:
    watched = Watched(browser, of_rows)
    watched.judged()
    watched.page.goto(f"{of_rows.url}docs")
    watched.page.wait_for_selector("#paths section")
    heads = watched.page.locator("#paths h2").all_inner_texts()
    assert heads == ["POST /score", "GET /info", "GET /health", "GET /metrics"]
    assert "application/x-npy" in watched.text("paths")
    watched.close(of_rows)
