"""What a training was made with besides its settings, and what came of it.

``record.jsonl`` in a run's folder: versions, machine and threads, the law that was drawn from if
there was one, and a digest of the weights at the end. It decides about nothing; ``uspebm rerun``
reads it. Bits depend on all of it: another version may round otherwise, and so may another number
of threads or processes.
"""

import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from ..support.group import current_group
from ..support.reading import UnreadableError
from ..training.run_log import whole_rows, write_rows
from .plain import as_plain

RUN_RECORD = "record.jsonl"


class Written(NamedTuple):
    """A run's record."""

    environments: list[dict[str, Any]]
    """What it was made with, one after the other."""
    law: Any
    """That it drew from, in JSON's values; None where it had points."""
    weights: str | None
    """A digest of those at the end; None where it has not come to that."""


def environment(device: str = "cpu") -> dict[str, Any]:
    """What this process computes with."""
    return {
        "uspebm": version("uspebm"),
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "system": f"{platform.system()} {platform.machine()}",
        "processor": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "processes": current_group().size,
        "device": device,
    }


def note(folder: Path, device: str, law: Any, step: int) -> None:
    """Write down what goes on with a run after ``step`` updates."""
    before = read_record(folder).environments if step and (folder / RUN_RECORD).exists() else []
    now = environment(device)
    _write(folder, Written(before if before[-1:] == [now] else [*before, now], law, None))


def note_end(folder: Path, energy: nn.Module) -> None:
    """Write down the weights of a run that is at its end, unless that was done.

    Nothing where there is no record: older versions kept none.
    """
    if (folder / RUN_RECORD).exists() and (record := read_record(folder)).weights is None:
        _write(folder, record._replace(weights=as_plain(energy)["digest"]))


def read_record(folder: Path) -> Written:
    """What was written down."""
    path = folder / RUN_RECORD
    if not path.exists():
        raise UnreadableError(
            f"{folder} has no {RUN_RECORD}: nothing was trained there, or by a version of uspebm "
            "that kept none"
        )
    about, *environments = whole_rows(path)
    if not environments:
        raise UnreadableError(f"{path} is damaged: what the run was made with is missing")
    return Written(environments, about["law"], about["weights"])


def _write(folder: Path, record: Written) -> None:
    write_rows(
        folder / RUN_RECORD, [{"law": record.law, "weights": record.weights}, *record.environments]
    )


def changed(then: Sequence[dict[str, Any]], now: dict[str, Any]) -> list[str]:
    """What is not as it was, in words; nothing of what was not written down.

    >>> changed([{"torch": "2.6", "threads": 1}], {"torch": "2.7", "threads": 1, "processes": 1})
    ['torch was 2.6, is 2.7']
    """
    found = []
    for name, value in now.items():
        others = [str(one[name]) for one in then if one.get(name, value) != value]
        if others:
            found.append(f"{name} was {', then '.join(dict.fromkeys(others))}, is {value}")
    return found
