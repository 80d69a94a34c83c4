"""Values of categories that the data did not have are told by name, whatever the name is."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from uspebm import load
from uspebm.cli import column_texts
from uspebm.cli.unseen import Unseen, said_unseen
from uspebm.data.readers import Shard, open_source, texts

from .common import run

DRAWS = np.random.default_rng(0)
SAID = "a value never seen"
ODD = {3: "mauve", 4: 'a "b", c', 170: "\x1b[2J\r\nx", 171: "é\u202e", 190: "long " * 40}
"""By row; those of known values lie between."""


def table(n: int) -> pd.DataFrame:
    size = DRAWS.normal(size=n)
    colour = np.where(size > 0, "red", "blue").astype(object)
    return pd.DataFrame({"size": size, "colour": colour, "of": DRAWS.choice(["x", SAID], n)})


def strange() -> pd.DataFrame:
    found = table(200)
    for row, text in ODD.items():
        found.loc[row, "colour"] = text
    return found


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unseen")
    table(400).to_csv(folder / "old.csv", index=False)
    strange().to_csv(folder / "new.csv", index=False, lineterminator="\n")
    strange().to_parquet(folder / "new.parquet")
    assert run("fit", folder / "old.csv", "--out", folder / "m") == 0
    return folder


def values(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    if path.suffix == ".parquet":
        read = pd.read_parquet(path)
    else:
        read = pd.read_csv(path, dtype=str, keep_default_na=False)
    found: list[dict[str, Any]] = read.to_dict("records")
    return found


def of_colour(record: dict[str, Any]) -> str | None:
    named = [record[f"value_{k}"] for k in (1, 2, 3) if record[f"why_{k}"] == "colour"]
    return named[0] if named else None


@pytest.mark.parametrize("data", ["new.csv", "new.parquet"])
@pytest.mark.parametrize("out", ["s.csv", "s.jsonl", "s.parquet"])
@pytest.mark.parametrize("flags", [(), ("--false-discovery-rate", "0.5")], ids=["rate", "together"])
def test_each_is_told_in_its_row(
    place: Path, tmp_path: Path, data: str, out: str, flags: tuple[str, ...]
) -> None:
    command = ("score", place / "m", place / data, "--out", tmp_path / out, "--why", "3", *flags)
    assert run(*command) == 0
    found = values(tmp_path / out)
    assert len(found) == 200
    told = {k: text for k, one in enumerate(found) if (text := of_colour(one)) is not None}
    unseen_ = {k: text for k, text in told.items() if text.endswith(SAID)}
    assert unseen_ == {k: said_unseen(text) for k, text in ODD.items()}
    assert {text for k, text in told.items() if k not in ODD} <= {"red", "blue"}
    of = [one[f"value_{k}"] for one in found for k in (1, 2, 3) if one[f"why_{k}"] == "of"]
    assert set(of) <= {"x", SAID}  # a value that is called so was seen


def test_shards_have_their_own_rows(place: Path, tmp_path: Path) -> None:
    whole = tmp_path / "s.csv"
    command = ("score", place / "m", place / "new.csv", "--why", "3", "--out")
    assert run(*command, whole) == 0
    parts = []
    for k in (1, 2, 3):
        assert run(*command, tmp_path / f"{k}.csv", "--shard", f"{k}/3") == 0
        parts += values(tmp_path / f"{k}.csv")
    assert parts == values(whole)


def test_what_is_said_can_be_printed_and_is_short() -> None:
    assert said_unseen("mauve") == "'mauve', a value never seen"
    for text in ODD.values():
        assert said_unseen(text).isprintable()
        assert len(said_unseen(text)) < 130


def test_the_file_is_read_again_only_as_far_as_needed(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And rows in between, which are passed over, in pieces."""
    monkeypatch.setattr(column_texts, "READ_ROWS", 7)
    opened: list[Path] = []

    def noted(path: Path, columns: list[str]) -> Any:
        opened.append(path)
        return texts(path, columns)

    monkeypatch.setattr(column_texts, "texts", noted)
    detector, path = load(place / "m"), place / "new.csv"
    source = open_source(path, ("size", "colour", "of"), wish=detector.encoding_)
    for part, usual in ((source, 0), (Shard(source, 2, 2), 100)):
        rows, told = part.read(), Unseen(detector, path, part)
        opened.clear()
        for begin in range(0, len(rows), 10):
            chunk, first = rows[begin : begin + 10], usual + begin
            found = told(chunk, np.arange(len(chunk))[::-1])
            wanted = {k for k in ODD if first <= k < first + 10}
            assert {(first + len(chunk) - 1 - k) for k, _ in found} == wanted
            assert {said_unseen(ODD[k]) for k in wanted} == set(found.values())
            assert bool(opened) == any(usual <= k < first + 10 for k in ODD)
        assert opened == [path]


def test_numbers_without_words_have_none(place: Path, tmp_path: Path) -> None:
    detector = load(place / "m")
    source = open_source(place / "new.csv", ("size", "colour", "of"), wish=detector.encoding_)
    rows = source.read()
    np.save(tmp_path / "x.npy", rows)
    assert Unseen(detector, tmp_path / "x.npy", source)(rows, np.arange(200)) == {}
