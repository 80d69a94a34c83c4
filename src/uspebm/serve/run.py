"""A service that runs until it is told to end.

SIGHUP reads the model again; SIGTERM and SIGINT end it after what it took is answered.
"""

import asyncio
import logging
import signal
import socket
import warnings
from collections.abc import Callable
from contextlib import suppress

import torch
import uvicorn

from .app import application
from .guard import is_loopback
from .patience import GRACE, patient
from .service import Service

log = logging.getLogger(__name__)
LEAST_TOKEN = 16
"""Characters."""


def check_access(host: str, token: str | None) -> None:
    """Refuse to be heard by others without a token, or with one that can be guessed."""
    if token is None and not is_loopback(host):
        raise ValueError(
            f"--host {host} can be reached by others: give a token (--token-file FILE, or the "
            "variable USPEBM_TOKEN)"
        )
    if token is not None and (len(token) < LEAST_TOKEN or not token.isascii()):
        raise ValueError(
            f"the token must have at least {LEAST_TOKEN} characters, all ASCII: make one by "
            "'openssl rand -hex 32'"
        )


def listening(host: str, port: int) -> socket.socket:
    """A socket to listen on, or one line that says why there is none."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise OSError(f"cannot listen on {host}, port {port}: {error.strerror or error}") from error


def serve_until_told(
    service: Service,
    listener: socket.socket,
    token: str | None = None,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Answer requests; ``ready`` is called when the first can come."""
    torch.set_num_threads(1)  # more would wait for each other on small batches
    # What is odd about a request is in its answer; the log is not the place.
    warnings.simplefilter("ignore")
    limits = service.limits
    server = uvicorn.Server(
        uvicorn.Config(
            application(service, token),
            http=patient(limits),
            ws="none",
            lifespan="off",
            access_log=False,
            log_config=None,
            log_level=logging.CRITICAL,  # the guard says what went wrong, and nothing of requests
            server_header=False,
            proxy_headers=False,
            limit_concurrency=limits.connections,
            timeout_graceful_shutdown=int(limits.answering + GRACE),
        )
    )

    async def run() -> None:
        serving = asyncio.ensure_future(server.serve([listener]))
        while not server.started and not serving.done():
            await asyncio.sleep(0.01)
        obeying = asyncio.ensure_future(_obey(server, service))
        await asyncio.sleep(0)  # it listens now
        ready()
        await serving
        obeying.cancel()

    try:
        asyncio.run(run())
    finally:
        service.close()


async def _obey(server: uvicorn.Server, service: Service) -> None:
    """Signals, in place of uvicorn's handlers, which end the process by the same signal."""
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()

    def end() -> None:
        if server.should_exit:
            server.force_exit = True  # told twice
        server.should_exit = True
        log.info("ending, when what was taken is answered")

    for number, handler in (("SIGTERM", end), ("SIGINT", end), ("SIGHUP", asked.set)):
        with suppress(AttributeError, NotImplementedError):  # not on every system
            loop.add_signal_handler(getattr(signal, number), handler)
    while True:
        await asked.wait()
        asked.clear()  # before it is read: who asks meanwhile may have written another one
        await loop.run_in_executor(None, service.reload)
