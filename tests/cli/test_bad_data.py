"""What is wrong with the data is one line, and nothing is lost."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from PIL import Image

from uspebm.cli import user_data

from .common import IMAGES, QUICK, ROWS, TABLE, run, write_csv, write_images


def with_value(row: int, column: int, value: float) -> NDArray[Any]:
    table = TABLE.copy()
    table[row, column] = value
    return table


def mixed_images(path: Path) -> None:
    write_images(path)
    Image.new("L", (9, 9)).save(path / "050.png")


def truncated_image(path: Path) -> None:
    write_images(path)
    whole = (path / "050.png").read_bytes()
    (path / "050.png").write_bytes(whole[: len(whole) // 2])


def text_column(path: Path) -> None:
    table = {"a": TABLE[:, 0], "kind of": ["x"] * ROWS}
    pq.write_table(pa.table(table), path)


BAD: dict[str, tuple[str, Callable[[Path], object], list[str]]] = {
    "empty": ("x.csv", lambda p: p.write_text(""), ["is empty"]),
    "letters of Windows": (
        "x.csv",
        lambda p: p.write_bytes(("a,b\n" + "1,rot\n3,grün\n" * 99).encode("cp1252")),
        ["is not in UTF-8: byte 15, in line 3", "'grün'", "iconv -f WINDOWS-1252 -t UTF-8"],
    ),
    "nan": ("x.npy", lambda p: np.save(p, with_value(6, 1, np.nan)), ["row 7 "]),
    "rows of gaps": (
        "x.csv",
        lambda p: p.write_text("a,b\n" + "1,2\n3,5\n,\n" * 200),
        ["200 of 600 rows have no value"],
    ),
    "columns of gaps": (
        "x.csv",
        lambda p: p.write_text("a,b\n" + "1,\n3,\n" * 200),
        ["column 'b' has no value at all", "--drop 'b'"],
    ),
    "infinity": ("x.npy", lambda p: np.save(p, with_value(6, 1, np.inf)), ["row 7 "]),
    "text": (
        "x.csv",
        lambda p: p.write_text("a\n" + "".join(f"remark {k}\n" for k in range(200))),
        ["no column that could be learned from", "'a': left out: 200 different texts"],
    ),
    "junk among numbers": (
        "x.csv",
        lambda p: p.write_text(
            "a,b\n" + "".join(f"{k},{k / 7:.3f}\n" for k in range(300)) + "1,-\n"
        ),
        ["column 'b' holds numbers, but '-' in row 301", "leave it empty", "--drop 'b'"],
    ),
    "decimal commas": (
        "x.csv",
        lambda p: p.write_text("a,b\n" + "".join(f'{k},"{k},5"\n' for k in range(300))),
        ["column 'b' looks like numbers, but '0,5' in row 1", "a decimal point", "--drop 'b'"],
    ),
    "tabs": (
        "x.csv",
        lambda path: path.write_text("a\tb\n" + "1\t2\n" * 20),
        ["looks separated by tabs: call it .tsv"],
    ),
    "semicolons": (
        "x.csv",
        lambda path: path.write_text("a;b\n" + "1,5;2\n" * 20),
        ["looks separated by semicolons: save it with commas"],
    ),
    "constant, no name": ("x.npy", lambda p: np.save(p, TABLE * [1, 1, 0]), ["column 3 is 0 in"]),
    "huge": (
        "x.csv",
        lambda p: write_csv(p, TABLE * [1, 1, 1e200]),
        ["column 'c' has values beyond 1e+150", "--drop 'c'"],
    ),
    "one row": ("x.csv", lambda p: write_csv(p, TABLE[:1]), ["1 row,", "needs at least 19"]),
    "one row of an array": ("x.npy", lambda p: np.save(p, TABLE[:1]), ["1 row,"]),
    "too few rows": (
        "x.csv",
        lambda p: write_csv(p, TABLE[:18]),
        ["x.csv: 18 rows, but a false-alarm rate of 0.05 needs at least 19"],
    ),
    "mixed sizes": ("images", mixed_images, ["mixes images", "000.png", "050.png is 9 × 9"]),
    "truncated image": ("images", truncated_image, ["050.png is no whole image"]),
    "missing": ("x.csv", lambda p: None, ["does not exist"]),
    "unknown ending": ("x.xlsx", lambda p: p.write_text("x"), ["is of no known kind"]),
}


@pytest.mark.parametrize("case", BAD, ids=list(BAD))
def test_data_that_cannot_be_learned_from(
    model: Path, tmp_path: Path, refused: Callable[..., None], case: str
) -> None:
    name, write, messages = BAD[case]
    data = tmp_path / name
    write(data)
    refused([str(data), *messages], "fit", data, "--out", tmp_path / "new", *QUICK)
    refused([str(data), *messages], "fit", data, "--out", model, *QUICK)  # which stays


@pytest.mark.parametrize("case", ["empty", "nan", "infinity", "missing", "unknown ending"])
def test_data_that_cannot_be_scored(
    models: Path, tmp_path: Path, refused: Callable[..., None], case: str
) -> None:
    name, write, messages = BAD[case]
    data, out = tmp_path / name, tmp_path / "scores.csv"
    write(data)
    out.write_text("older scores")
    refused([str(data), *messages], "score", models / "named", data, "--out", out)
    good = models / "x.csv"
    refused(messages, "evaluate", models / "named", "--id", data, "--ood", f"far={good}")
    refused(messages, "evaluate", models / "named", "--id", good, "--ood", f"far={data}")


def test_a_late_mistake_leaves_the_older_scores(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Callable[..., None]
) -> None:
    monkeypatch.setattr(user_data, "ROWS_AT_A_TIME", 10)
    np.save(tmp_path / "x.npy", with_value(100, 1, np.nan))
    for ending in ("csv", "parquet", "npz", "jsonl"):
        out = tmp_path / f"scores.{ending}"
        out.write_text("older scores")
        refused("row 101 ", "score", models / "nameless", tmp_path / "x.npy", "--out", out)


SHAPES: dict[str, tuple[str, Callable[[Path], object], str, list[str]]] = {
    "fewer columns": (
        "x.npy",
        lambda p: np.save(p, TABLE[:, :2]),
        "named",
        ["has points of 2 columns, but the model is of points of 3 columns"],
    ),
    "a missing column": (
        "x.csv",
        lambda p: write_csv(p, TABLE, "a,B,d"),
        "named",
        ["has no column 'b', 'c'; it has 'a', 'B', 'd'"],
    ),
    "more columns": (
        "x.csv",
        lambda p: write_csv(p, np.hstack([TABLE, TABLE]), "a,b,c,d,e,f"),
        "nameless",
        ["points of 6 columns", "3 columns"],
    ),
    "text in the model's column": (
        "x.csv",
        lambda p: p.write_text("a,b,c\n1,x,2\n"),
        "named",
        ["column 'b' holds 'x'"],
    ),
    "larger images": (
        "images",
        lambda p: write_images(p, np.zeros((3, 8, 9), np.uint8)),
        "pixels",
        ["points of 8 × 9 pixels, but the model is of points of 4 × 5 pixels"],
    ),
    "colour": (
        "images",
        lambda p: write_images(p, np.zeros((3, 4, 5, 3), np.uint8)),
        "pixels",
        ["4 × 5 pixels of 3 channels", "4 × 5 pixels"],
    ),
    "unscaled floats for bytes": (
        "x.npy",
        lambda p: np.save(p, IMAGES + 0.5),
        "pixels",
        [": the model was fitted to bytes, but X has float64 values from 0.5 to 255.5"],
    ),
    "images for a table": (
        "x.npy",
        lambda p: np.save(p, IMAGES),
        "named",
        ["4 × 5 pixels", "3 columns"],
    ),
    "a table for images": ("x.csv", write_csv, "pixels", ["is a table", "4 × 5 pixels"]),
    "text for images": (
        "x.csv",
        lambda p: p.write_text("a,b\n1,x\n"),
        "pixels",
        ["is a table, but the model is of points of 4 × 5 pixels"],
    ),
    "five axes": ("x.npy", lambda p: np.save(p, np.zeros((2, 3, 4, 5, 6))), "pixels", ["shape"]),
}


@pytest.mark.parametrize("case", SHAPES, ids=list(SHAPES))
def test_data_that_are_not_the_model_s(
    models: Path, tmp_path: Path, refused: Callable[..., None], case: str
) -> None:
    name, write, kind, messages = SHAPES[case]
    data = tmp_path / name
    write(data)
    refused([str(data), *messages], "score", models / kind, data, "--out", tmp_path / "s.csv")


@pytest.mark.parametrize("step", [1, -1])
def test_a_column_that_numbers_the_rows_is_pointed_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], step: int
) -> None:
    rows = np.arange(len(TABLE))[::step, None]
    data = write_csv(tmp_path / "x.csv", np.hstack([TABLE[:, :2], rows]), "a,b,row")
    assert run("fit", data, "--out", tmp_path / "m", *QUICK) == 0
    err = capsys.readouterr().err
    card = (tmp_path / "m" / "README.md").read_text()
    assert "Column 'row': left out: it counts the rows." in card
    assert run("fit", data, "--out", tmp_path / "o", *QUICK, "--numeric", "row") == 0
    err = capsys.readouterr().err
    assert "column 'row' rises or falls" in err
    assert "--drop 'row'" in err
    assert "column 'a'" not in err
    assert run("fit", data, "--out", tmp_path / "n", *QUICK, "--drop", "row") == 0
    assert "rises" not in capsys.readouterr().err
