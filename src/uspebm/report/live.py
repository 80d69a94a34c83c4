"""A page that follows a run while it trains, served to this machine alone.

The page asks for news every second, and gets the parts of the page as the folder makes them then.
Nothing is kept here but the last answer, which holds until a file of the folder changes.
"""

import json
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any

from ..recipes.run import KEPT_BESIDE
from ..support.reading import one_line
from .build import page_of
from .html import document, news
from .page import Page, Remark
from .run_files import is_run

LOOPBACK = "127.0.0.1"
HOSTS = (LOOPBACK, "localhost")
"""What a browser of this machine calls it; others are pages that want to read along."""
WATCHED = ("*.json", "*.jsonl", "*/*.json", "*/*.jsonl", "*/*/*.json", "*/*/*.jsonl")


class Watched:
    """A folder, and the page that it makes at the moment."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._lock = folder, Lock()
        self._known: tuple[object, Page] | None = None

    def page(self) -> Page:
        """As the files are now; while there are none, a page that says so."""
        place = _place(self._folder)
        with self._lock:
            stamp = _stamp(place)
            if self._known is None or self._known[0] != stamp:
                self._known = stamp, _page(place, self._folder)
            return self._known[1]


class LiveServer(ThreadingHTTPServer):
    """Serves one folder's page until it is told to stop."""

    daemon_threads = True

    def __init__(self, folder: Path, port: int) -> None:
        self.watched = Watched(folder)
        try:
            super().__init__((LOOPBACK, port), _Answers)
        except OSError as error:
            raise OSError(
                f"--port {port} cannot be used: {error.strerror}; choose another, or 0 for any"
            ) from error

    @property
    def address(self) -> str:
        """To be opened in a browser."""
        return f"http://{LOOPBACK}:{self.server_address[1]}/"


class _Answers(BaseHTTPRequestHandler):
    server: LiveServer

    def do_GET(self) -> None:
        host = self.headers.get("Host", "").rpartition(":")[0]
        if host not in HOSTS:
            self._send(HTTPStatus.FORBIDDEN, "text/plain", "this machine only")
        elif self.path == "/":
            self._made("text/html; charset=utf-8", lambda page: document(page, live=True))
        elif self.path == "/page.json":
            self._made("application/json", lambda page: json.dumps(news(page), allow_nan=False))
        else:
            self._send(HTTPStatus.NOT_FOUND, "text/plain", "there is / and /page.json")

    def _made(self, kind: str, make: Callable[[Page], str]) -> None:
        try:
            content = make(self.server.watched.page())
        except Exception as error:  # whatever a file that is half there leads to: it will be whole
            said = json.dumps({"error": one_line(error)})
            self._send(HTTPStatus.SERVICE_UNAVAILABLE, "application/json", said)
        else:
            self._send(HTTPStatus.OK, kind, content)

    def _send(self, status: HTTPStatus, kind: str, text: str) -> None:
        content = text.encode()
        self.send_response(status)
        for name, value in (
            ("Content-Type", kind),
            ("Content-Length", str(len(content))),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Nobody wants a line for every second."""


def _place(folder: Path) -> Path:
    """A model's training while it is on, or else the folder."""
    named = folder.resolve()  # "." has no name
    training = named.parent / (named.name + KEPT_BESIDE)
    return training if is_run(training) else folder


def _stamp(place: Path) -> tuple[object, ...]:
    """Changes when what the page is made of does."""
    found = sorted(path for pattern in WATCHED for path in place.glob(pattern))
    known = []
    for path in found:
        try:
            state = path.stat()
        except FileNotFoundError:  # replaced at this moment
            continue
        known.append((path, state.st_mtime_ns, state.st_size))
    return (place, *known)


def _page(place: Path, folder: Path) -> Page:
    if not _stamp(place)[1:]:
        wait = Remark(
            "Nothing is there yet", f"{folder} has no run so far; this page waits for it."
        )
        return Page(f"Waiting for {folder.name}", (wait,), (), ())
    return page_of(place)
