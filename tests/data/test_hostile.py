"""Files made to do harm, and files that only look so: one line each, at once, in little memory."""

import gzip
import io
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from PIL import Image

from uspebm.data import unpacking
from uspebm.data.encoding import EncodedColumn, Encoding, Hints
from uspebm.data.readers import csv_file, images, open_source, pages, texts
from uspebm.support import reading

from .common import BYTES, IDX, TABLE, csv_text, refused, write_parquet

MEBIBYTE = 1 << 20


def members(begin: bytes, part: bytes, times: int) -> bytes:
    """``begin`` and ``part`` so many times, gzipped: as quick to make as it is slow to unpack."""
    return gzip.compress(begin) + gzip.compress(part) * times


def idx_header(*shape: int) -> bytes:
    return bytes([0, 0, 8, len(shape)]) + struct.pack(f">{len(shape)}I", *shape)


def npy_header(said: bytes, length: int | None = None) -> bytes:
    return b"\x93NUMPY\2\0" + struct.pack("<I", len(said) if length is None else length) + said


def npy_of(shape: object, descr: object = "<f8") -> bytes:
    said = {"descr": descr, "fortran_order": False, "shape": shape}
    return npy_header(repr(said).encode())


# Bombs


def test_gzip_bombs_are_refused_by_their_header(tmp_path: Path) -> None:
    """Three gigabytes in three megabytes: before a byte of them is unpacked."""
    path = tmp_path / "x.idx.gz"
    path.write_bytes(members(idx_header(3072, 1024, 1024), bytes(MEBIBYTE), 3072))
    refused(path, "unpacks to 3,072 MiB or more, over 100 times its size: if that is right, unpack")
    path.write_bytes(gzip.compress(idx_header(2**32 - 1, 2**32 - 1)))
    refused(path, "it is truncated or damaged")


def test_gzipped_tables_are_measured_before_they_are_read(tmp_path: Path) -> None:
    path = tmp_path / "x.csv.gz"
    path.write_bytes(members(b"a,b\n", b"1,2\n" * (1 << 18), 1000))
    refused(path, "unpacks to 256 MiB or more, over 30 times its size")
    path.write_bytes(members(b"a,b\n", b"1" * MEBIBYTE, 1000))  # one line
    refused(path, "unpacks to 256 MiB or more")


def test_what_grows_a_lot_and_is_small_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.idx.gz"
    path.write_bytes(members(idx_header(30, 1024, 1024), bytes(MEBIBYTE), 30))
    assert open_source(path).read().shape == (30, 1024, 1024)
    path = tmp_path / "x.csv.gz"
    path.write_bytes(members(b"a,b\n", b"1,2\n" * 1000, 100))
    assert open_source(path).read().shape == (100_000, 2)


def test_zip_bombs_are_refused_by_their_header(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "FREELY", MEBIBYTE)
    path = tmp_path / "x.npz"
    np.savez_compressed(path, np.zeros((1000, 1000)))
    refused(path, "unpacks to 8 MiB or more, over 100 times its size")


