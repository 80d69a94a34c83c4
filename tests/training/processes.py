"""Several processes that train together, started by torch's own launcher or as it would."""

import io
import multiprocessing
import os
import socket
import traceback
from collections.abc import Callable
from typing import Any

import torch

from uspebm.support.group import together

LONGEST = 120.0
"""Seconds after which processes count as hanging."""

PRELOADED = ("scipy.stats", "torch._dynamo")
"""Once for all of them: to import these takes longer than most work. The first optimiser would
import the second."""


def in_processes(size: int, work: Callable[..., Any], *arguments: Any) -> list[Any]:
    """What ``work(*arguments)`` returns in each of ``size`` processes, in the order of ranks."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, *PRELOADED])
    answers = context.Queue()
    started = [
        context.Process(target=_work, args=(answers, rank, size, port, work, arguments))
        for rank in range(size)
    ]
    for process in started:
        process.start()
    try:
        found = dict(answers.get(timeout=LONGEST) for _ in started)
    finally:
        for process in started:
            process.join(10)
            process.kill()
    for said in found.values():
        assert not isinstance(said, str), said
    return [torch.load(io.BytesIO(found[rank][0]), weights_only=False) for rank in range(size)]


def _work(
    answers: Any, rank: int, size: int, port: int, work: Callable[..., Any], arguments: Any
) -> None:
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size), LOCAL_RANK=str(rank))
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    try:
        with together():
            # As bytes: a tensor in a queue is a file of its sender's, which ends before it is read.
            answer = io.BytesIO()
            torch.save(work(*arguments), answer)
        answers.put((rank, (answer.getvalue(),)))
    except BaseException:
        answers.put((rank, traceback.format_exc()))
