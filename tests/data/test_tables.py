"""Tables with named columns: which are taken, and what is refused."""

from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from uspebm.data.encoding import Hints
from uspebm.data.readers import csv_file, open_source, texts

from .common import refused, write_parquet


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


@pytest.mark.parametrize("end", ["\n", ""], ids=["line end", "no line end"])
@pytest.mark.parametrize("lines", [1, 3], ids=["one line", "three lines"])
def test_a_first_line_of_numbers_is_data(tmp_path: Path, lines: int, end: str) -> None:
    path = tmp_path / "x.csv"
    path.write_text("\n".join(["1,-2.5e3"] * lines) + end)
    data = open_source(path)
    assert data.columns == ("0", "1")
    assert data.read().tolist() == [[1, -2500]] * lines


@pytest.mark.parametrize("wide", [False, True], ids=["by pyarrow", "by lines"])
def test_names_of_months_are_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wide: bool
) -> None:
    """Python takes 2020_01 for a number."""
    if wide:
        monkeypatch.setattr(csv_file, "WIDE_TABLE", 1)
    path = tmp_path / "x.csv"
    path.write_text("2020_01,2020_02\n1,2\n")
    data = open_source(path)
    assert data.columns == ("2020_01", "2020_02")
    assert data.read().tolist() == [[1, 2]]
    path.write_text("a,b\n1,2_0\n")
    refused(path, "column 'b' holds '2_0' in data row 1, not a number")


def test_whole_numbers_may_come_before_fractions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_file, "CSV_BLOCK", 64)
    path = tmp_path / "x.csv"
    path.write_text("a,b\n" + "1,true\n" * 100 + "\n\n1.5,0\r\n")
    assert open_source(path).read()[-2:].tolist() == [[1, 1], [1.5, 0]]


def test_a_first_line_of_numbers_and_gaps_is_data(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("1,NA,3\n4,5,6\n")
    with pytest.raises(ValueError, match="data row 1"):
        open_source(path).read()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (",0,1", "column '' looks like the row numbers that pandas adds"),
        (",10,20", "first line has numbers, but none in column 1, where the second has '0': if"),
        (",,0", "first line has numbers, but none in column 1"),
    ],
    ids=["numbered columns", "other numbers", "two levels of rows"],
)
def test_a_header_of_numbers_is_no_row(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f"{line}\n0,1.5,2.5\n1,3.5,4.5\n")
    refused(path, message)
    refused(path, message, wish=Hints())


def test_numbered_columns_of_pandas_are_names(tmp_path: Path) -> None:
    pd.DataFrame([[1.5, 2.5], [3.5, 4.5]]).to_csv(tmp_path / "x.csv")
    data = open_source(tmp_path / "x.csv", drop=[""])
    assert data.columns == ("0", "1")
    assert data.read().tolist() == [[1.5, 2.5], [3.5, 4.5]]
    (tmp_path / "x.csv").write_text("1,\n2,\n3,4\n")  # gaps in both lines are those of rows
    assert np.isnan(open_source(tmp_path / "x.csv", wish=Hints()).read()[:2, 1]).all()


FRACTIONS = {
    "microseconds": "2026-03-02 10:00:00.123456",
    "nanoseconds": "2026-03-02 10:00:00.123456789",
    "a time zone": "2026-03-02T12:00:00.5+02:00",
}


@pytest.mark.parametrize("moment", FRACTIONS.values(), ids=list(FRACTIONS))
def test_dates_may_have_parts_of_a_second(tmp_path: Path, moment: str) -> None:
    """Also in a file for a model that was fitted on whole seconds."""
    whole, path = tmp_path / "whole.csv", tmp_path / "x.csv"
    whole.write_text("t\n" + "2026-03-02 10:00:00\n" * 2)
    path.write_text("t\n" + f"{moment}\n" * 2)
    known = open_source(whole, wish=Hints())
    for wish in (Hints(), known.encoding):
        assert open_source(path, ["t"], wish=wish).read().tolist() == known.read().tolist()


def test_parts_of_a_second_may_come_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_file, "CSV_BLOCK", 100)
    path = tmp_path / "x.csv"
    path.write_text("t\n" + "2026-03-02 10:00:00\n" * 20 + "9999-12-31 10:00:00.123456\n")
    assert len(open_source(path, wish=Hints()).read()) == 21


@pytest.mark.parametrize("zone", ["", "Z"], ids=["no zone", "a zone"])
def test_what_is_no_date_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    monkeypatch.setattr(csv_file, "CSV_BLOCK", 100)
    (tmp_path / "whole.csv").write_text(f"t\n2026-03-02 10:00:00{zone}\n")
    known = open_source(tmp_path / "whole.csv", wish=Hints()).encoding
    path = tmp_path / "x.csv"
    path.write_text("t\n" + f"2026-03-02 10:00:00{zone}\n" * 20 + "soon\n")
    told = (
        "column 't' holds 'soon' in data row 21, not a date; the model needs the column: put dates"
    )
    refused(path, told, columns=["t"], wish=known)


KEPT = ["NA", "None", "", "inf", "007", "x" * 5000]


def test_columns_of_csv_are_kept_letter_by_letter(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b\n" + "".join(f"1,{text}\n" for text in KEPT))
    assert list(texts(path, ["b", "b"])) == [{"b": KEPT}]
    assert list(texts(path, [])) == [{"a": ["1"] * len(KEPT), "b": KEPT}]


def test_columns_of_parquet_are_kept_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    write_parquet(
        path,
        truth=[True, None],
        number=[np.inf, None],
        whole=[2**53 + 1, None],
        when=[datetime(2026, 3, 2), None],
        list=[[1, 2], None],
        code=[b"\xff", None],
        kind=pa.array(["a", None]).dictionary_encode(),
    )
    (block,) = texts(path, [])
    assert {name: cells[0] for name, cells in block.items()} == {
        "truth": "true",
        "number": "inf",
        "whole": str(2**53 + 1),
        "when": "2026-03-02 00:00:00.000000",
        "list": "[1, 2]",
        "code": r"b'\xff'",
        "kind": "a",
    }
    assert {cells[1] for cells in block.values()} == {""}


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
    monkeypatch.setattr(csv_file, "CSV_BLOCK", 64)
    (tmp_path / "x.csv").write_text("a,b,c\n" + "1,2,true\n" * 500 + line + "\n1,2,true\n")
    refused(tmp_path / "x.csv", message)


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
