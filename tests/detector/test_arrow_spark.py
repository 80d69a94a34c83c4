"""Spark in local mode takes the scorer as it is; a worker dies, and no row is lost."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.detector.arrow_jobs import (
    SCHEMA,
    Mortal,
    expected,
    frame,
    same_bits,
    spark_here,
    table_model,
)
from uspebm import arrow_scorer

pytest.importorskip("pyspark.sql", reason="pyspark is not installed: uspebm[spark]")
pytestmark = [
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java, which is not there"),
    # Of Spark's own.
    pytest.mark.filterwarnings("default"),
]
ROWS = 6000


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return table_model(tmp_path_factory.mktemp("spark") / "model")


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with spark_here(tmp_path_factory.mktemp("warehouse"), batch=1000) as session:
        yield session


def rows_of(spark: Any, folder: Path) -> Any:
    """From Parquet, as tables come to engines."""
    folder.mkdir()
    whole = frame(ROWS)
    for k in range(3):
        whole[k * ROWS // 3 : (k + 1) * ROWS // 3].to_parquet(folder / f"{k}.parquet", index=False)
    return spark.read.parquet(str(folder))


def collected(scored: Any) -> pa.Table:
    return pa.Table.from_pylist([row.asDict() for row in scored.collect()])


def test_every_row_is_scored_as_by_one_process(spark: Any, model: Path, tmp_path: Path) -> None:
    scored = rows_of(spark, tmp_path / "x").mapInArrow(arrow_scorer(model, ["id"]), SCHEMA)
    same_bits(collected(scored), expected(model, ROWS))


def test_a_worker_that_dies_loses_nothing(spark: Any, model: Path, tmp_path: Path) -> None:
    grave = tmp_path / "grave"
    scored = rows_of(spark, tmp_path / "x").mapInArrow(Mortal(model, grave), SCHEMA)
    same_bits(collected(scored), expected(model, ROWS))
    assert grave.exists()
