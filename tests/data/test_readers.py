"""What holds of every kind of data file: chunks, numbers, memory, and rows drawn at random."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.fresh import fresh
from uspebm.data.readers import csv_file, drawn_at, is_table, open_source, some_rows, source

from .common import FILES, ROWS, TABLE, refused, write_parquet


@pytest.mark.parametrize("name", FILES, ids=list(FILES))
def test_chunks_are_the_whole_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(csv_file, "CSV_BLOCK", 256)  # a few rows
    monkeypatch.setattr(source, "READ_ROWS", 10)
    write, expected = FILES[name]
    write(tmp_path / name)
    data = open_source(tmp_path / name)
    assert data.path == tmp_path / name
    assert data.event_shape == expected.shape[1:]
    assert data.rows == (None if ".csv" in name.lower() or ".tsv" in name else ROWS)
    for _ in range(2):  # reading leaves nothing behind
        whole = data.read()
        assert whole.dtype == expected.dtype
        np.testing.assert_array_equal(whole, expected)
    for size in (1, 4, ROWS - 1, ROWS, 1000):
        chunks = list(data.chunks(size))
        assert {len(chunk) for chunk in chunks[:-1]} <= {size}
        assert len(chunks) == -(-ROWS // size)
        assert all(chunk.dtype == expected.dtype for chunk in chunks)
        np.testing.assert_array_equal(np.concatenate(chunks), expected)


def test_a_chunk_has_at_least_one_row(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", TABLE)
    with pytest.raises(ValueError, match="size=0 must be a whole number, at least 1"):
        open_source(tmp_path / "x.npy").chunks(0)


@pytest.mark.parametrize(
    ("stored", "read"),
    [
        (np.float16, np.float32),
        (np.float32, np.float32),
        (np.int64, np.float64),
        (np.uint8, np.float64),
        (np.bool_, np.float64),
    ],
    ids=["float16", "float32", "int64", "uint8", "bool"],
)
@pytest.mark.parametrize("ending", [".npy", ".parquet"], ids=["npy", "parquet"])
def test_numbers_become_floats(tmp_path: Path, stored: Any, read: Any, ending: str) -> None:
    path = tmp_path / f"x{ending}"
    values = np.array([[0, 1], [1, 1], [1, 0]], dtype=stored)
    if ending == ".npy":
        np.save(path, values)
    else:
        write_parquet(path, a=values[:, 0], b=values[:, 1])
    assert open_source(path).read().dtype == read
    np.testing.assert_array_equal(open_source(path).read(), values.astype(read))


def test_columns_without_names_cannot_be_picked(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", TABLE)
    refused(tmp_path / "x.npy", "has no named columns to choose from", columns=("a",))
    refused(tmp_path / "x.npy", "has no named columns to choose from", drop=["a"])


def test_what_is_not_there_or_unknown(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="does not exist"):
        open_source(tmp_path / "x.csv")
    (tmp_path / "x.xlsx").write_text("x")
    refused(tmp_path / "x.xlsx", "is of no known kind: a folder of images is read, and names")
    refused(tmp_path / "x.xlsx", ".csv, .csv.gz, .tsv, .tsv.gz, .parquet, .npy, .npz, .idx")
    (tmp_path / "folder.csv").mkdir()
    refused(tmp_path / "folder.csv", "is an empty folder: it should hold images")


@pytest.mark.parametrize("name", [name for name in FILES if "." in name or "-" in name])
def test_damaged_files_are_one_line(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    FILES[name][0](path)
    content = path.read_bytes()
    path.write_bytes(b"")
    refused(path, "is empty")
    if name.lower().endswith((".csv", ".tsv")):
        return  # a line fewer cannot be told
    for length in [*range(1, min(len(content), 200)), *range(200, len(content), 97)]:
        path.write_bytes(content[:length])
        refused(path, "")
    path.write_bytes(b"something else entirely\n" * 10)
    refused(path, "")


PEAK = """
import sys
from pathlib import Path
from uspebm.data.readers import open_source

def peak():  # of this process alone: getrusage would count that of the one that started it
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024

small, big = map(Path, sys.argv[1:])
open_source(small).read()  # loads what is loaded on first use
before = peak()
for chunk in open_source(big).chunks(10_000):
    pass
