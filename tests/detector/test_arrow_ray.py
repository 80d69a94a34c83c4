"""Ray Data on one machine: ``map_batches`` takes the scorer, or its class; a worker dies.

One worker at a time: each imports torch before it scores.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.detector.arrow_jobs import Mortal, expected, frame, ray_here, same_bits, table_model
from uspebm import arrow_scorer
from uspebm.detector.arrow import ArrowScorer

ray = pytest.importorskip("ray", reason="ray is not installed: uspebm[ray]")
pytest.importorskip("ray.data", reason="ray.data is not installed: uspebm[ray]")
pytestmark = pytest.mark.filterwarnings("default")  # of Ray's own
ROWS = 6000
BATCHES = {"batch_format": "pyarrow", "batch_size": 1000}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return table_model(tmp_path_factory.mktemp("ray") / "model")


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    with ray_here():
        yield


def rows_of() -> Any:
    return ray.data.from_arrow([pa.Table.from_pandas(frame(ROWS), preserve_index=False)])


def collected(scored: Any) -> pa.Table:
    return pa.concat_tables(ray.get(scored.to_arrow_refs()))


@pytest.mark.usefixtures("cluster")
def test_every_row_is_scored_as_by_one_process(model: Path) -> None:
    scored = rows_of().repartition(3).map_batches(arrow_scorer(model, ["id"]), **BATCHES)
    same_bits(collected(scored), expected(model, ROWS))


@pytest.mark.usefixtures("cluster")
def test_the_class_is_taken_too(model: Path) -> None:
    scored = rows_of().map_batches(
        ArrowScorer, fn_constructor_args=(str(model), ["id"]), concurrency=1, **BATCHES
    )
    same_bits(collected(scored), expected(model, ROWS))


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("of_a_class", [False, True])
def test_a_worker_that_dies_loses_nothing(model: Path, tmp_path: Path, of_a_class: bool) -> None:
    """Of a scorer, and of a class that Ray makes one of."""
    grave = tmp_path / "grave"
    if of_a_class:
        arguments = (str(model), str(grave))
        scored = rows_of().map_batches(
            Mortal, fn_constructor_args=arguments, concurrency=1, **BATCHES
        )
    else:
        scored = rows_of().map_batches(Mortal(model, grave), **BATCHES)
    same_bits(collected(scored), expected(model, ROWS))
    assert grave.exists()
