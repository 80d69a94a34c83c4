"""Requests that wait together are scored together, and each gets its own."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from uspebm.serve.batching import Batcher
from uspebm.serve.served_model import TOGETHER, Judged


class Slow:
    """A model that says of a point its first number, and goes on when it is told to."""

    together = TOGETHER

    def __init__(self) -> None:
        self.calls: list[int] = []
        self.go = threading.Event()
        self.begun = threading.Event()

    def judged(self, points: Tensor) -> Judged:
        self.begun.set()
        assert self.go.wait(10)
        self.calls.append(len(points))
        if (points[:, 0] == 13).any():
            raise RuntimeError("thirteen")
        found = points[:, 0].double().numpy()
        return Judged(found, found)


def row(value: float, count: int = 1) -> Tensor:
    return torch.full((count, 2), value)


def batched(work: Callable[[Batcher], Awaitable[Any]]) -> list[int]:
    """Runs ``work``; how many rows each call had."""
    seen: list[int] = []
    batcher = Batcher(seen.append)

    async def run() -> None:
        await asyncio.wait_for(work(batcher), 20)

    try:
        asyncio.run(run())
    finally:
        batcher.close()
    return seen


async def after_first(batcher: Batcher, model: Any, *rest: tuple[Any, Tensor]) -> list[Any]:
    """A request that is being scored, and others that come meanwhile; all their answers."""
    first = asyncio.ensure_future(batcher.judged(model, row(0)))
    await asyncio.to_thread(model.begun.wait, 10)
    others = [asyncio.ensure_future(batcher.judged(*one)) for one in rest]
    await asyncio.sleep(0.05)
    for one in {id(m): m for m in (model, *(m for m, _ in rest))}.values():
        one.go.set()
    return await asyncio.gather(first, *others, return_exceptions=True)


def test_those_that_wait_are_scored_in_one_call() -> None:
    model = Slow()

    async def work(batcher: Batcher) -> None:
        sizes = [(model, row(k, k)) for k in range(1, 8)]
        answers = await after_first(batcher, model, *sizes)
        for k, answer in enumerate(answers[1:], 1):
            assert answer.scores.tolist() == [k] * k
            assert answer.p_values.tolist() == [k] * k

    assert batched(work) == [1, 28]


def test_no_call_grows_without_end() -> None:
    model = Slow()

    async def work(batcher: Batcher) -> None:
        half = TOGETHER // 2
        sizes = [(model, row(1, n)) for n in (half, half, 1, 3 * TOGETHER, 1)]
        answers = await after_first(batcher, model, *sizes)
        assert [len(a.scores) for a in answers] == [1, half, half, 1, 3 * TOGETHER, 1]

    assert batched(work) == [1, TOGETHER, 1, 3 * TOGETHER, 1]


def test_models_are_not_mixed() -> None:
    former, new = Slow(), Slow()

    async def work(batcher: Batcher) -> None:
        rest = [(former, row(1)), (new, row(2)), (new, row(3)), (former, row(4))]
        answers = await after_first(batcher, former, *rest)
        assert [float(a.scores[0]) for a in answers] == [0, 1, 2, 3, 4]

    batched(work)
    assert former.calls == [1, 1, 1]
    assert new.calls == [2]


def test_an_error_is_told_to_those_it_befell_and_the_thread_goes_on() -> None:
    model = Slow()

    async def work(batcher: Batcher) -> None:
        answers = await after_first(batcher, model, (model, row(13)), (model, row(1)))
        assert isinstance(answers[0], Judged)
        assert [str(error) for error in answers[1:]] == ["thirteen"] * 2
        assert (await batcher.judged(model, row(5))).scores.tolist() == [5]

    batched(work)


def test_who_is_gone_is_not_scored() -> None:
    model = Slow()

    async def work(batcher: Batcher) -> None:
        first = asyncio.ensure_future(batcher.judged(model, row(0)))
        await asyncio.to_thread(model.begun.wait, 10)
        gone = asyncio.ensure_future(batcher.judged(model, row(1, 100)))
        stays = asyncio.ensure_future(batcher.judged(model, row(2)))
        await asyncio.sleep(0.05)
        gone.cancel()
        await asyncio.sleep(0)
        model.go.set()
        await asyncio.gather(first, stays)
        with pytest.raises(asyncio.CancelledError):
            await gone

    assert batched(work) == [1, 1]


def test_who_is_gone_does_not_mix_models() -> None:
    """Of a former model one that is cancelled comes first, and one that is not comes last."""
    former, new = Slow(), Slow()

    async def work(batcher: Batcher) -> None:
        first = asyncio.ensure_future(batcher.judged(former, row(0)))
        await asyncio.to_thread(former.begun.wait, 10)
        rest = [(former, row(1)), (new, row(2)), (former, row(3))]
        gone, *stay = [asyncio.ensure_future(batcher.judged(*one)) for one in rest]
        await asyncio.sleep(0.05)
        gone.cancel()
        await asyncio.sleep(0)
        former.go.set()
        new.go.set()
        answers = await asyncio.gather(first, *stay)
        assert [float(a.scores[0]) for a in answers] == [0, 2, 3]

    batched(work)
    assert (former.calls, new.calls) == ([1, 1], [1])


def test_points_that_do_not_go_together_do_not_end_the_thread() -> None:
    model = Slow()

    async def work(batcher: Batcher) -> None:
        answers = await after_first(batcher, model, (model, row(1)), (model, torch.zeros(1, 3)))
        assert [type(error) for error in answers[1:]] == [RuntimeError] * 2
        assert (await batcher.judged(model, row(5))).scores.tolist() == [5]

    batched(work)


def test_the_end_waits_for_what_was_taken() -> None:
    model = Slow()
    batcher = Batcher(lambda _: None)

    async def work() -> list[Any]:
        asked = [asyncio.ensure_future(batcher.judged(model, row(k))) for k in range(3)]
        await asyncio.to_thread(model.begun.wait, 10)
        ending = asyncio.get_running_loop().run_in_executor(None, batcher.close)
        model.go.set()
        found = await asyncio.gather(*asked)
        await ending
        return [one.scores for one in found]

    assert np.concatenate(asyncio.run(work())).tolist() == [0, 1, 2]
