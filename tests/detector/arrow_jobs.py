"""A table to be scored by engines, in local mode, and a scorer whose worker dies."""

import os
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from uspebm import EnergyDetector, save_model
from uspebm.data.writers import SCORE_COLUMNS
from uspebm.detector.arrow import ArrowScorer

COLUMNS = ["a", "b", "c"]
DOOMED = 4321
"""Whoever meets the row with this id dies, the first time."""
SCHEMA = "id long, score double, p_value double, outlier boolean"


def frame(rows: int, seed: int | Sequence[int] = 0) -> pd.DataFrame:
    """Numbers, gaps and text; ``id`` names the rows."""
    draws = np.random.default_rng(seed)
    made = pd.DataFrame(draws.normal(size=(rows, 3)) * [1.0, 100.0, 0.01], columns=COLUMNS)
    made.loc[draws.random(rows) < 0.1, "b"] = np.nan
    made["kind"] = draws.choice(["x", "y", "z"], rows)
    made["id"] = np.arange(rows)
    return made[["id", "kind", "c", "b", "a"]]


def table_model(folder: Path) -> Path:
    """A small model of such a table."""
    detector = EnergyDetector(random_state=0).fit(frame(300, seed=1)[[*COLUMNS, "kind"]])
    save_model(detector, folder)
    return folder


def expected(model: Path, rows: int) -> pa.Table:
    """By one process and one call."""
    found: pa.Table = ArrowScorer(model, ["id"])(pa.Table.from_pandas(frame(rows)))
    return found


def same_bits(found: pa.Table, wanted: pa.Table) -> None:
    """Whether every row is there once, with all of its bits, in whatever order."""
    assert found.num_rows == wanted.num_rows == rows_held([found], wanted)


def rows_held(found: Iterable[pa.Table], wanted: pa.Table) -> int:
    """How many of the wanted rows, of ids 0, 1, ..., were found once, with all of their bits."""
    times = np.zeros(wanted.num_rows, np.int64)
    equal = np.ones(wanted.num_rows, bool)
    for part in found:
        ids = part["id"].to_numpy()
        np.add.at(times, ids, 1)
        for name in SCORE_COLUMNS:
            have, want = (_bits(table[name]) for table in (part, wanted))
            equal[ids] &= have == want[ids]
    return int((equal & (times == 1)).sum())


def _bits(column: pa.ChunkedArray) -> Any:
    values = column.to_numpy()
    return values if values.dtype == bool else values.view(np.int64)


class Mortal(ArrowScorer):
    """Kills the process that it is in when it meets a certain row for the first time."""

    def __init__(self, model: Path | str, grave: Path | str) -> None:
        super().__init__(model, ["id"])
        self.grave = str(grave)

    def __call__(self, batch: Any) -> Any:
        if not isinstance(batch, Iterator) and DOOMED in set(np.asarray(batch["id"]).tolist()):
            try:
                Path(self.grave).touch(exist_ok=False)
            except FileExistsError:
                return super().__call__(batch)
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(batch)


@contextmanager
def workers_find_tests() -> Iterator[pytest.MonkeyPatch]:
    """Processes that are started here can import this file, and have one thread."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]), prepend=os.pathsep)
        monkeypatch.setenv("OMP_NUM_THREADS", "1")
        yield monkeypatch


@contextmanager
def spark_here(folder: Path, batch: int) -> Iterator[Any]:
    """One core; a task may fail three times, as on a cluster, where four is the default."""
    from pyspark import sql

    with workers_find_tests() as monkeypatch:
        monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
        monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        builder = sql.SparkSession.builder.master("local[1, 4]").appName("uspebm")
        builder = builder.config("spark.ui.enabled", "false")
        builder = builder.config("spark.ui.showConsoleProgress", "false")
        builder = builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", str(batch))
        session = builder.config("spark.sql.warehouse.dir", str(folder)).getOrCreate()
        try:
            yield session
        finally:
            session.stop()


@contextmanager
def ray_here() -> Iterator[None]:
    """One worker."""
    import ray

    with workers_find_tests() as monkeypatch:
        monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        monkeypatch.setenv("RAY_worker_niceness", "0")  # otherwise whatever else runs goes first
        ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
        try:
            yield
        finally:
            ray.shutdown()


@contextmanager
def dask_here(folder: Path) -> Iterator[Any]:
    """A client of one worker, a process of its own, with one thread."""
    import dask
    import distributed

    with (
        workers_find_tests(),
        # On a busy machine a worker that takes another's place is long in coming.
        dask.config.set({"distributed.comm.timeouts.connect": "300s"}),
        distributed.LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            dashboard_address=None,
            local_directory=folder,
            death_timeout=300,
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client