def test_repeated_values_are_no_way_to_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Millions of zeros take a few kilobytes of Parquet, compressed or not."""
    path = tmp_path / "x.parquet"
    zeros = pa.array(np.zeros(1_000_000))
    pq.write_table(pa.table({"a": zeros, "b": zeros}), path, compression="none")
    assert open_source(path).read().shape == (1_000_000, 2)
    monkeypatch.setattr(reading, "FREELY", MEBIBYTE)
    refused(path, "unpacks to 15 MiB or more, over 100 times its size")


@pytest.mark.parametrize("codec", ["zstd", "gzip", "snappy"])
def test_a_page_is_measured_before_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: str
) -> None:
    path = tmp_path / "x.parquet"
    rows = 1_000_000
    whole = dict.fromkeys(("row_group_size", "write_batch_size", "max_rows_per_page"), rows)
    table = pa.table({"a": np.zeros(rows), "b": np.zeros(rows), "c": ["x"] * rows})
    pq.write_table(
        table, path, compression=codec, use_dictionary=["c"], data_page_size=1 << 30, **whole
    )
    monkeypatch.setattr(pages, "PAGES", 8 * rows + 1000)
    refused(path, "would take 15 MiB for pages that are unpacked together", drop=["c"])
    # Of one column they fit, and of columns that are left out nothing is unpacked.
    assert open_source(path, drop=["b", "c"]).read().shape == (rows, 1)


def test_images_of_too_many_pixels_are_not_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "MOST_PIXELS", 20)
    Image.new("L", (5, 4)).save(tmp_path / "x.png")
    assert open_source(tmp_path).read().shape == (1, 4, 5)

    def decoded(*_: object) -> None:
        raise AssertionError("decoded before it looked")

    Image.new("L", (5, 5)).save(tmp_path / "x.png")
    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", decoded)
    refused(tmp_path, "x.png has 25 pixels, more than 20: make it smaller")


def test_a_picture_is_not_what_its_name_says(tmp_path: Path) -> None:
    """Of other formats Pillow knows some that are programs, and has them run."""
    (tmp_path / "x.png").write_bytes(
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n"
    )
    refused(tmp_path, "x.png is no whole image: cannot identify image file")


def tiff(tags: dict[int, int], following: int = 0) -> bytes:
    """With as many strips as it says; the ``following`` image is at that place."""
    entries = b"".join(
        struct.pack("<HHII", tag, 4, value if tag == 273 else 1, 10 if tag == 273 else value)
        for tag, value in tags.items()
    )
    header = b"II*\0" + struct.pack("<IH", 8, len(tags))
    return header + entries + struct.pack("<I", following) + bytes(100)


PLAIN = {256: 10, 257: 10, 258: 8, 259: 1, 262: 1, 277: 1, 278: 10, 279: 100}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (tiff({**PLAIN, 273: 200_000}), "x.tif is in more than 100,000 pieces: save it anew"),
        (tiff({**PLAIN, 322: 90_000, 323: 90_000, 324: 9}), "x.tif has 8,100,000,000 pixels"),
        (tiff({258: 8, 259: 1, 262: 1}), "x.tif is no whole image: "),
        (tiff({**PLAIN, 273: 1}, following=150), "x.tif holds several images"),
    ],
    ids=["strips", "a tile", "no width", "a second one without"],
)
def test_tiff_files_that_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "x.tif").write_bytes(content)
    refused(tmp_path, message)


def test_a_jpeg_of_endless_scans(tmp_path: Path) -> None:
    content = io.BytesIO()
    Image.new("L", (64, 64)).save(content, "JPEG", progressive=True)
    whole = content.getvalue()
    scan = whole[whole.rindex(b"\xff\xda") : -2]
    (tmp_path / "x.jpg").write_bytes(whole[:-2] + 200 * scan + whole[-2:])
    refused(tmp_path, "x.jpg has more than 100 scans")
    (tmp_path / "x.jpg").write_bytes(whole)
    assert open_source(tmp_path).read().shape == (1, 64, 64)


# Headers


HEADERS: dict[str, tuple[bytes, str]] = {
    "a huge shape": (npy_of((10**6, 10**6)), "1000000 × 1000000 values of float64 in 80000000"),
    "a shape beyond numbers": (npy_of((2**70, 3)), "it is truncated or damaged"),
    "a negative shape": (npy_of((-3, 3)), "its shape is (-3, 3)"),
    "axes": (npy_of((1,) * 70), "its shape is (1, 1, "),
    "a long header": (npy_header(b"(" * 100, 2**32 - 1), "has a header of 4294967295 bytes"),
    "a header cut short": (npy_header(b"{'descr': ", 200), "cannot be read as .np"),
    "brackets": (npy_header(b"(" * 9000), "cannot be read as .np"),
    "an open text": (npy_header(b"{'''"), "cannot be read as .np"),
    "minus signs": (npy_header(b"-" * 9000 + b"1"), "cannot be read as .np"),
    "no dictionary": (npy_header(b"[1]"), "cannot be read as .np"),
    "structs": (npy_of((3,), [("a", "<f8"), ("b", "<i4")]), "not real numbers"),
    "a version": (b"\x93NUMPY\3\0" + npy_of((3, 1))[8:], "is of version (3, 0) of .npy"),
    "the magic alone": (b"\x93NUMPY", "cannot be read as .np"),
    "two arrays": (2 * (npy_of((1, 1)) + bytes(8)), "it may hold more than one array"),
}


@pytest.mark.parametrize("case", HEADERS, ids=list(HEADERS))
@pytest.mark.parametrize("ending", [".npy", ".npz"], ids=["npy", "npz"])
def test_headers_that_are_refused(tmp_path: Path, case: str, ending: str) -> None:
    content, message = HEADERS[case]
    path = tmp_path / f"x{ending}"
    if ending == ".npz":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("x.npy", content)
    else:
        path.write_bytes(content)
    refused(path, message)


def zip_with(change: Callable[[bytearray, int, int], None]) -> bytes:
    """An archive whose two headers of its member, local and central, are changed."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", npy_of((7, 3)) + TABLE[:7].tobytes())
    content = bytearray(file.getvalue())
    change(content, 0, content.index(b"PK\1\2"))
    return bytes(content)


