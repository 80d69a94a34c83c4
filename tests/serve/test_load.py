"""A short form of the load (``python -m tests.serve.load`` is the long one)."""

import asyncio
from pathlib import Path

from .load import loaded, megabytes, rows_of
from .processes import running

CLIENTS = 64
MOST_GROWN = 60.0
"""Megabytes: allocators keep some of what 64 requests at once took."""


def test_many_clients_at_once(served: Path) -> None:
    model = str(served / "nameless")
    body = rows_of(model)
    with running(model) as service:
        asyncio.run(loaded(service, body, CLIENTS, 1.0))
        before = megabytes(service)
        found = asyncio.run(loaded(service, body, CLIENTS, 4.0))
        grown = megabytes(service) - before
    assert found.errors == []
    assert len(found.seconds) > 2 * CLIENTS
    assert grown < MOST_GROWN