print(peak() - before)
open_source(big).read()
print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="peaks are read from /proc")
@pytest.mark.parametrize("ending", [".npy", ".parquet"], ids=["npy", "parquet"])
def test_memory_does_not_grow_with_the_file(tmp_path: Path, ending: str) -> None:
    """Two million rows of ten float32: 76 MiB, in Parquet as a single row group."""
    small, big = tmp_path / f"small{ending}", tmp_path / f"big{ending}"
    values = np.random.default_rng(0).random((2_000_000, 10), np.float32)
    for path, rows in ((small, values[:100]), (big, values)):
        if ending == ".npy":
            np.save(path, rows)
        else:
            columns = {f"c{k}": rows[:, k] for k in range(10)}
            pq.write_table(pa.table(columns), path, row_group_size=len(values))
    assert big.stat().st_size > 75 * 2**20
    done = fresh(PEAK, small, big)
    assert done.returncode == 0, done.stderr
    chunks, whole = map(float, done.stdout.split())
    # Parquet holds for each of ten columns a dictionary and a page of 1 MiB each, the latter also
    # compressed: 30 MiB; then there are a few copies of a chunk, 0.4 MiB each. Half of the file
    # leaves room for what allocators keep.
    assert chunks < 38
    assert whole > 76  # the measure sees what it should


@pytest.mark.parametrize("limit", [1, 5, ROWS - 1], ids=["one", "some", "most"])
@pytest.mark.parametrize("name", ["x.csv", "x.npy", "grey"])
def test_some_rows_are_rows_in_their_order(tmp_path: Path, name: str, limit: int) -> None:
    write, whole = FILES[name]
    write(tmp_path / name)
    data = open_source(tmp_path / name)
    found = some_rows(data, limit, seed=0)
    assert found.dtype == whole.dtype
    at = [int(np.flatnonzero((whole == row).reshape(ROWS, -1).all(1))[0]) for row in found]
    assert len(at) == limit
    assert at == sorted(set(at))
    np.testing.assert_array_equal(some_rows(data, limit, seed=0), found)
    np.testing.assert_array_equal(some_rows(data, ROWS, seed=0), whole)
    np.testing.assert_array_equal(some_rows(data, 1000, seed=1), whole)


def test_some_rows_do_not_depend_on_the_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save(tmp_path / "x.npy", TABLE)
    data = open_source(tmp_path / "x.npy")
    whole = some_rows(data, 10, seed=3)
    monkeypatch.setattr(source, "READ_BYTES", 4 * TABLE[0].nbytes)
    assert source.at_a_time(data.event_shape) == 4
    np.testing.assert_array_equal(some_rows(data, 10, seed=3), whole)


def test_some_rows_are_drawn_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """How often each of 23 rows is among ten, over 2000 seeds, in chunks of four."""
    monkeypatch.setattr(source, "READ_BYTES", 4 * 8)
    np.save(tmp_path / "x.npy", np.arange(ROWS, dtype=float)[:, None])
    data = open_source(tmp_path / "x.npy")
    draws = 2000
    counts = np.zeros(ROWS)
    for seed in range(draws):
        counts[some_rows(data, 10, seed).astype(int).ravel()] += 1
    share = 10 / ROWS
    error = np.sqrt(draws * share * (1 - share))
    assert np.abs(counts - draws * share).max() < 4.5 * error  # 23 normal laws: 1 in 6000


def test_some_rows_of_none(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", TABLE)
    with pytest.raises(ValueError, match="limit=0 must be a whole number, at least 1"):
        some_rows(open_source(tmp_path / "x.npy"), 0, seed=0)


@pytest.mark.parametrize(
    ("shape", "rows"),
    [((3,), 65_536), ((28, 28), 5349), ((4000, 6000, 3), 1)],
    ids=["table", "small images", "photographs"],
)
def test_few_large_images_are_held_at_a_time(shape: tuple[int, ...], rows: int) -> None:
    assert source.at_a_time(shape) == rows


def test_what_has_named_columns(tmp_path: Path) -> None:
    assert all(is_table(tmp_path / name) for name in ("x.csv", "X.TSV.gz", "x.parquet"))
    assert not any(is_table(tmp_path / name) for name in ("x.npy", "images-idx3-ubyte", "x"))
    (tmp_path / "folder.csv").mkdir()
    assert not is_table(tmp_path / "folder.csv")


@pytest.mark.parametrize("limit", [1, 10, ROWS, 1000])
def test_which_rows_are_taken_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(source, "READ_BYTES", 4 * 8)
    np.save(tmp_path / "x.npy", np.arange(ROWS, dtype=float)[:, None])
    taken = some_rows(open_source(tmp_path / "x.npy"), limit, seed=3)
    np.testing.assert_array_equal(taken[:, 0], drawn_at(ROWS, limit, seed=3))