def set_method(content: bytearray, local: int, central: int) -> None:
    content[local + 8] = content[central + 10] = 99


def set_encrypted(content: bytearray, local: int, central: int) -> None:
    content[local + 6] |= 1
    content[central + 8] |= 1


def set_strongly_encrypted(content: bytearray, local: int, central: int) -> None:
    content[local + 6] |= 65
    content[central + 8] |= 65


def set_version(content: bytearray, local: int, central: int) -> None:
    content[central + 6] = 255


def set_size(content: bytearray, local: int, central: int) -> None:
    content[central + 24 : central + 28] = struct.pack("<I", 2**32 - 2)


@pytest.mark.parametrize(
    "change", [set_method, set_encrypted, set_strongly_encrypted, set_version, set_size]
)
def test_archives_that_are_refused(tmp_path: Path, change: Any) -> None:
    (tmp_path / "x.npz").write_bytes(zip_with(change))
    refused(tmp_path / "x.npz", "x.npz ")


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2], ids=["lzma", "bzip2"])
def test_archives_are_packed_as_numpy_packs_them(tmp_path: Path, method: int) -> None:
    with zipfile.ZipFile(tmp_path / "x.npz", "w", method) as archive:
        archive.writestr("x.npy", npy_of((7, 3)) + TABLE[:7].tobytes())
    refused(tmp_path / "x.npz", "is encrypted or packed unlike numpy's own archives")


def test_a_footer_that_ends_the_process_elsewhere(tmp_path: Path) -> None:
    """Every byte of it, one at a time: pyarrow's own way to look at some of them is to abort."""
    path = tmp_path / "x.parquet"
    write_parquet(path, a=TABLE[:3, 0])
    content = path.read_bytes()
    length = struct.unpack("<I", content[-8:-4])[0]
    begin = len(content) - 8 - length
    schema = content.index(b"ARROW:schema")  # long, and nobody reads it
    for at in range(begin, min(schema, len(content))):
        path.write_bytes(content[:at] + b"\x7f" + content[at + 1 :])
        try:
            open_source(path).read()
        except ValueError as error:
            assert str(error).startswith(str(path))
            assert "\n" not in str(error)


# Text


def test_a_first_line_without_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_file, "CSV_BLOCK", 100)
    path = tmp_path / "x.csv"
    path.write_text("a," * 60)
    refused(path, "has a first line of more than 100 bytes")
    path.write_text("\n" * 200 + "a,b\n1,2\n")
    refused(path, "has a first line of more than 100 bytes")


def test_long_names_are_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("b" * 10_000 + "," + "b" * 10_000 + "\n1,2\n")
    refused(path, "has more than one column called 'bbbbbbbbbbbb...bbbbbbbbbbbbb': rename them")


