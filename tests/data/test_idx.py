"""IDX files, whole and broken."""

import gzip
from pathlib import Path

import pytest
import torch
from torch import Tensor

from uspebm.data.idx import parse_idx
from uspebm.data.unpacking import unzipped

CONTENT = bytes([0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3]) + bytes(range(6))


def read_idx(path: Path) -> Tensor:
    return parse_idx(unzipped(path.read_bytes(), path), path)


@pytest.mark.parametrize("zipped", [False, True])
def test_values_come_in_their_shape(zipped: bool, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(gzip.compress(CONTENT) if zipped else CONTENT)
    assert torch.equal(read_idx(path), torch.arange(6, dtype=torch.uint8).view(2, 3))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not an IDX file: it begins with nothing"),
        (b"\x89PNG....", "is not an IDX file: it begins with 89504e47"),
        (bytes([0, 0, 13, 1, 0, 0, 0, 0]), "holds IDX type 0x0d"),
        (CONTENT[:-1], "2 × 3 values in 18 bytes, but has 17"),
        (CONTENT + b"x", "but has 19"),
        (CONTENT[:7], "truncated or damaged"),
        (gzip.compress(CONTENT)[:-9], "is not a whole gzip file"),
        (gzip.compress(CONTENT)[:-5] + b"wrong", "is not a whole gzip file"),
    ],
    ids=[
        "empty",
        "a picture",
        "floats",
        "a byte short",
        "a byte long",
        "header cut",
        "gzip cut",
        "gzip checksum",
    ],
)
def test_broken_files_are_said_in_one_line(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as error:
        read_idx(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)
