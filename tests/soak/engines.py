"""Spark, Ray and Dask on this machine, their worker killed: every row once, with its bits.

Rows are made where they are scored, block by block, and scores are written as Parquet, so that
nobody holds all rows. Each engine has one worker with one thread, and takes the scorer as it is.
"""

import contextlib
import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.detector.arrow_jobs import (
    SCHEMA,
    dask_here,
    frame,
    ray_here,
    rows_held,
    spark_here,
    table_model,
)
from uspebm.detector.arrow import ArrowScorer

from .report import Row, say

BLOCK = 50_000
ROWS = pa.schema(
    [("id", "int64"), ("kind", "string"), ("c", "double"), ("b", "double"), ("a", "double")]
)


class Marked(ArrowScorer):
    """Leaves a mark while it scores a batch: its process, and the first row's id."""

    def __init__(self, model: Path, marks: Path) -> None:
        super().__init__(model, ["id"])
        self.marks = str(marks)

    def __call__(self, batch: Any) -> Any:
        if isinstance(batch, Iterator):
            return super().__call__(batch)
        mark = Path(self.marks, f"{os.getpid()}-{np.asarray(batch['id'])[0]}")
        mark.touch()
        scored = super().__call__(batch)
        mark.unlink()
        return scored


class Job(NamedTuple):
    """Blocks of rows, by number, to be scored into Parquet files below ``out``."""

    block: Callable[[int], pa.Table]
    blocks: int
    scorer: ArrowScorer
    out: Path


def run(seed: int, rows: int, only: str | None) -> list[Row]:
    """One process, then the engines that are installed, or of them the one that is named."""
    names = [name for name in ENGINES if only in (None, name) and _is_there(name)]
    if not names:
        return []
    with tempfile.TemporaryDirectory(prefix="soak-") as place:
        root = Path(place)
        model = table_model(root / "model")
        job = Job(partial(_block, seed, rows), -(-rows // BLOCK), ArrowScorer(model, ["id"]), root)
        started = time.monotonic()
        wanted = pa.concat_tables([job.scorer(job.block(k)) for k in range(job.blocks)])
        alone = time.monotonic() - started
        say(f"one process: {rows:,} rows in {alone:.0f} seconds")
        found = []
        for name in names:
            moment = int(random.Random(f"{name} {seed}").uniform(0.1, 0.8) * rows)
            marks = root / f"{name}-marks"
            mine = job._replace(scorer=Marked(model, marks), out=root / name)
            started = time.monotonic()
            hit = _disturbed(name, mine, marks, moment)
            seconds = time.monotonic() - started
            held, note = 0, "no worker was killed"
            if hit is not None:
                held = rows_held(map(pq.read_table, mine.out.rglob("*.parquet")), wanted)
                note = f"a worker killed while it scored the batch that begins with row {hit:,}"
            say(f"{name}: {held:,} of {rows:,} rows held, in {seconds:.0f} seconds; {note}")
            note = f"{note}; one process, not killed: {alone:,.0f} s"
            found.append(Row(f"rows by {name.title()}", rows, held, seconds, note))
    return found


def _is_there(name: str) -> bool:
    package = {"spark": "pyspark", "dask": "distributed"}.get(name, name)
    if find_spec(package) is None:
        say(f"{name} is left out: it is not installed (uspebm[{name}])")
        return False
    if name == "spark" and shutil.which("java") is None:
        say("spark is left out: it needs Java, which is not there")
        return False
    return True


def _block(seed: int, rows: int, number: int) -> pa.Table:
    first = number * BLOCK
    made = frame(min(BLOCK, rows - first), (seed, number))
    made["id"] += first
    return pa.Table.from_pandas(made, ROWS, preserve_index=False)


def _disturbed(name: str, job: Job, marks: Path, moment: int) -> int | None:
    """Have the job done; which row's batch was being scored by the worker that was killed."""
    marks.mkdir()
    over = Event()
    with ThreadPoolExecutor(1) as pool:
        killer = pool.submit(_kill_one, marks, moment, over)
        try:
            ENGINES[name](job)
        except Exception as error:  # whatever an engine gives up with; then rows are missing
            say(f"{name} gave up: {error}")
        finally:
            over.set()
        return killer.result()


def _kill_one(marks: Path, moment: int, over: Event) -> int | None:
    """Kill who scores a row from ``moment`` on; once more, if it had just ended its batch."""
    while not over.wait(0.005):
        for mark in marks.iterdir():
            process, first = map(int, mark.name.split("-"))
            if first < moment:
                continue
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
            time.sleep(0.5)  # by then it is gone, and what it left stays
            if mark.exists():
                return first
    return None


def _spark(job: Job) -> None:
    names = ", ".join(f"{field.name} {field.type}" for field in ROWS).replace("int64", "long")
    with spark_here(job.out.parent / "warehouse", batch=10_000) as spark:
        spark.sparkContext.setLogLevel("OFF")  # a killed worker's traces; what fails is raised too
        numbers = spark.range(0, job.blocks, 1, job.blocks)
        rows = numbers.mapInArrow(partial(_batches, job.block), names)
        rows.mapInArrow(job.scorer, SCHEMA).write.parquet(str(job.out))


def _batches(
    block: Callable[[int], pa.Table], numbers: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in numbers:
        for number in batch["id"].to_pylist():
            yield from block(number).to_batches()


def _ray(job: Job) -> None:
    import ray

    with ray_here():
        ray.data.DataContext.get_current().enable_progress_bars = False
        numbers = ray.data.range(job.blocks, override_num_blocks=job.blocks)
        rows = numbers.map_batches(
            lambda batch: job.block(batch["id"][0].as_py()), batch_format="pyarrow", batch_size=1
        )
        scored = rows.map_batches(job.scorer, batch_format="pyarrow", batch_size=None)
        scored.write_parquet(str(job.out))


def _dask(job: Job) -> None:
    import dask.dataframe as dd

    with dask_here(job.out.parent):
        rows = dd.from_map(_frame, range(job.blocks), block=job.block, meta=frame(0))
        meta = ArrowScorer(job.scorer.model, ["id"])(frame(0))
        rows.map_partitions(job.scorer, meta=meta).to_parquet(str(job.out), write_index=False)


def _frame(number: int, block: Callable[[int], pa.Table]) -> Any:
    return block(number).to_pandas()


ENGINES: dict[str, Callable[[Job], None]] = {"spark": _spark, "ray": _ray, "dask": _dask}