def test_what_a_terminal_would_obey_is_not_passed_on(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(b"a,b\n1,2\n3,\x1b[2J\n")
    refused(path, r"column 'b' holds '\x1b[2J' in data row 2, not a number")


# Tables of very many columns are read line by line


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_file, "WIDE_TABLE", 2)


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("name", ["x.csv", "x.tsv", "x.csv.gz"])
def test_wide_tables_are_read_like_narrow_ones(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    comma = "\t" if "tsv" in name else ","
    text = csv_text(TABLE, '"a",b,c\n', comma)
    path.write_bytes(gzip.compress(text) if name.endswith("gz") else b"\xef\xbb\xbf" + text)
    np.testing.assert_array_equal(open_source(path).read(), TABLE)
    np.testing.assert_array_equal(open_source(path, ("c", "a")).read(), TABLE[:, [2, 0]])
    np.testing.assert_array_equal(open_source(path, drop=["b"]).read(), TABLE[:, [0, 2]])
    chunks = list(open_source(path).chunks(10))
    assert [len(chunk) for chunk in chunks] == [10, 10, 3]


@pytest.mark.usefixtures("wide")
def test_what_is_said_of_wide_tables_is_honoured(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("key,a,b,c\nx,1,2,3\ny,4,5,6\n")
    data = open_source(path, wish=Hints(ids=("key",), numeric=("a",)))
    assert data.columns == ("a", "b", "c")
    assert data.event_shape == (3,)
    assert data.read().tolist() == [[1, 2, 3], [4, 5, 6]]
    category = Encoding(
        (EncodedColumn("a", "category", ("1",)), *Encoding.of_numbers("bc").columns)
    )
    for wish in (Hints(categorical=("a",), ids=("key",)), category):
        names = None if isinstance(wish, Hints) else wish.used
        refused(path, "columns all are read as numbers, and 'a' would be", columns=names, wish=wish)
    for odd in (Hints(ids=("none",)), Hints(numeric=("none",)), Hints(categorical=("none",))):
        refused(path, "has no column 'none'", wish=odd)
    # What counts is how many columns are asked for.
    assert list(texts(path, ["key", "b"])) == [{"key": ["x", "y"], "b": ["2", "5"]}]
    assert next(texts(path, []))["key"] == ["x", "y"]
    two = open_source(path, ["key", "a"], wish=Hints(categorical=("key",)))
    assert two.read().tolist() == [[1, 0, 0, 1], [0, 1, 0, 4]]


@pytest.mark.usefixtures("wide")
def test_wide_tables_without_names(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("1,true,3\n\n4,False,6e3")
    data = open_source(path, drop=[])
    assert data.columns == ("1", "true", "3")  # a word is no number: these are names
    path.write_text("1,2,3\n\n4,False,6e3")
    assert open_source(path).columns == ("0", "1", "2")
    assert open_source(path).read().tolist() == [[1, 2, 3], [4, 0, 6000]]


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1,x,3", "column 'b' holds 'x' in data row 2, not a number; put numbers in it"),
        ("1,2", "data row 2 has 2 cells; there are 3 columns"),
        ("1,,3", "no value in column 'b' in data row 2 (counted from 1)"),
        ("1,2,inf", "NaN or infinity in column 'c' in data row 2 (counted from 1)"),
        ("1,2,1e999", "NaN or infinity in column 'c' in data row 2"),
    ],
    ids=["text", "too few", "empty", "infinity", "beyond numbers"],
)
def test_wide_tables_that_are_refused(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f"a,b,c\n1,2,3\n{line}\n")
    refused(path, message)


@pytest.mark.usefixtures("wide")
def test_wide_tables_with_a_line_that_never_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_file, "CSV_BLOCK", 100)
    path = tmp_path / "x.csv"
    path.write_text("a,b,c\n1,2,3\n" + "1" * 200)
    refused(path, "has a line of more than 100 bytes")


def test_very_many_columns_take_no_minutes(tmp_path: Path) -> None:
    """By pyarrow, 19 s and 1.5 GB."""
    path = tmp_path / "x.csv"
    path.write_bytes((b"1.5," * 99_999 + b"1\n") * 3)
    assert open_source(path).read().shape == (3, 100_000)
    path = tmp_path / "x.parquet"
    write_parquet(path, **{f"c{k}": TABLE[:9, 0] for k in range(4500)})
    np.testing.assert_array_equal(open_source(path).read(), np.tile(TABLE[:9, :1], 4500))


