"""A folder of tables with known anomalies, by the protocol that papers use.

Every file ``NAME.npz`` holds ``X`` (N, d) and ``y`` (N,), 1 for an anomaly. Of at most 10,000 rows,
drawn at random, half of the normal ones are to learn from; the other half and all anomalies are to
be told apart. The protocol is that of Livernoche et al. (2023) without its resampling of small
sets, by which copies of test rows reach the training.

A suite takes long: every result is written to a file as it comes, and those that are there are not
made again.
"""

import hashlib
import json
import multiprocessing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from ..support.checksums import content_checksum
from ..support.files import appending
from ..support.reading import UnreadableError, reading
from .anomalies import numpy_generator
from .anomaly_problems import AnomalyProblem
from .classical import MakeDetector
from .comparison import Judgement, judgement_of

MOST_ROWS = 10_000
Registry = Callable[[], Mapping[str, MakeDetector]]


class Task(NamedTuple):
    """One detector on one set."""

    path: Path
    seed: int
    detector: str
    detectors: Registry
    train_rows: int | None = None

    @property
    def key(self) -> tuple[str, str, int]:
        """As results are found by."""
        return self.path.stem, self.detector, self.seed


def suite_sets(folder: Path) -> list[Path]:
    """The files of a suite, in the order of their names."""
    found = sorted(folder.glob("*.npz"), key=lambda path: path.name.lower())
    if not found:
        raise ValueError(f"{folder} is no suite: it has no .npz files with X and y in them")
    return found


def suite_problem(
    path: Path, seed: int, most_rows: int = MOST_ROWS, train_rows: int | None = None
) -> AnomalyProblem:
    """One file, split by ``seed``; ``train_rows``: to learn from at most."""
    with path.open("rb") as opened, reading(path):
        file = np.load(opened, allow_pickle=False)  # given the path, it leaves damaged files open
        missing = {"X", "y"} - set(file.files)
        if missing:
            raise UnreadableError(
                f"{path} has no {sorted(missing)[0]}: a suite's files have X and y"
            )
        X, y = np.asarray(file["X"], np.float64), np.asarray(file["y"])
    if X.ndim != 2 or y.shape != X.shape[:1] or not set(np.unique(y)) <= {0, 1}:
        raise ValueError(
            f"{path}: X {X.shape} must be a table and y {y.shape} a 0 or 1 for each of its rows"
        )
    chance = numpy_generator(seed, "suite")
    if len(X) > most_rows:
        kept = chance.choice(len(X), most_rows, replace=False)
        X, y = X[kept], y[kept]
    normal = chance.permutation(np.flatnonzero(y == 0))
    half = len(normal) // 2
    if half < 2 or half == len(normal) or not (y == 1).any():
        raise ValueError(f"{path}: {len(normal)} normal rows and {(y == 1).sum()} anomalies")
    name = path.stem
    return AnomalyProblem(name, name, X[normal[:half][:train_rows]], X[normal[half:]], X[y == 1])


@dataclass(frozen=True)
class Suite:
    """What is compared: sets in a folder, detectors by name, how many seeds, rows to learn from.

    ``makes`` is a function of a module, which other processes can find.
    """

    folder: Path
    makes: Registry
    detectors: Sequence[str]
    seeds: int
    train_rows: int | None = None
    """At most; None: half of the normal ones."""

    @property
    def tasks(self) -> list[Task]:
        """Seed by seed, set by set."""
        sets = suite_sets(self.folder)
        return [
            Task(path, seed, name, self.makes, self.train_rows)
            for seed in range(self.seeds)
            for path in sets
            for name in self.detectors
        ]


def kept_beside(out: Path, suite: Suite, version: str) -> Path:
    """The file in ``out`` for results on the sets of a suite as they are, by that version."""
    content = [version, str(suite.folder.resolve())]
    content += [f"{path.name} {content_checksum(path)}" for path in suite_sets(suite.folder)]
    content += [] if suite.train_rows is None else [f"{suite.train_rows} rows"]
    digest = hashlib.sha256("\n".join(content).encode()).hexdigest()[:12]
    return out / f"suite-{digest}.jsonl"


def compare_on_suite(suite: Suite, kept: Path, jobs: int = 1) -> Iterator[Judgement]:
    """Every detector on every set and seed; those in the file ``kept`` first, then new ones.

    With several ``jobs``, so many processes work, on one thread each.
    """
    done, tasks = _kept(kept), suite.tasks
    yield from (done[task.key] for task in tasks if task.key in done)
    missing = [task for task in tasks if task.key not in done]
    with appending(kept) as file:
        for result in _results(missing, jobs):
            # A line of its own, also after one that a kill cut off.
            file.write(f"\n{json.dumps(asdict(result))}".encode())
            file.flush()
            yield result


def _results(tasks: list[Task], jobs: int) -> Iterator[Judgement]:
    if jobs == 1 or len(tasks) < 2:
        yield from map(_judged, tasks)
        return
    # Not forked: children of a process whose threads have worked may wait for these for ever.
    with multiprocessing.get_context("spawn").Pool(jobs, torch.set_num_threads, (1,)) as pool:
        yield from pool.imap_unordered(_judged, tasks)


def _judged(task: Task) -> Judgement:
    make = task.detectors()[task.detector]
    problem = suite_problem(task.path, task.seed, train_rows=task.train_rows)
    return judgement_of(problem, task.detector, make, task.seed)


def _kept(path: Path) -> dict[tuple[str, str, int], Judgement]:
    """What is in the file; a line that was cut off is not."""
    found = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            one = Judgement(**json.loads(line))
        except (ValueError, TypeError):
            continue
        found[one.problem, one.detector, one.seed] = one
    return found
