"""With how many threads torch computes."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def computing_threads(count: int) -> Iterator[None]:
    """So many; how many there were before is put back, for the thread that asks."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
