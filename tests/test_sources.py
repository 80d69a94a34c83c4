"""Data files of every kind: what is read, in which chunks, and what is refused."""

import gzip
import subprocess
import sys
import zipfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from numpy.typing import NDArray
from PIL import Image

from uspebm.sources import is_table, open_source, some_rows, source, tables

ROWS = 23
NUMBERS = np.random.default_rng(0)
TABLE = NUMBERS.normal(size=(ROWS, 3))
BYTES = NUMBERS.integers(0, 256, (ROWS, 4, 5), dtype=np.uint8)
COLOURS = NUMBERS.integers(0, 256, (ROWS, 4, 5, 3), dtype=np.uint8)
IDX = bytes([0, 0, 8, 3, 0, 0, 0, ROWS, 0, 0, 0, 4, 0, 0, 0, 5]) + BYTES.tobytes()


def csv_text(table: NDArray[Any], names: str = "a,b,c\n", comma: str = ",") -> bytes:
    lines = [comma.join(map(repr, row)) + "\n" for row in table.tolist()]
    return (names.replace(",", comma) + "".join(lines)).encode()


def write_parquet(path: Path, **columns: Any) -> None:
    pq.write_table(pa.table(columns), path, row_group_size=7)


def write_images(folder: Path, images: NDArray[Any]) -> None:
    folder.mkdir()
    (folder / ".hidden").write_text("not an image")
    for k, image in enumerate(images):
        Image.fromarray(image).save(folder / f"{k:03}.png")


def as_columns(table: NDArray[Any]) -> dict[str, NDArray[Any]]:
    return dict(zip("abc", table.T, strict=True))


Writer = Callable[[Path], object]
FILES: dict[str, tuple[Writer, NDArray[Any]]] = {
    "x.csv": (lambda path: path.write_bytes(csv_text(TABLE)), TABLE),
    "X.CSV": (lambda path: path.write_bytes(b"\xef\xbb\xbf" + csv_text(TABLE)), TABLE),
    "x.csv.gz": (lambda path: path.write_bytes(gzip.compress(csv_text(TABLE))), TABLE),
    "x.tsv": (lambda path: path.write_bytes(csv_text(TABLE, comma="\t")), TABLE),
    "x.parquet": (lambda path: write_parquet(path, **as_columns(TABLE)), TABLE),
    "x.npy": (lambda path: np.save(path, TABLE), TABLE),
    "fortran.npy": (lambda path: np.save(path, np.asfortranarray(TABLE)), TABLE),
    "big-endian.npy": (lambda path: np.save(path, TABLE.astype(">f8")), TABLE),
    "images.npy": (lambda path: np.save(path, COLOURS), COLOURS),
    "x.npz": (lambda path: np.savez_compressed(path, TABLE), TABLE),
    "several.npz": (lambda path: np.savez(path, y=BYTES, X=TABLE), TABLE),
    "x.idx": (lambda path: path.write_bytes(IDX), BYTES),
    "x.idx.gz": (lambda path: path.write_bytes(gzip.compress(IDX)), BYTES),
    "images-idx3-ubyte": (lambda path: path.write_bytes(IDX), BYTES),
    "images-idx3-ubyte.gz": (lambda path: path.write_bytes(gzip.compress(IDX)), BYTES),
    "grey": (lambda path: write_images(path, BYTES), BYTES),
    "colour": (lambda path: write_images(path, COLOURS), COLOURS),
}


@pytest.mark.parametrize("name", FILES, ids=list(FILES))
def test_chunks_are_the_whole_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(tables, "CSV_BLOCK", 256)  # a few rows
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


