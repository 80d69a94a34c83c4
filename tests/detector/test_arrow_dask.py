"""Dask: partitions of a DataFrame, by threads and by processes of which one dies."""

from pathlib import Path

import pyarrow as pa
import pytest

from tests.detector.arrow_jobs import Mortal, dask_here, expected, frame, same_bits, table_model
from uspebm import arrow_scorer

dd = pytest.importorskip("dask.dataframe", reason="dask is not installed: uspebm[dask]")
pytest.importorskip("distributed", reason="distributed is not installed")
ROWS = 6000


def test_partitions_are_scored_in_their_order(tmp_path: Path) -> None:
    model = table_model(tmp_path / "model")
    parts = dd.from_pandas(frame(ROWS), npartitions=7)
    scored = parts.map_partitions(arrow_scorer(model, ["id"]))
    assert list(scored.columns) == ["id", "score", "p_value", "outlier"]
    found = scored.compute(scheduler="threads", num_workers=2)
    assert found.index.equals(frame(ROWS).index)
    same_bits(pa.Table.from_pandas(found, preserve_index=False), expected(model, ROWS))


def test_a_worker_that_dies_loses_nothing(tmp_path: Path) -> None:
    model, grave = table_model(tmp_path / "model"), tmp_path / "grave"
    parts = dd.from_pandas(frame(ROWS), npartitions=7)
    with dask_here(tmp_path) as client:
        scored = parts.map_partitions(
            Mortal(model, grave), meta=arrow_scorer(model, ["id"])(frame(0))
        )
        found = client.compute(scored).result(timeout=120)
    assert grave.exists()
    same_bits(pa.Table.from_pandas(found, preserve_index=False), expected(model, ROWS))
