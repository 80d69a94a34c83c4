"""A real browser, or a clear word that there is none."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
WIDE, NARROW = {"width": 1200, "height": 900}, {"width": 360, "height": 740}
DRAWN = "html[data-drawn=yes]"


@contextmanager
def chromium() -> Iterator["Browser"]:
    """Chromium without a window."""
    api = pytest.importorskip(
        "playwright.sync_api", reason="no playwright: pip install playwright", exc_type=ImportError
    )
    found = next((place for name in CHROMIUM if (place := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium to look at reports with: apt-get install chromium")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


class Looked:
    """A page, and what it said and asked for."""

    def __init__(self, browser: "Browser", scheme: str = "light", narrow: bool = False) -> None:
        size = NARROW if narrow else WIDE
        self.page: Page = browser.new_page(
            viewport={"width": size["width"], "height": size["height"]},
            color_scheme="dark" if scheme == "dark" else "light",
        )
        self.faults: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.faults.append(message.text))
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))

    def open(self, address: str) -> "Page":
        """The page, once its charts are drawn."""
        self.page.goto(address)
        self.page.wait_for_selector(DRAWN)
        return self.page
