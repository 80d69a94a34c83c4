"""``uspebm score --shard``: the shards together are the whole, bit for bit."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from tests.detector.common import X
from tests.detector.common import small as network
from uspebm import save_model
from uspebm.data import readers
from uspebm.data.readers import Shard, open_source

from .common import FILES, TABLE, run

MANY = 9001
"""More than are read at a time, and not divided by anything."""
LARGE = pd.DataFrame(
    np.tile(TABLE, (76, 1))[:MANY] * (1 + np.arange(MANY)[:, None] / 1e5), columns=list("abc")
)
LARGE["row"] = [f"r{k}" for k in range(MANY)]


@pytest.fixture
def large(tmp_path: Path) -> Path:
    LARGE.to_csv(tmp_path / "large.csv", index=False)
    LARGE.to_parquet(tmp_path / "large.parquet", row_group_size=1000)
    np.save(tmp_path / "large.npy", LARGE[["a", "b", "c"]].to_numpy())
    return tmp_path


def table(path: Path) -> pd.DataFrame:
    return pq.read_table(path).to_pandas()


@pytest.mark.parametrize("name", ["large.csv", "large.parquet", "large.npy"])
@pytest.mark.parametrize("shards", [1, 3])
def test_shards_together_are_the_whole(models: Path, large: Path, name: str, shards: int) -> None:
    named = name != "large.npy"
    model, keep = models / ("named" if named else "nameless"), ["--keep", "row"] if named else []
    whole = large / "whole.parquet"
    assert run("score", model, large / name, "--out", whole, *keep) == 0
    parts = []
    for k in range(1, shards + 1):
        out = large / f"{k}.parquet"
        flags = ("--shard", f"{k}/{shards}", "--out", out)
        assert run("score", model, large / name, *flags, *keep) == 0
        parts.append(table(out))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    joined = pd.concat(parts, ignore_index=True)
    pd.testing.assert_frame_equal(joined, table(whole), check_exact=True)
    if named:
        assert joined["row"].tolist() == LARGE["row"].tolist()


def test_of_a_network_too(tmp_path: Path) -> None:
    """Its scores depend on how many rows are scored together, but for what is done about it."""
    save_model(network().fit(X), tmp_path / "m")
    np.save(tmp_path / "x.npy", np.tile(X, (4, 1)) * (1 + np.arange(4 * len(X))[:, None] / 1e4))
    out = [tmp_path / f"{k}.parquet" for k in range(8)]
    command = ("score", tmp_path / "m", tmp_path / "x.npy", "--out")
    assert run(*command, out[0]) == 0
    for k in range(1, 8):
        assert run(*command, out[k], "--shard", f"{k}/7") == 0
    joined = pd.concat([table(path) for path in out[1:]], ignore_index=True)
    pd.testing.assert_frame_equal(joined, table(out[0]), check_exact=True)


@pytest.mark.parametrize("shards", [1, 2, 7, 120])
@pytest.mark.parametrize("name", ["x.csv", "x.parquet", "x.npy"])
def test_every_row_is_in_one_shard(tmp_path: Path, name: str, shards: int) -> None:
    FILES[name](tmp_path / name)
    whole = open_source(tmp_path / name)
    parts = [Shard(whole, k + 1, shards) for k in range(shards)]
    rows = [np.concatenate(list(part.chunks(11))) for part in parts]
    assert [len(r) for r in rows] == [part.rows for part in parts]
    np.testing.assert_array_equal(np.concatenate(rows), TABLE)


def test_reading_ends_with_the_shard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "x.npy", TABLE)
    read = []
    whole = open_source(tmp_path / "x.npy")
    blocks = type(whole)._blocks

    def watched(self: readers.Source, size: int):  # type: ignore[no-untyped-def]
        for block in blocks(self, size):
            read.append(len(block))
            yield block

    monkeypatch.setattr(type(whole), "_blocks", watched)
    list(Shard(whole, 1, 4).chunks(10))
    assert sum(read) < len(TABLE) / 2


def test_json_names_the_shard(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "s.csv"
    capsys.readouterr()
    command = ("score", models / "named", models / "x.csv", "--out", out, "--shard", "2/4")
    assert run(*command, "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["shard"], answer["rows"]) == ([2, 4], 30)


@pytest.mark.parametrize("shard", ["0/3", "4/3", "1", "1/", "a/b", "1/0", "-1/2", "1/2/3"])
def test_what_is_no_shard_is_refused(
    models: Path, refused: Callable[..., None], shard: str
) -> None:
    out = ("--out", models / "never.csv", f"--shard={shard}")
    refused(["--shard", "such as 1/8"], "score", models / "named", models / "x.csv", *out)


def test_what_has_no_shards_is_refused(
    models: Path, tmp_path: Path, refused: Callable[..., None]
) -> None:
    flags = ("--out", tmp_path / "s.csv", "--shard", "1/2")
    refused("is for tables", "score", models / "pixels", models / "x-idx3-ubyte", *flags)
    table = ("score", models / "named", models / "x.csv")
    refused("decides over all rows together", *table, *flags, "--false-discovery-rate", "0.1")
    flags = ("--out", tmp_path / "s.csv", "--shard", "1/121")
    refused("has 120 rows, too few for 121 shards", *table, *flags)
