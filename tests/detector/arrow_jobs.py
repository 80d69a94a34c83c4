"""A table to be scored by engines, and a scorer whose worker dies."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from uspebm import EnergyDetector, save_model
from uspebm.detector.arrow import ArrowScorer

COLUMNS = ["a", "b", "c"]
DOOMED = 4321
"""Whoever meets the row with this id dies, the first time."""
SCHEMA = "id long, score double, p_value double, outlier boolean"


def frame(rows: int, seed: int = 0) -> pd.DataFrame:
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
    assert found.num_rows == wanted.num_rows
    found = found.select(wanted.schema.names).sort_by("id")
    assert found["id"].to_pylist() == wanted["id"].to_pylist()
    for name in ("score", "p_value"):
        bits = [t[name].to_numpy().view(np.int64) for t in (found, wanted)]
        np.testing.assert_array_equal(*bits)
    assert found["outlier"].to_pylist() == wanted["outlier"].to_pylist()


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


def workers_find_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that are started from now on can import this file."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
