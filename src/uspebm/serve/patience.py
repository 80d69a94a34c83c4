"""uvicorn's protocol, with an end to its patience: it has none with slow or endless headers."""

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .limits import Limits

GRACE = 5.0
"""Seconds for an answer of its own before a connection is cut."""
TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n\r\n"


class PatientProtocol(HttpToolsProtocol):
    """A connection that is cut if a request does not arrive, or an answer is not taken."""

    limits: Limits
    _late: asyncio.TimerHandle | None = None
    _stuck: asyncio.TimerHandle | None = None
    _head = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel()
        if self._stuck is not None:
            self._stuck.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._head >= 0:
            self._head += len(data)
            # Long data may be a short header and the begin of a body.
            if self._head > self.limits.header + len(data):
                self.transport.write(TOO_LONG)
                self.transport.close()
                return
        super().data_received(data)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head = 0
        self._wait()

    def on_headers_complete(self) -> None:
        self._head = -1
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._cancel()
        super().on_message_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stuck = self.loop.call_later(self.limits.answering, self.transport.abort)

    def resume_writing(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
        super().resume_writing()

    def _wait(self) -> None:
        self._cancel()
        self._late = self.loop.call_later(self.limits.arriving + GRACE, self.transport.abort)

    def _cancel(self) -> None:
        if self._late is not None:
            self._late.cancel()


def patient(limits: Limits) -> type[asyncio.Protocol]:
    """The protocol, as patient as these limits are."""
    return type("Patient", (PatientProtocol,), {"limits": limits})
