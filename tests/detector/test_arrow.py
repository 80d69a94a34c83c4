"""Batches of a table, scored: the same bits in any batch, columns by name, one model for all."""

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from tests.detector.arrow_jobs import COLUMNS, expected, frame, rows_held, same_bits, table_model
from tests.detector.common import NEW, X, small
from uspebm import EnergyDetector, arrow_scorer, load, save_model
from uspebm.cli.main import main
from uspebm.detector.arrow import ArrowScorer
from uspebm.detector.steady import group_size, steady_scores
from uspebm.support.threads import computing_threads

ROWS = 5000


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return table_model(tmp_path_factory.mktemp("arrow") / "model")


def batches(table: pa.Table, size: int) -> list[pa.RecordBatch]:
    found: list[pa.RecordBatch] = table.combine_chunks().to_batches(max_chunksize=size)
    return found


@pytest.mark.parametrize("size", [1, 7, 64, 1000, 4097])
def test_a_row_has_the_same_bits_in_any_batch(model: Path, size: int) -> None:
    rows = min(ROWS, 20 * size)  # a batch takes as long as a group does
    scorer, table = arrow_scorer(model, ["id"]), pa.Table.from_pandas(frame(rows))
    found = pa.Table.from_batches(list(scorer(iter(batches(table, size)))))
    same_bits(found, expected(model, rows))


def test_a_row_that_is_lost_doubled_or_changed_is_missed(model: Path) -> None:
    """What is said of engines rests on this."""
    wanted = expected(model, 100)
    score, decided = wanted["score"].to_numpy(), wanted["outlier"].to_numpy()
    changed = np.where(np.arange(100) == 7, np.nextafter(score, np.inf), score)
    upside_down = wanted.take(np.arange(100)[::-1])
    assert rows_held([upside_down[:40], upside_down[40:]], wanted) == 100
    assert rows_held([wanted[1:]], wanted) == 99
    assert rows_held([wanted, wanted[3:5]], wanted) == 98
    assert rows_held([wanted.set_column(1, "score", [changed])], wanted) == 99
    assert rows_held([wanted.set_column(3, "outlier", [~decided])], wanted) == 0


def network() -> EnergyDetector:
    detector = small().fit(X)
    assert group_size(detector) == 256
    return detector


def test_so_it_is_of_networks_whose_scores_depend_on_company() -> None:
    """The control: plain scores of the same rows differ in their last bits."""
    detector, rows = network(), np.repeat(NEW, 8, 0) + np.arange(320)[:, None] / 1000
    whole = steady_scores(detector, rows)
    one_by_one = np.concatenate([steady_scores(detector, row[None]) for row in rows])
    np.testing.assert_array_equal(one_by_one, whole)
    np.testing.assert_allclose(whole, detector.score_samples(rows), rtol=1e-5)
    plain = np.concatenate([detector.score_samples(row[None]) for row in rows])
    assert (plain != whole).any()


def test_what_comes_in_comes_out_with_scores(model: Path) -> None:
    rows = frame(50).set_index(np.arange(50) + 7)
    batch = pa.RecordBatch.from_pandas(rows, preserve_index=False)
    scorer = arrow_scorer(model)
    assert scorer(batch).schema.names == ["score", "p_value", "outlier"]
    assert [str(kind) for kind in scorer(batch).schema.types] == ["double", "double", "bool"]
    as_table = scorer(pa.Table.from_batches([batch]))
    as_frame = scorer(rows)
    assert isinstance(as_table, pa.Table)
    assert as_frame.index.equals(rows.index)
    assert scorer(batch).to_pydict() == as_table.to_pydict() == as_frame.to_dict("list")
    detector = load(model)
    scores = as_frame["score"].to_numpy()
    np.testing.assert_array_equal(scores, detector.score_samples(rows))
    np.testing.assert_array_equal(as_frame["p_value"], detector.p_values(rows))
    np.testing.assert_array_equal(as_frame["outlier"], detector.predict(rows) == -1)
    strict = arrow_scorer(model, false_alarm_rate=0.3)(rows)["outlier"]
    np.testing.assert_array_equal(strict, detector.predict(rows, false_alarm_rate=0.3) == -1)
    assert strict.sum() > as_frame["outlier"].sum()


def test_columns_are_kept_as_they_are(model: Path) -> None:
    rows = pa.RecordBatch.from_pandas(frame(20))
    some = arrow_scorer(model, ["kind", "id"])(rows)
    assert some.schema.names == ["kind", "id", "score", "p_value", "outlier"]
    assert some["kind"].equals(rows["kind"])
    every = arrow_scorer(model, "all")(rows)
    assert every.schema.names[:5] == rows.schema.names
    assert "id" in arrow_scorer(model, "id")(frame(3)).columns


@pytest.mark.parametrize("rows", [0, 1])
def test_few_rows_are_rows(model: Path, rows: int) -> None:
    scorer = arrow_scorer(model, ["id"])
    table = pa.Table.from_pandas(frame(rows))
    found = [scorer(pa.RecordBatch.from_pandas(frame(rows))), scorer(table), scorer(frame(rows))]
    assert [len(one) for one in found] == [rows] * 3
    assert (
        found[0].schema.types
        == found[1].schema.types
        == scorer(pa.Table.from_pandas(frame(9))).schema.types
    )
    assert [str(kind) for kind in found[2].dtypes] == ["int64", "float64", "float64", "bool"]


