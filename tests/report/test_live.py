"""The page of a run while it trains."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

import pytest

from uspebm.report.live import LiveServer
from uspebm.training.run_log import write_rows

from .browser import Looked, chromium
from .common import HOSTILE, row, rows, write_run

SOON = 2.0
"""Seconds in which a new point is to be seen."""


@contextmanager
def served(folder: Path) -> Iterator[LiveServer]:
    with LiveServer(folder, 0) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def answer(server: LiveServer, path: str, host: str | None = None) -> tuple[int, str]:
    connection = HTTPConnection("127.0.0.1", server.server_address[1], timeout=10)
    try:
        connection.request("GET", path, headers={} if host is None else {"Host": host})
        found = connection.getresponse()
        return found.status, found.read().decode()
    finally:
        connection.close()


def last_step(server: LiveServer) -> int:
    status, text = answer(server, "/page.json")
    assert status == 200, text
    charts = [one for one in json.loads(text)["data"].values() if one["kind"] == "chart"]
    return int(charts[0]["figure"]["data"][0]["x"][-1])


def test_news_follow_the_log(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", rows(20))
    with served(run) as server:
        assert last_step(server) == 20
        write_rows(run / "log.jsonl", [*rows(20), row(21)])
        assert last_step(server) == 21


def test_before_there_is_a_run_the_page_waits(tmp_path: Path) -> None:
    with served(tmp_path / "run") as server:
        status, text = answer(server, "/page.json")
        assert (status, "Waiting for run" in text) == (200, True)
        write_run(tmp_path / "run", rows(3))
        assert last_step(server) == 3


def test_a_model_that_is_being_fitted_shows_its_training(tmp_path: Path) -> None:
    write_run(tmp_path / "model.training", rows(7))
    with served(tmp_path / "model") as server:
        assert last_step(server) == 7


def test_a_folder_is_found_from_inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write_run(tmp_path / "model", rows(7))
    monkeypatch.chdir(run)
    with served(Path()) as server:
        assert last_step(server) == 7
        write_run(tmp_path / "model.training", rows(9))
        assert last_step(server) == 9


def test_a_damaged_file_is_said_and_not_the_end(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", rows(20))
    with served(run) as server:
        (run / "run.json").write_text("{")
        status, text = answer(server, "/page.json")
        assert (status, "run.json" in json.loads(text)["error"]) == (503, True)
        write_run(run, rows(21))
        assert last_step(server) == 21


def test_only_pages_of_this_machine_may_read(tmp_path: Path) -> None:
    """A page of another name that leads here is told nothing."""
    with served(write_run(tmp_path / "run", rows(3))) as server:
        assert server.server_address[0] == "127.0.0.1"
        assert answer(server, "/page.json", "evil.example:80")[0] == 403
        assert answer(server, "/page.json", f"localhost:{server.server_address[1]}")[0] == 200
        assert answer(server, "/../run.json")[0] == 404


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        port = int(server.server_address[1])
        with pytest.raises(OSError, match=f"--port {port} cannot be used"):
            LiveServer(tmp_path, port)


def test_a_new_point_is_seen_within_two_seconds_without_reloading(tmp_path: Path) -> None:
    log = rows(20)
    run = write_run(tmp_path / HOSTILE.replace("/", "-"), log)
    with chromium() as browser, served(run) as server:
        looked = Looked(browser)
        page = looked.open(server.address)
        page.wait_for_function("() => document.getElementById('state').textContent === 'live'")
        page.evaluate("() => { window.kept = 1; }")
        page.locator(".player input[type=range]").focus()
        page.keyboard.press("Home")
        slowest = 0.0
        for step in (21, 22, 23):
            log.append(row(step))
            write_rows(run / "log.jsonl", log)
            began = time.monotonic()
            page.wait_for_function(
                f"() => document.querySelector('.chart .plot').data[0].x.at(-1) === {step}",
                timeout=1000 * SOON,
            )
            slowest = max(slowest, time.monotonic() - began)
        assert slowest < SOON
        assert page.evaluate("window.kept") == 1
        assert page.evaluate("window.hacked") is None
        assert page.locator(".player output").inner_text() == "update 1"  # where it was put
        assert looked.faults == []
