"""What a training was made with besides its settings, and what came of it.

``record.json`` in a run's folder: versions, machine and threads, the law that was drawn from if
there was one, and a digest of the weights at the end. It decides about nothing; ``uspebm rerun``
reads it. Bits depend on all of it: another version may round otherwise, and so may another number
of threads.
"""

import json
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..support.files import whole_file
from ..support.reading import UnreadableError

RECORD = "record.json"


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
        "device": device,
    }


def note(folder: Path, device: str, law: Any, step: int, weights: str | None = None) -> None:
    """Write down what goes on with a run after ``step`` updates, or the ``weights`` of its end."""
    before = read_record(folder)["environments"] if step and (folder / RECORD).exists() else []
    now = environment(device)
    found = before if before[-1:] == [now] else [*before, now]
    said = {"environments": found, "law": law, "weights": weights}
    with whole_file(folder / RECORD) as file:
        file.write(json.dumps(said, indent=1).encode())


def read_record(folder: Path) -> dict[str, Any]:
    """What was written down."""
    path = folder / RECORD
    try:
        said = json.loads(path.read_text())
        if not all(isinstance(one["threads"], int) for one in said["environments"]):
            raise TypeError("threads are counted")
    except FileNotFoundError:
        raise UnreadableError(
            f"{folder} has no {RECORD}: nothing was trained there, or by a version of uspebm that "
            "kept none"
        ) from None
    except (ValueError, LookupError, TypeError) as error:
        raise UnreadableError(f"{path} is damaged: {' '.join(str(error).split())}") from error
    return dict(said)


def changed(then: Sequence[dict[str, Any]], now: dict[str, Any]) -> list[str]:
    """What is not as it was, in words.

    >>> changed([{"torch": "2.6", "threads": 1}], {"torch": "2.7", "threads": 1})
    ['torch was 2.6, is 2.7']
    """
    found = []
    for name, value in now.items():
        others = [str(one.get(name)) for one in then if one.get(name) != value]
        if others:
            found.append(f"{name} was {', then '.join(dict.fromkeys(others))}, is {value}")
    return found