def test_columns_of_mixed_types_become_float64(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    write_parquet(
        path,
        a=np.array([0.5, 1.5], np.float32),
        b=np.array([2**40, 1]),
        c=[True, False],
        d=[Decimal("0.25"), Decimal("3.50")],
    )
    data = open_source(path).read()
    assert data.dtype == np.float64
    assert data.tolist() == [[0.5, 2.0**40, 1.0, 0.25], [1.5, 1.0, 0.0, 3.5]]


def table(path: Path) -> None:
    """Columns of all kinds, c before a, with text that has commas and line breaks."""
    if path.suffix == ".csv":
        path.write_text('c,id,a,flag\n1,"x, y",10,true\n2,"first\nsecond",20.5,false\n')
    else:
        write_parquet(path, c=[1, 2], id=["x", "y"], a=[10, 20.5], flag=[True, False])


@pytest.mark.parametrize("name", ["x.csv", "x.parquet"], ids=["csv", "parquet"])
def test_columns_are_picked_by_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    table(path)
    data = open_source(path, columns=("a", "flag", "c"))
    assert data.columns == ("a", "flag", "c")
    assert data.read().tolist() == [[10, 1, 1], [20.5, 0, 2]]
    data = open_source(path, drop=["id", "flag"])
    assert data.columns == ("c", "a")
    assert data.event_shape == (2,)
    assert data.read().tolist() == [[1, 10], [2, 20.5]]


@pytest.mark.parametrize("name", ["x.csv", "x.parquet"], ids=["csv", "parquet"])
@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"columns": ("a", "size", "e")}, "has no column 'size', 'e'; it has 'c', 'id', 'a', "),
        ({"drop": ["label"]}, "has no column 'label'; it has 'c', 'id', 'a', 'flag'"),
        ({"drop": ["a", "c", "id", "flag"]}, "no columns are left of 'c', 'id', "),
        ({"columns": ()}, "no columns are left of 'c', 'id', "),
    ],
    ids=["missing", "unknown", "none left", "none wanted"],
)
def test_wrong_choices_of_columns(
    tmp_path: Path, name: str, choice: dict[str, Any], message: str
) -> None:
    table(tmp_path / name)
    refused(tmp_path / name, message, **choice)


def test_many_names_are_cut_short(tmp_path: Path) -> None:
    write_parquet(tmp_path / "x.parquet", **{f"c{k}": [1.0] for k in range(100)})
    refused(tmp_path / "x.parquet", "'c9', … (100 in all)", drop=["d"])


def test_columns_without_names_cannot_be_picked(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", TABLE)
    refused(tmp_path / "x.npy", "has no named columns to choose from", columns=("a",))
    refused(tmp_path / "x.npy", "has no named columns to choose from", drop=["a"])


@pytest.mark.parametrize("end", ["\n", ""], ids=["line end", "no line end"])
@pytest.mark.parametrize("lines", [1, 3], ids=["one line", "three lines"])
def test_a_first_line_of_numbers_is_data(tmp_path: Path, lines: int, end: str) -> None:
    path = tmp_path / "x.csv"
    path.write_text("\n".join(["1,-2.5e3"] * lines) + end)
    data = open_source(path)
    assert data.columns == ("0", "1")
    assert data.read().tolist() == [[1, -2500]] * lines


def test_whole_numbers_may_come_before_fractions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "CSV_BLOCK", 64)
    path = tmp_path / "x.csv"
    path.write_text("a,b\n" + "1,true\n" * 100 + "\n\n1.5,0\r\n")
    assert open_source(path).read()[-2:].tolist() == [[1, 1], [1.5, 0]]


def refused(path: Path, message: str, **choice: Any) -> None:
    with pytest.raises((ValueError, FileNotFoundError)) as error:
        open_source(path, **choice).read()
    text = str(error.value)
    assert text.startswith(str(path))
    assert "\n" not in text
    assert message in text


TEXTS = {
    "blank": ("\n\n", "is empty"),
    "header only": ("a,b\n", "has a line of names, but no rows"),
    "header only, no line end": ("a,b", "has a line of names, but no rows"),
    "nan": ("a,b\n1,2\n1,nan\n", "NaN or infinity in column 'b' in data row 2 "),
    "infinity": ("1,2\n-inf,1\n1e999,2\n", "column '0' in at least 2 data rows: 2, 3 (counted"),
    "empty cell": ("a,b\n,2\n1,2\n", "no value in column 'a' in data row 1 "),
    "empty cells": ("a,b\n" + "1,NA\n" * 5, "column 'b' in at least 5 data rows: 1, 2, 3, … ("),
    "empty column": ("a,b\n1,\n", "no value in column 'b' in data row 1 "),
    "text": ("a,b\n1,2\n3,x\n", "column 'b' holds 'x' in data row 2, not a number"),
    "text of two lines": ('a,b\n1,"x\ny"\n', r"column 'b' holds 'x\ny' in data row 1, not a n"),
    "text without names": ("1,2\n3,x\n", "column '1' holds 'x' in data row 2, not a number"),
    "a long text": (f"a\n{'x' * 999}\n", "column 'a' holds 'xxxxxxxxxxxx...xxxxxxxxxxxxx' in data"),
    "dates": ("a,b\n1,2024-01-31\n", "column 'b' holds '2024-01-31' in data row 1, not a number"),
    "same names": ("a,b,a\n1,2,3\n", "has more than one column called 'a': rename them"),
    "pandas' index": (",a\n0,1.5\n", "column '' looks like the row numbers that pandas adds"),
    "too few cells": ("a,b\n1,2\n\n3\n", "data row 2 has 1 cells; there are 2 columns"),
    "too many cells": ("1,2\n3,4\n1,2,3\n", "data row 3 has 3 cells; there are 2 columns"),
    "open quote": ('a,b\n"1,2\n3,4\n', "data row 1 has 1 cells; there are 2 columns"),
}