def test_the_scores_are_those_of_the_command(model: Path, tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pandas(frame(ROWS)), tmp_path / "x.parquet")
    out = tmp_path / "s.parquet"
    flags = ["--keep", "id", "--out", str(out)]
    with computing_threads(1):
        assert main(["score", str(model), str(tmp_path / "x.parquet"), *flags]) == 0
    by_command = pq.read_table(out)
    keys = by_command["id"].cast(pa.int64())  # the command keeps columns as text
    same_bits(by_command.set_column(0, "id", keys), expected(model, ROWS))


def test_a_model_without_names_takes_columns_in_their_order(tmp_path: Path) -> None:
    save_model(EnergyDetector(random_state=0).fit(X), tmp_path / "m")
    rows = pd.DataFrame(X[:30], columns=["u", "v", "w"])
    found = arrow_scorer(tmp_path / "m")(pa.RecordBatch.from_pandas(rows))
    np.testing.assert_array_equal(
        found["score"].to_numpy(), load(tmp_path / "m").score_samples(X[:30])
    )


def test_names_of_plain_numbers_are_found_in_any_order(tmp_path: Path) -> None:
    rows = pd.DataFrame(X, columns=["u", "v", "w"])
    save_model(EnergyDetector(random_state=0).fit(rows), tmp_path / "m")
    mixed = rows.assign(more="text")[["w", "more", "u", "v"]]
    found = arrow_scorer(tmp_path / "m")(mixed)["score"]
    np.testing.assert_array_equal(found, load(tmp_path / "m").score_samples(rows))


def test_a_process_reads_the_model_once(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from uspebm.detector import arrow

    arrow._loaded.cache_clear()
    reads: list[str] = []

    def counted(path: str) -> EnergyDetector:
        reads.append(path)
        return load(path)

    monkeypatch.setattr(arrow, "load", counted)
    scorer = arrow_scorer(model)
    assert reads == []
    for _ in range(3):
        pickle.loads(pickle.dumps(scorer))(frame(5))
    assert reads == [str(model.resolve())]


def test_it_travels_without_the_model(model: Path) -> None:
    """To a process that has nothing but the folder, wherever that process is."""
    sent = pickle.dumps(arrow_scorer(model))
    assert len(sent) < 1000
    program = (
        "import pickle, sys, pandas\n"
        "scorer = pickle.load(sys.stdin.buffer)\n"
        "rows = pandas.DataFrame({'a': [0.0], 'b': [0.0], 'c': [0.0], 'kind': ['x']})\n"
        "print(repr(float(scorer(rows)['score'][0])))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input=sent, capture_output=True, check=True
    )
    rows = pd.DataFrame({"a": [0.0], "b": [0.0], "c": [0.0], "kind": ["x"]})
    assert float(done.stdout) == arrow_scorer(model)(rows)["score"][0]


def test_another_model_in_its_place_is_refused(tmp_path: Path) -> None:
    scorer = arrow_scorer(table_model(tmp_path / "m"))
    save_model(EnergyDetector(random_state=1).fit(frame(200)[[*COLUMNS, "kind"]]), tmp_path / "m")
    with pytest.raises(ValueError, match="another model than when this work began"):
        scorer(frame(3))


def test_threads_are_as_before(model: Path) -> None:
    torch.set_num_threads(2)
    try:
        arrow_scorer(model)(frame(3))
        assert torch.get_num_threads() == 2
        with computing_threads(1):
            assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(1)


def test_what_cannot_be_scored_is_named(model: Path) -> None:
    rows = frame(5)
    scorer = arrow_scorer(model)
    with pytest.raises(ValueError, match="the batch has no column 'b'; it has"):
        scorer(pa.RecordBatch.from_pandas(rows.drop(columns="b")))
    with pytest.raises(ValueError, match="the batch has no column 'gone'"):
        arrow_scorer(model, ["gone"])(rows)
    with pytest.raises(ValueError, match=r"infinity in column 'a' in row 2 "):
        scorer(pa.RecordBatch.from_pandas(rows.assign(a=[0.0, np.inf, 0, 0, 0])))
    with pytest.raises(ValueError, match="which is no number"):
        scorer(rows.assign(a="text"))
    with pytest.raises(ValueError, match="dict; Ray Data gives such with batch_format"):
        scorer({"a": np.zeros(3)})
    with pytest.raises(ValueError, match="a column 'score', as the scores have"):
        arrow_scorer(model, "all")(rows.assign(score=1.0))
    with pytest.raises(ValueError, match="keep='p_value': the scores have"):
        arrow_scorer(model, ["p_value"])
    with pytest.raises(ValueError, match="needs at least"):
        arrow_scorer(model, false_alarm_rate=1e-9)
    with pytest.raises(ValueError, match="fashion-mnist is a model of images"):
        ArrowScorer("fashion-mnist")
