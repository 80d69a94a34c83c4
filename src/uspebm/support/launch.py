"""Several processes on this machine, by the launcher that ``torchrun`` is made of.

They are forked from this one, so that what is loaded (Python, torch, this package) is in memory
once and not once in each; ``torchrun`` starts programs, which share next to nothing. A process that
is killed makes all of them start again, from the last checkpoint.
"""

import gc
import logging
import os
import signal
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import torch
from torch.distributed.elastic.multiprocessing import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from .group import LostProcessError, speaks

log = logging.getLogger(__name__)

RESTARTS = 3
"""Times that all processes start again because one was lost."""


def launched(work: Callable[..., int], *arguments: Any, processes: int) -> int:
    """The largest of what ``work(*arguments)`` returns in so many processes, each of a group.

    They share out this machine's threads. Where one is killed, or raises, all start again. Ctrl-C
    and a termination signal are passed on to them, and are a KeyboardInterrupt here once they have
    ended.
    """
    # It logs what is said below, with the stack of its own calls.
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    threads = max(1, torch.get_num_threads() // processes)
    torch.optim.SGD([torch.zeros(1)])  # torch loads a third of itself with the first optimiser
    gc.freeze()  # nobody's collector writes to the pages that all share
    settings = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=processes,
        run_id=uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        local_addr="localhost",
        start_method="fork",
        max_restarts=RESTARTS,
    )
    try:
        codes = elastic_launch(settings, _one)(work, threads, *arguments)
    except SignalException as error:
        raise KeyboardInterrupt from error
    except ChildFailedError as error:
        raise LostProcessError(
            f"a process of {processes} was lost {RESTARTS + 1} times "
            f"({error.get_first_failure()[1].message}); "
            "the last checkpoint is what to go on from"
        ) from error
    return int(max(codes.values()))


def _one(work: Callable[..., int], threads: int, *arguments: Any) -> int:
    # A terminal sends Ctrl-C to a whole group, and the launcher sends it again: a second one would
    # not wait for the update under way.
    os.setpgrp()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    torch.set_num_threads(threads)
    if speaks() and os.environ["TORCHELASTIC_RESTART_COUNT"] != "0":
        log.warning("a process was lost; all go on from the last checkpoint")
    return work(*arguments)