@pytest.mark.parametrize("case", TEXTS, ids=list(TEXTS))
def test_csv_files_that_are_refused(tmp_path: Path, case: str) -> None:
    text, message = TEXTS[case]
    (tmp_path / "x.csv").write_text(text)
    refused(tmp_path / "x.csv", message)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1,x,true", "column 'b' holds 'x' in data row 501, not a number"),
        ("1,2,2", "column 'c' holds '2' in data row 501, not true or false"),
        ("1,2", "data row 501 has 2 cells; there are 3 columns"),
        ("1,,true", "no value in column 'b' in data row 501 "),
        ("inf,1,true", "NaN or infinity in column 'a' in data row 501 "),
    ],
    ids=["text", "not a boolean", "too few cells", "empty cell", "infinity"],
)
def test_mistakes_far_down_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, message: str
) -> None:
    monkeypatch.setattr(tables, "CSV_BLOCK", 64)
    (tmp_path / "x.csv").write_text("a,b,c\n" + "1,2,true\n" * 500 + line + "\n1,2,true\n")
    refused(tmp_path / "x.csv", message)


def test_bytes_that_are_not_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes("höhe,b\n1,2\n".encode("latin-1"))
    refused(path, "is not in UTF-8, as column 'h\ufffdhe' shows: save it so")
    path.write_bytes("a,b\n1,größer\n".encode("latin-1"))
    refused(path, "column 'b' holds 'gr")
    assert open_source(path, drop=["b"]).read().tolist() == [[1]]


PARQUETS: dict[str, tuple[dict[str, Any], str]] = {
    "no rows": ({"a": np.zeros(0)}, "has no rows"),
    "null": ({"a": [1] * 9 + [None]}, "no value in column 'a' in row 10 "),
    "nan": ({"a": [1.0, np.nan]}, "NaN or infinity in column 'a' in row 2 "),
    "text": ({"a": [1], "b": ["x"]}, "column 'b' holds string, such as 'x', not numbers"),
    "text after a null": ({"b": [None, "x"]}, "such as 'x', not numbers"),
    "lists": ({"b": [[1.0, 2.0]]}, "such as [1.0, 2.0], not numbers"),
    "pandas' index": ({"__index_level_0__": [0]}, "looks like the row numbers that pandas adds"),
}


@pytest.mark.parametrize("case", PARQUETS, ids=list(PARQUETS))
def test_parquet_files_that_are_refused(tmp_path: Path, case: str) -> None:
    columns, message = PARQUETS[case]
    write_parquet(tmp_path / "x.parquet", **columns)
    refused(tmp_path / "x.parquet", message)


def test_parquet_columns_of_the_same_name(tmp_path: Path) -> None:
    pq.write_table(pa.table([[1.0], [2.0]], names=["a", "a"]), tmp_path / "x.parquet")
    refused(tmp_path / "x.parquet", "has more than one column called 'a'")


ARRAYS: dict[str, tuple[Any, str]] = {
    "nan": ([[1.0], [np.nan], [np.inf]], "NaN or infinite values in at least 2 rows: 2, 3 ("),
    "one axis": ([1.0, 2.0], "has shape (2,), but rows and columns are needed: reshape"),
    "no rows": (np.zeros((0, 3)), "has no values: its shape is (0, 3)"),
    "no columns": (np.zeros((3, 0)), "has no values: its shape is (3, 0)"),
    "complex": ([[1j]], "holds values of type complex128, not real numbers"),
    "text": ([["a"]], "holds values of type <U1, not real numbers"),
    "objects": (np.array([[None]]), "cannot be read as .np"),
}


@pytest.mark.parametrize("case", ARRAYS, ids=list(ARRAYS))
@pytest.mark.parametrize("ending", [".npy", ".npz"], ids=["npy", "npz"])
def test_arrays_that_are_refused(tmp_path: Path, case: str, ending: str) -> None:
    values, message = ARRAYS[case]
    save = np.save if ending == ".npy" else np.savez
    save(tmp_path / f"x{ending}", np.asarray(values))
    refused(tmp_path / f"x{ending}", message)


