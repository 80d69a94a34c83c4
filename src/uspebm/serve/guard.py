"""What every request passes before it is looked at, and every answer on its way out.

Who may ask: on the loopback interface any program of this machine, but no page of another site (a
name that points here, or a form that posts here, is refused); elsewhere who has the token. Nothing
of a request is logged but its size.
"""

import asyncio
import hmac
import ipaddress
import json
import logging
import time
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .limits import RefusedRequestError
from .service import Service

log = logging.getLogger(__name__)
OPEN = {"/", "/docs", "/health", "/page.css", "/page.js", "/charts.js", "/inputs.js", "/docs.js"}
"""What needs no token: files of the package's, and whether there is a service at all."""
ALWAYS = {"/health", "/metrics"}
"""What is answered however busy it is."""
PATHS = OPEN | {"/score", "/info", "/metrics", "/openapi.json"}
ABANDONED = 499
FAILED = "the service failed on this request; its log says how"
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_SENT = [(name.encode(), value.encode()) for name, value in HEADERS.items()]


class Guard:
    """The outermost part of the application.

    Arguments:
        app: What answers.
        service: Whose limits and metrics count.
        token: What has to be sent as ``Authorization: Bearer ...``; without one, requests have to
            come from this machine, under a name of its own.
    """

    def __init__(self, app: ASGIApp, service: Service, token: str | None) -> None:
        self._app, self._service = app, service
        self._token = None if token is None else token.encode()
        self._at_work = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), ABANDONED

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", []), *_SENT]
            await send(message)

        try:
            status = await self._answered(scope, receive, sent) or status
        finally:
            path = scope["path"] if scope["path"] in PATHS else "other"
            metrics = self._service.metrics
            metrics.requests.labels(path, status).inc()
            metrics.seconds.labels(path).observe(time.perf_counter() - began)

    async def _answered(self, scope: Scope, receive: Receive, send: Send) -> int | None:
        headers = {name.lower(): value for name, value in scope["headers"]}
        counted = scope["path"] not in ALWAYS
        try:
            self._refuse(scope["path"], headers)
            if counted and self._at_work >= self._service.limits.requests:
                raise RefusedRequestError(
                    503, "too many requests at once: try again", {"Retry-After": "1"}
                )
        except RefusedRequestError as error:
            await send_refusal(send, error)
            return None
        self._at_work += counted
        self._service.metrics.at_work.set(self._at_work)
        try:
            return await self._within_time(scope, receive, send)
        finally:
            self._at_work -= counted
            self._service.metrics.at_work.set(self._at_work)

    async def _within_time(self, scope: Scope, receive: Receive, send: Send) -> int | None:
        begun = ended = False

        async def noted(message: Message) -> None:
            nonlocal begun, ended
            begun = True
            ended = message["type"] == "http.response.body" and not message.get("more_body", False)
            await send(message)

        seconds = self._service.limits.answering
        try:
            async with asyncio.timeout(seconds):
                await self._app(scope, receive, noted)
            return None
        except ClientDisconnect:
            return ABANDONED
        except TimeoutError:
            error = RefusedRequestError(
                504, f"it took more than {seconds:g} seconds: send less at once"
            )
        except Exception as found:  # a mistake of ours; what was sent may be in its message
            where = found.__traceback__
            while where is not None and where.tb_next is not None:
                where = where.tb_next
            line = "?" if where is None else f"{where.tb_frame.f_code.co_name}:{where.tb_lineno}"
            log.error("%s in %s while answering %s", type(found).__name__, line, scope["path"])
            error = RefusedRequestError(500, FAILED)
        if ended:
            return None
        if begun:
            raise ConnectionAbortedError  # half an answer is none: the connection is closed
        await send_refusal(send, error)
        return None

    def _refuse(self, path: str, headers: dict[bytes, bytes]) -> None:
        host = headers.get(b"host", b"").decode("latin-1")
        if self._token is None and not is_loopback(_name_of(host)):
            raise RefusedRequestError(
                421, "this service answers under localhost only: other names need a token"
            )
        if b"origin" in headers:
            origin = headers[b"origin"].decode("latin-1")
            if _place_of(origin) != host.lower():
                raise RefusedRequestError(403, "pages of other sites may not ask")
        if self._token is None or path in OPEN:
            return
        kind, _, given = headers.get(b"authorization", b"").partition(b" ")
        right = hmac.compare_digest(given.strip(), self._token)
        if kind.lower() != b"bearer" or not right:
            raise RefusedRequestError(
                401,
                "the token is missing or wrong: send it as 'Authorization: Bearer TOKEN'",
                {"WWW-Authenticate": "Bearer"},
            )


async def send_refusal(send: Send, error: RefusedRequestError) -> None:
    """An error as an answer."""
    body = as_json({"error": str(error)})
    headers = {
        "content-type": "application/json",
        "content-length": str(len(body)),
        **{name.lower(): value for name, value in error.headers.items()},
    }
    encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": error.status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})


def as_json(value: Any) -> bytes:
    """In UTF-8."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()


def _name_of(host: str) -> str:
    """Without the port.

    >>> _name_of("localhost:8000"), _name_of("[::1]:8000")
    ('localhost', '::1')
    """
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _place_of(origin: str) -> str | None:
    """Name and port of a page's site; None where it says none.

    >>> _place_of("http://localhost:8000"), _place_of("http://[")
    ('localhost:8000', None)
    """
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None


def is_loopback(host: str) -> bool:
    """Whether only this machine is meant.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("localhost.evil.example")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
