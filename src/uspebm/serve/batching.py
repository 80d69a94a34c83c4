"""Requests that wait together are scored together, in a thread of their own.

Scoring a few rows costs nearly what scoring many does. While one call is at work others arrive; the
next call takes all of them. Nobody waits for company: a request that comes alone is scored alone.
"""

import asyncio
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from .served_model import Judged


class BatchScorer(Protocol):
    """What scores: a model, as far as a queue has to know it.

    ``together``: rows that are scored in one call, where no request has more.
    """

    together: int

    def judged(self, points: Tensor) -> Judged:
        """Of points ``(N, *event)``."""


class WaitingPoints(NamedTuple):
    """Points of one request, the model that it came to, and who wants to know."""

    model: BatchScorer
    points: Tensor
    answer: asyncio.Future[Judged]


class Batcher:
    """One thread that scores, and a queue before it.

    Arguments:
        seen: Told of every call: how many rows it had.
    """

    def __init__(self, seen: Callable[[int], None]) -> None:
        self._seen = seen
        self._waiting: queue.SimpleQueue[WaitingPoints | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="scoring", daemon=True)
        self._thread.start()

    async def judged(self, model: BatchScorer, points: Tensor) -> Judged:
        """Scores and p-values; who is cancelled before the call is left out of it."""
        answer: asyncio.Future[Judged] = asyncio.get_running_loop().create_future()
        self._waiting.put(WaitingPoints(model, points, answer))
        return await answer

    def close(self) -> None:
        """Score what waits, and end."""
        self._waiting.put(None)
        self._thread.join()

    def _work(self) -> None:
        held: WaitingPoints | None = None
        while True:
            first = held or self._waiting.get()
            if first is None:
                return
            together, held = self._gathered(first)
            if together:
                self._answer(together)

    def _gathered(self, first: WaitingPoints) -> tuple[list[WaitingPoints], WaitingPoints | None]:
        """Those that can be scored in one call, and one that cannot, for the next."""
        together: list[WaitingPoints] = []
        rows = 0
        one: WaitingPoints | None = first
        while one is not None:
            if not one.answer.cancelled():
                model = together[0].model if together else one.model
                if one.model is not model or (together and rows + len(one.points) > model.together):
                    return together, one
                together.append(one)
                rows += len(one.points)
            try:
                one = self._waiting.get_nowait()
            except queue.Empty:
                return together, None
            if one is None:
                self._waiting.put(None)  # the end, when these are done
        return together, None

    def _answer(self, together: list[WaitingPoints]) -> None:
        try:
            whole = torch.cat([one.points for one in together])
            judged = together[0].model.judged(whole)
        except Exception as error:  # each of them is told, and the thread goes on
            for one in together:
                _tell(one.answer, error)
            return
        self._seen(len(whole))
        begin = 0
        for one in together:
            part = slice(begin, begin + len(one.points))
            begin += len(one.points)
            _tell(one.answer, Judged(judged.scores[part], judged.p_values[part]))


def _tell(answer: asyncio.Future[Judged], what: Judged | Exception) -> None:
    def tell() -> None:
        if answer.done():  # it was cancelled
            return
        if isinstance(what, Exception):
            answer.set_exception(what)
        else:
            answer.set_result(what)

    with suppress(RuntimeError):  # the loop has ended, and with it who asked
        answer.get_loop().call_soon_threadsafe(tell)