def test_archives_of_several_arrays(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", a=TABLE, b=TABLE)
    refused(tmp_path / "x.npz", "it holds 'a', 'b', and needs one array, or one called 'X' or 'x'")
    np.savez(tmp_path / "x.npz", X=TABLE, x=TABLE)
    refused(tmp_path / "x.npz", "it holds 'X', 'x', and needs one array")
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("readme.txt", "nothing here")
    refused(tmp_path / "x.npz", "it holds nothing")


def test_idx_labels_are_no_rows(tmp_path: Path) -> None:
    (tmp_path / "labels-idx1-ubyte").write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 2, 7, 9]))
    refused(tmp_path / "labels-idx1-ubyte", "reshape one number per row to (N, 1)")


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


MODES: dict[str, tuple[Image.Image, str, list[Any]]] = {
    "1 bit": (Image.new("1", (2, 1), 1), "uint8", [[255, 255]]),
    "palette": (Image.new("RGB", (1, 1), (9, 8, 7)).convert("P"), "uint8", []),
    "16 bits": (Image.fromarray(np.array([[0, 65535]], np.uint16)), "float32", [[0, 65535]]),
}


@pytest.mark.parametrize("mode", MODES, ids=list(MODES))
def test_modes_of_images(tmp_path: Path, mode: str) -> None:
    image, dtype, values = MODES[mode]
    image.save(tmp_path / "x.png")
    expected = values or np.array(image.convert("RGB")).tolist()
    data = open_source(tmp_path).read()
    assert data.dtype == dtype
    assert data.tolist() == [expected]


def test_16_bit_pgm(tmp_path: Path) -> None:
    (tmp_path / "x.pgm").write_bytes(b"P5 2 1 65535\n" + bytes([1, 0, 255, 255]))
    assert open_source(tmp_path).read().tolist() == [[[256, 65535]]]


BAD_IMAGES: dict[str, tuple[Image.Image, str]] = {
    "rgba": (Image.new("RGBA", (5, 4)), "2.tif has transparency: save it without"),
    "grey with alpha": (Image.new("LA", (5, 4)), "2.tif has transparency"),
    "cmyk": (Image.new("CMYK", (5, 4)), "2.tif has pixels of mode CMYK: save it as 8-bit"),
    "size": (Image.new("L", (3, 2)), "1.png is 5 × 4 grey, 2.tif is 3 × 2 grey; make them alike"),
    "colour": (Image.new("RGB", (5, 4)), "1.png is 5 × 4 grey, 2.tif is 5 × 4 RGB"),
    "depth": (Image.new("I;16", (5, 4)), "2.tif is 5 × 4 16-bit grey; make them alike"),
}


@pytest.mark.parametrize("case", BAD_IMAGES, ids=list(BAD_IMAGES))
def test_images_that_are_refused(tmp_path: Path, case: str) -> None:
    image, message = BAD_IMAGES[case]
    Image.new("L", (5, 4)).save(tmp_path / "1.png")
    image.save(tmp_path / "2.tif")
    refused(tmp_path, message)


def test_animations_are_refused(tmp_path: Path) -> None:
    frame = Image.new("L", (2, 2))
    frame.save(tmp_path / "x.tif", save_all=True, append_images=[frame])
    refused(tmp_path, "x.tif holds 2 images: save each in a file of its own")


def test_other_things_in_a_folder_of_images(tmp_path: Path) -> None:
    Image.new("L", (2, 2)).save(tmp_path / "x.png")
    (tmp_path / "labels.txt").write_text("0\n")
    refused(tmp_path, "should hold images only (.png, .jpg, ")
    refused(tmp_path, "but has labels.txt")
    (tmp_path / "labels.txt").unlink()
    (tmp_path / "more.png").mkdir()
    refused(tmp_path, "but has more.png")


@pytest.mark.filterwarnings("ignore:.*:UserWarning:PIL")
@pytest.mark.parametrize("ending", ["png", "jpg", "bmp", "tif", "webp", "ppm"])
def test_damaged_images_are_one_line(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"x.{ending}"
    Image.fromarray(NUMBERS.integers(0, 256, (40, 30, 3), dtype=np.uint8)).save(path)
    content = path.read_bytes()
    for length in [*range(100), *range(100, len(content) - 20, 97)]:
        path.write_bytes(content[:length])
        refused(tmp_path, f"x.{ending} is no whole image: ")


PEAK = """
import sys
from pathlib import Path
from uspebm.sources import open_source

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
    run = [sys.executable, "-c", PEAK, str(small), str(big)]
    output = subprocess.run(run, capture_output=True, check=True, text=True).stdout
    chunks, whole = map(float, output.split())
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


def test_a_first_line_of_numbers_and_gaps_is_data(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("1,NA,3\n4,5,6\n")
    with pytest.raises(ValueError, match="data row 1"):
        open_source(path).read()