# Gzip, by our own reader


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(IDX) + bytes(1000), ""),
        (gzip.compress(IDX[:100]) + gzip.compress(IDX[100:]), ""),
        (gzip.compress(IDX) + b"something else", "is not a whole gzip file: "),
        (gzip.compress(IDX) + gzip.compress(b"x"), "holds more than its header says"),
        (gzip.compress(IDX[:-1]), "ends too early: it is truncated or damaged"),
        (gzip.compress(IDX)[:-1], "is not a whole gzip file: it ends too early"),
        (gzip.compress(IDX)[:-8] + bytes(8), "is not a whole gzip file: "),
        (gzip.compress(b"") * 5000, "is not a whole gzip file: it consists of too many parts"),
    ],
    ids=["zeros", "members", "garbage", "more", "less", "cut", "checksum", "empty members"],
)
def test_gzip_files(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "x.idx.gz"
    path.write_bytes(content)
    if message:
        refused(path, message)
    else:
        np.testing.assert_array_equal(open_source(path).read(), BYTES)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.binary(max_size=2000), min_size=1, max_size=5),
    st.integers(1, 3000),
    st.integers(0, 9),
)
@example([b"", b"x" * 100_000, b""], 1, 9)
def test_unzipping_gives_what_was_zipped(parts: list[bytes], size: int, level: int) -> None:
    packed = b"".join(gzip.compress(part, level) for part in parts)
    path = Path("x.gz")
    assert unpacking.unzipped(packed, path) == b"".join(parts)
    raw = unpacking._Unzipped(io.BytesIO(packed), len(packed), path)
    found = b""
    buffer = bytearray(size)
    while count := raw.readinto(buffer):
        found += buffer[:count]
    assert found == b"".join(parts)


# Whatever the bytes are

CONTENTS = st.one_of(
    st.binary(max_size=300),
    st.tuples(
        st.sampled_from(
            [idx_header(2, 2, 2), npy_of((2, 2)), b"PAR1", b"a,b\n1,2\n", b"\x1f\x8b\x08"]
        ),
        st.binary(max_size=100),
    ).map(b"".join),
    st.tuples(st.binary(max_size=100), st.just(b"\x10\0\0\0PAR1")).map(b"".join),
)
ENDINGS = [".idx", ".idx.gz", ".npy", ".npz", ".csv", ".tsv", ".csv.gz", ".parquet"]


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.sampled_from(ENDINGS), CONTENTS)
def test_any_bytes_are_read_or_refused_in_one_line(
    tmp_path: Path, ending: str, content: bytes
) -> None:
    path = tmp_path / f"x{ending}"
    path.write_bytes(content)
    try:
        rows = open_source(path).read()
    except ValueError as error:
        assert str(error).startswith(str(path))
        assert str(error).isprintable()
        assert len(str(error)) < 1000
    else:
        assert np.isfinite(rows).all()


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.sampled_from(["<f8", ">f4", "|u1", "<i2", "|b1", "<c8", "|O", "<U3", "|V8", "x", ""]),
    st.lists(st.integers(-2, 2**64) | st.integers(0, 4), max_size=4),
    st.booleans(),
    st.binary(max_size=128),
    st.sampled_from([".npy", ".npz"]),
)
def test_any_header_is_read_or_refused_in_one_line(
    tmp_path: Path, descr: str, shape: list[int], by_columns: bool, values: bytes, ending: str
) -> None:
    said = {"descr": descr, "fortran_order": by_columns, "shape": tuple(shape)}
    content = npy_header(repr(said).encode()) + values
    path = tmp_path / f"x{ending}"
    if ending == ".npz":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("x.npy", content)
    else:
        path.write_bytes(content)
    try:
        assert open_source(path).read().shape == tuple(shape)
    except ValueError as error:
        assert str(error).startswith(str(path))
        assert "\n" not in str(error)
