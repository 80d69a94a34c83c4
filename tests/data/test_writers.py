"""Score files: what is written comes back, and nothing half-written is left."""

import csv
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.fresh import fresh
from uspebm.data.writers import FORMATS, Columns, open_sink

ROWS = 17
# Numbers that need all of their digits, very small and very large ones.
SCORES = np.random.default_rng(0).normal(size=ROWS) * np.logspace(-300, 300, ROWS)
COLUMNS: Columns = {
    "file": np.array([f"{k}, größer.png" for k in range(ROWS)]),
    "score": SCORES,
    "p_value": np.linspace(0, 1, ROWS) / 3,
    "outlier": np.arange(ROWS) % 3 == 0,
}


def chunks(columns: Columns, size: int) -> Iterator[Columns]:
    for begin in range(0, ROWS, size):
        yield {name: values[begin : begin + size] for name, values in columns.items()}


def read_csv(path: Path) -> dict[str, list[Any]]:
    parse: dict[str, Callable[[str], Any]] = {
        "score": float,
        "p_value": float,
        "outlier": "True".__eq__,
    }
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {name: [parse.get(name, str)(row[name]) for row in rows] for name in rows[0]}


def read_jsonl(path: Path) -> dict[str, list[Any]]:
    records = [json.loads(line) for line in path.read_text().splitlines()]
    return {name: [record[name] for record in records] for name in records[0]}


def read_npz(path: Path) -> dict[str, list[Any]]:
    with np.load(path) as archive:
        return {name: archive[name].tolist() for name in archive.files}


READERS: dict[str, Callable[[Path], dict[str, list[Any]]]] = {
    ".csv": read_csv,
    ".jsonl": read_jsonl,
    ".npy": lambda path: {"score": np.load(path).tolist()},
    ".npz": read_npz,
    ".parquet": lambda path: pq.read_table(path).to_pydict(),
}


def fitting(ending: str) -> Columns:
    return {"score": SCORES} if ending == ".npy" else COLUMNS


@pytest.mark.parametrize("size", [1, 5, ROWS], ids=["rows", "chunks", "whole"])
@pytest.mark.parametrize("ending", FORMATS, ids=list(FORMATS))
def test_what_is_written_comes_back(tmp_path: Path, ending: str, size: int) -> None:
    path = tmp_path / "new" / "folder" / f"scores{ending}"
    with open_sink(path) as sink:
        for chunk in chunks(fitting(ending), size):
            sink.write(chunk)
    expected = {name: values.tolist() for name, values in fitting(ending).items()}
    assert READERS[ending](path) == expected


@pytest.mark.parametrize("before", [True, False], ids=["old file", "no file"])
@pytest.mark.parametrize("ending", FORMATS, ids=list(FORMATS))
def test_an_error_midway_leaves_all_as_it_was(tmp_path: Path, ending: str, before: bool) -> None:
    path = tmp_path / f"scores{ending}"
    if before:
        path.write_text("old")
    with pytest.raises(ValueError, match="row 7 is empty"), open_sink(path) as sink:
        sink.write(fitting(ending))
        raise ValueError("row 7 is empty")
    assert list(tmp_path.iterdir()) == ([path] if before else [])
    assert not before or path.read_text() == "old"


FILL = """
import resource, sys
from pathlib import Path
import numpy as np
from uspebm.data.writers import open_sink

resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
for path in sys.argv[1:]:
    try:
        with open_sink(Path(path)) as sink:
            for seed in range(100):
                sink.write({"score": np.random.default_rng(seed).normal(size=1000)})
    except OSError as error:
        print(error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no limits on file sizes")
def test_a_full_disk_leaves_all_as_it_was(tmp_path: Path) -> None:
    paths = [tmp_path / f"scores{ending}" for ending in FORMATS]
    for path in paths:
        path.write_text("old")
    done = fresh(FILL, *paths)
    assert done.returncode == 0, done.stderr
    assert ["File too large" in line for line in done.stdout.splitlines()] == [True] * len(paths)
    assert done.stderr == ""
    assert sorted(tmp_path.iterdir()) == sorted(paths)
    assert all(path.read_text() == "old" for path in paths)


@pytest.mark.parametrize("ending", FORMATS, ids=list(FORMATS))
def test_nothing_written_is_an_error(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"scores{ending}"
    with pytest.raises(ValueError, match="there is nothing to write"), open_sink(path):
        pass
    assert list(tmp_path.iterdir()) == []


WRONG: dict[str, tuple[str, list[Columns], str]] = {
    "other names": (
        "x.csv",
        [{"score": SCORES}, {"p_value": SCORES}],
        r"has columns \('score',\), not \('p_value',\)",
    ),
    "other lengths": ("x.csv", [{"a": SCORES, "b": SCORES[1:]}], "columns of one length are"),
    "no columns": ("x.csv", [{}], "columns of one length are needed"),
    "npy of two columns": (
        "x.npy",
        [{"score": SCORES, "p_value": SCORES}],
        ".npy holds one column, not score, p_value; use .npz",
    ),
    "unknown ending": ("x.xlsx", [], "files ending in .csv, .jsonl, .npy, .npz, .parquet"),
}


@pytest.mark.parametrize("case", WRONG, ids=list(WRONG))
def test_wrong_chunks_are_refused(tmp_path: Path, case: str) -> None:
    name, written, message = WRONG[case]
    with pytest.raises(ValueError, match=message) as error, open_sink(tmp_path / name) as sink:
        for columns in written:
            sink.write(columns)
    assert str(error.value).startswith(str(tmp_path / name))
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "file").write_text("in the way")
    for path in (tmp_path / "folder.csv", tmp_path / "file" / "x.csv"):
        with pytest.raises(OSError, match=str(tmp_path)) as error, open_sink(path):
            pass
        assert "\n" not in str(error.value)


def test_what_is_not_finite_is_null_in_json(tmp_path: Path) -> None:
    """One such score must not lose all the others."""
    with open_sink(tmp_path / "x.jsonl") as sink:
        sink.write({"score": np.array([-np.inf, np.nan, 0.5]), "outlier": np.array([True] * 3)})
    assert read_jsonl(tmp_path / "x.jsonl")["score"] == [None, None, 0.5]


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".npz", ".parquet"])
def test_texts_are_written_to_every_kind_of_file(tmp_path: Path, ending: str) -> None:
    """As objects: of one width, a single long text would take as much for each row."""
    texts = ["", "NA", "x" * 70_000]
    path = tmp_path / f"x{ending}"
    with open_sink(path) as sink:
        for chunk in (texts[:1], texts[1:]):
            sink.write({"text": np.array(chunk, dtype=object)})
    assert READERS[ending](path)["text"] == texts


def test_types_stay_in_parquet(tmp_path: Path) -> None:
    with open_sink(tmp_path / "x.parquet") as sink:
        sink.write({"score": np.ones(2, np.float32), "outlier": np.array([True, False])})
    schema = pq.read_schema(tmp_path / "x.parquet")
    assert schema.types == [pa.float32(), pa.bool_()]
