"""Several processes on this machine, by the launcher that ``torchrun`` is made of.

They are forked from this one, so that what is loaded (Python, torch, this package) is in memory
once and not once in each; ``torchrun`` starts programs, which share next to nothing. A process that
is lost makes all of them start again, from the last checkpoint.
"""

import gc
import logging
import os
import signal
import sys
import traceback
from collections.abc import Callable
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import torch
from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from .group import LostProcessError, speaks

log = logging.getLogger("uspebm")

RESTARTS = 3
"""Times that all processes start again because one was lost."""
SHUTDOWN_SECONDS = 600
"""For the update under way, and the checkpoint after it, when the processes are to end."""
TALKATIVE = (
    "torch.distributed.elastic.agent.server.api",
    "torch.distributed.elastic.multiprocessing.api",
    "torch.multiprocessing.spawn",
)
"""Modules of the launcher that log, with stacks of their own calls, what is said here."""


def launched(work: Callable[..., int], *arguments: Any, processes: int) -> int:
    """The largest of what ``work(*arguments)`` returns in so many processes, each of a group.

    They share out torch's threads. Where one is killed, or raises a LostProcessError, all start
    again; other errors are told by whoever meets them. Ctrl-C and a termination signal are passed
    on to the processes, and are a KeyboardInterrupt here once these have ended.
    """
    for name in TALKATIVE:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    # Whether there are GPUs is asked without waking them: woken ones could not be used in a fork.
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    threads = max(1, torch.get_num_threads() // processes)
    torch.optim.SGD([torch.zeros(1)])  # torch loads a third of itself with the first optimiser
    gc.freeze()  # nobody's collector writes to the pages that all share
    with TemporaryDirectory() as folder:
        try:
            codes = elastic_launch(_settings(processes, folder), _one)(work, threads, *arguments)
        except SignalException as error:
            raise KeyboardInterrupt from error
        except ChildFailedError as error:
            raise LostProcessError(
                f"one of {processes} processes was lost {RESTARTS + 1} times; the last checkpoint "
                "is what to go on from"
            ) from error
    return int(max(codes.values()))


def _settings(processes: int, folder: str) -> LaunchConfig:
    newer: dict[str, Any] = {
        "signals_to_handle": "SIGTERM,SIGINT",
        "shutdown_timeout": SHUTDOWN_SECONDS,
    }
    return LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=processes,
        run_id=uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        local_addr="localhost",
        start_method="fork",
        max_restarts=RESTARTS,
        logs_specs=DefaultLogsSpecs(log_dir=folder),
        **{k: v for k, v in newer.items() if hasattr(LaunchConfig, k)},
    )


def _one(work: Callable[..., int], threads: int, *arguments: Any) -> int:
    # A terminal sends Ctrl-C to a whole group, and the launcher sends it again: a second one would
    # not wait for the update under way.
    os.setpgrp()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    torch.set_num_threads(threads)
    if speaks() and os.environ["TORCHELASTIC_RESTART_COUNT"] != "0":
        log.warning("a process was lost; all go on from the last checkpoint")
    try:
        return work(*arguments)
    except KeyboardInterrupt:
        sys.exit(130)  # a process that returned would wait for the launcher to read it
    except LostProcessError:
        raise
    except Exception:
        traceback.print_exc()
        return 1
