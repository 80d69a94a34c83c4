"""Checkpoints are written and read a block at a time, and each process reads its own rows."""

import io
from collections import Counter, OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.training.processes import in_processes
from tests.training.test_checkpoint import close
from uspebm.support.group import Group, current_group
from uspebm.training import archive
from uspebm.training.archive import read_archive, write_archive
from uspebm.training.sealed import DamagedError, SealedWriter, sealing

WHOLE = {
    "points": torch.arange(42.0).view(7, 2, 3),
    "ages": torch.arange(7),
    "still": torch.tensor([True, False] * 3 + [True]),
    "short": torch.arange(7).bfloat16(),
    "none": torch.zeros(0, 4),
    "spacing": torch.tensor(0.25, dtype=torch.float64),
}
CONTENT = {"format": 3, "step": 5, "module": {"weight": torch.ones(3)}}


def own(fields: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: current_group().rows(v) if v.dim() else v for name, v in fields.items()}


def same(found: dict[str, Tensor], expected: dict[str, Tensor]) -> bool:
    kinds = [(k, v.dtype, v.shape) for k, v in found.items()]
    if kinds != [(k, v.dtype, v.shape) for k, v in expected.items()]:
        return False
    return all(torch.equal(v, expected[k]) for k, v in found.items())


def written_and_read(path: Path, block: int) -> tuple[bool, dict[str, int]]:
    """Whether each has its rows again, and how much memory these hold on to."""
    archive.BLOCK = block
    write_archive(path, CONTENT, own(WHOLE))
    current_group().any(True)  # the others have not written, and must not look too early
    found = read_archive(path)
    held = {k: v.untyped_storage().nbytes() for k, v in found["negative"].items()}
    return same(found["negative"], own(WHOLE)) and found["step"] == 5, held


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("block", [1, 50, 1 << 24])
def test_every_process_gets_its_rows_and_holds_no_others(
    size: int, block: int, tmp_path: Path
) -> None:
    for rank, (same_again, held) in enumerate(
        in_processes(size, written_and_read, tmp_path / "x.ckpt", block)
    ):
        assert same_again
        assert held["points"] == Group(rank, size).share(7) * 24
    assert same(read_archive(tmp_path / "x.ckpt")["negative"], WHOLE)


def test_the_file_does_not_depend_on_who_wrote_it(tmp_path: Path) -> None:
    write_archive(tmp_path / "alone.ckpt", CONTENT, WHOLE)
    in_processes(2, written_and_read, tmp_path / "two.ckpt", 50)
    assert (tmp_path / "alone.ckpt").read_bytes() == (tmp_path / "two.ckpt").read_bytes()


def refused(path: Path) -> str:
    try:
        write_archive(path, CONTENT, {"points": torch.rand(1 << 20)})
    except OSError as error:
        return str(error)
    return ""


def test_what_cannot_be_written_ends_those_who_send_as_well(tmp_path: Path) -> None:
    main, other = in_processes(2, refused, tmp_path)
    assert "it is a folder; name a file" in main
    assert other == f"the main process of the group cannot write {tmp_path}"


def test_dictionaries_that_do_more_than_hold_are_what_they_were(tmp_path: Path) -> None:
    """A Counter is what ``MultiStepLR`` keeps its milestones in."""
    named = OrderedDict(weight=torch.ones(2))
    content = {**CONTENT, "milestones": Counter([30, 30, 80]), "named": named}
    write_archive(tmp_path / "x.ckpt", content, {})
    found = read_archive(tmp_path / "x.ckpt")
    assert found["milestones"] == Counter({30: 2, 80: 1})
    assert type(found["named"]) is OrderedDict


def test_of_rows_no_more_than_a_block_is_written_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    write = SealedWriter.write

    def noted(self: SealedWriter, content: bytes | memoryview) -> int:
        sizes.append(write(self, content))
        return sizes[-1]

    monkeypatch.setattr(SealedWriter, "write", noted)
    monkeypatch.setattr(archive, "BLOCK", 50)
    write_archive(tmp_path / "x.ckpt", CONTENT, {"points": WHOLE["points"]})
    assert sizes[2:] == [48, 48, 48, 24]
    assert sizes[0] == archive.LENGTH


def test_rows_that_lie_otherwise_in_memory(tmp_path: Path) -> None:
    images = torch.rand(5, 3, 4, 4).to(memory_format=torch.channels_last)
    weights = torch.rand(2, 5).T
    write_archive(tmp_path / "x.ckpt", CONTENT, {"images": images, "weights": weights})
    found = read_archive(tmp_path / "x.ckpt")["negative"]
    assert same(found, {"images": images, "weights": weights})


def read_older(path: Path) -> bool:
    return same(read_archive(path)["negative"], own(WHOLE))


@pytest.mark.parametrize("size", [1, 2])
def test_format_2_is_read(size: int, tmp_path: Path) -> None:
    close({**CONTENT, "format": 2, "negative": WHOLE}, tmp_path / "x.ckpt")
    assert all(in_processes(size, read_older, tmp_path / "x.ckpt"))


@pytest.mark.parametrize("rows", [0, 23, 25])
def test_rows_that_are_not_as_many_as_it_says_are_refused_before_there_is_room_for_them(
    rows: int, tmp_path: Path
) -> None:
    said: dict[str, Any] = {**CONTENT, "negative": {"x": torch.empty(6, device="meta")}}
    if not rows:
        said["negative"] = {"x": torch.empty(10**15, device="meta")}
    inner = io.BytesIO()
    torch.save(said, inner)
    with (tmp_path / "x.ckpt").open("wb") as file, sealing(file) as sealed:
        sealed.write(inner.tell().to_bytes(archive.LENGTH))
        sealed.write(inner.getvalue())
        sealed.write(bytes(rows))
    with pytest.raises(DamagedError, match=f"bytes, and take {rows}"):
        read_archive(tmp_path / "x.ckpt")


def test_a_part_that_is_longer_than_the_whole_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "x.ckpt").open("wb") as file, sealing(file) as sealed:
        sealed.write((1 << 50).to_bytes(archive.LENGTH) + bytes(100))
    with pytest.raises(DamagedError, match="longer than the whole"):
        read_archive(tmp_path / "x.ckpt")


def test_a_file_that_becomes_shorter_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.ckpt"
    write_archive(path, CONTENT, {"points": torch.rand(1 << 16)})  # more than is read ahead
    memory = archive._memory

    def cut(x: Tensor) -> memoryview:
        with path.open("r+b") as file:
            file.truncate(path.stat().st_size - 40)
        return memory(x)

    monkeypatch.setattr(archive, "_memory", cut)
    with pytest.raises(DamagedError, match="became shorter"):
        read_archive(path)
