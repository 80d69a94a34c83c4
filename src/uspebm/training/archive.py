"""A checkpoint as a file, written and read row by row.

After the seal: in eight bytes, the length of torch's archive of all that is small; that archive;
and the rows of the negative phase's tensors, one tensor after the other, as they are in memory. Of
these tensors the archive has shape and dtype alone (on torch's device ``meta``).

So processes that train together need no more than their own rows: the main one writes those of all
in turn, a block at a time, and each reads its own. An archive alone, with all rows in it, is what
format 2 was; it is read as well.
"""

import copy
import io
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..support.files import whole_file
from ..support.group import LostProcessError, current_group
from .sealed import DamagedError, sealing, unseal

LENGTH = 8
BLOCK = 1 << 24
"""Bytes of rows, or one row if that is more, that are sent and written at once."""
ZIP = b"PK"
"""How torch's archives begin, and no length does: its first bytes are zeros."""


def write_archive(path: Path, content: dict[str, Any], rows: dict[str, Tensor]) -> None:
    """Write ``content``, and this process's ``rows`` with those of others as its ``negative``.

    Of processes that train together all have to call this, and the main one writes; where it
    cannot, all raise.
    """
    group, trouble = current_group(), None
    with_rows = {name: v for name, v in rows.items() if v.dim()}
    counts = {name: int(group.add(torch.tensor(len(v)))) for name, v in with_rows.items()}
    blocks = (block for v in with_rows.values() for block in group.in_turn(v, _at_once(v)))
    shapes = {
        name: v.new_empty(counts[name], *v.shape[1:], device="meta")
        for name, v in with_rows.items()
    }
    try:
        if group.main:
            _write(path, {**content, "negative": {**rows, **shapes}}, blocks)
    except Exception as error:
        trouble = error
    for _ in blocks:  # sent by the others; and taken even where it cannot be written: they wait
        pass
    if group.any(trouble is not None)[0]:
        raise trouble or LostProcessError(f"the main process of the group cannot write {path}")


def _write(path: Path, content: dict[str, Any], blocks: Iterator[Tensor]) -> None:
    archive = io.BytesIO()
    torch.save(_plain(content), archive)
    with whole_file(path) as file, sealing(file) as sealed:
        sealed.write(archive.tell().to_bytes(LENGTH))
        sealed.write(archive.getbuffer())
        for block in blocks:
            sealed.write(_memory(block))


def read_archive(path: Path) -> Any:
    """What was written; of the rows of ``negative`` those that are this process's."""
    with path.open("rb") as file:
        unseal(file)
        start, end = file.tell(), path.stat().st_size
        older = file.read(len(ZIP)) == ZIP
        file.seek(start)
        if older:
            content = torch.load(file, map_location="cpu", weights_only=True)
            start = end
        else:
            length = int.from_bytes(file.read(LENGTH))
            start += LENGTH + length
            if start > end:
                raise DamagedError("it says of a part that it is longer than the whole")
            archive = io.BytesIO(file.read(length))
            content = torch.load(archive, map_location="cpu", weights_only=True)
        if isinstance(content, dict) and isinstance(content.get("negative"), dict):
            content["negative"] = _own(content["negative"], file, start, end)
        return content


def _own(
    fields: dict[str, Tensor], file: io.BufferedReader, start: int, end: int
) -> dict[str, Tensor]:
    """With the rows that are this process's; between these places lie those of ``meta`` tensors."""
    group, own = current_group(), {}
    sizes = {name: _row_bytes(v) * len(v) for name, v in fields.items() if v.is_meta}
    if sum(sizes.values()) != end - start:  # before room is made for them
        raise DamagedError(
            f"its rows should take {sum(sizes.values())} bytes, and take {end - start}"
        )
    for name, v in fields.items():
        if not v.is_meta:
            own[name] = group.rows(v).clone() if v.dim() and group.size > 1 else v
            continue
        first, last = group.span(len(v))
        own[name] = torch.empty(last - first, *v.shape[1:], dtype=v.dtype)
        file.seek(start + first * _row_bytes(v))
        if file.readinto(_memory(own[name])) != own[name].nbytes:
            raise DamagedError("it became shorter while it was read")
        start += sizes[name]
    return own


def _row_bytes(x: Tensor) -> int:
    return math.prod(x.shape[1:]) * x.element_size()


def _at_once(x: Tensor) -> int:
    """Rows in a block."""
    return max(1, BLOCK // max(1, _row_bytes(x)))


def _memory(x: Tensor) -> memoryview:
    """The numbers of a tensor that lie one after another, themselves, as bytes."""
    return x.view(-1).view(torch.uint8).numpy().data


def _plain(value: Any) -> Any:
    """``value`` without numpy's numbers, which the weights-only reader would refuse; on the CPU."""
    if isinstance(value, Tensor):
        return value if value.is_meta else value.cpu()
    if isinstance(value, dict):
        plain = copy.copy(value)  # a module's knows more than its entries
        for k, v in value.items():  # not by update, which of a Counter adds
            plain[k] = _plain(v)
        return plain
    if isinstance(value, list | tuple):
        return type(value)(_plain(v) for v in value)
    if hasattr(value, "item"):
        return value.item()
    return value
