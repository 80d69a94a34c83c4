"""Every random draw comes from a generator named by what it is for.

Generators are seeded by (seed, purpose, step, ...) and never carried along. So a checkpoint
needs no generator state, resuming is exact, and the order of draws for one purpose cannot
disturb another.
"""

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_GLOBAL = threading.RLock()


def generator(
    seed: int, *purpose: str | int, device: torch.device | str = "cpu"
) -> torch.Generator:
    """A fresh generator for one purpose.

    >>> a = torch.randn(2, generator=generator(0, "noise", 7))
    >>> b = torch.randn(2, generator=generator(0, "noise", 7))
    >>> c = torch.randn(2, generator=generator(0, "noise", 8))
    >>> bool((a == b).all()), bool((a == c).all())
    (True, False)
    """
    name = "/".join(str(part) for part in (seed, *purpose))
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    # 63 bits: torch takes a signed 64-bit seed.
    return torch.Generator(device).manual_seed(int.from_bytes(digest, "big") >> 1)


@contextmanager
def global_seed(seed: int) -> Iterator[None]:
    """Torch's global generator at ``seed`` for a while, and then as it was before.

    Layers draw their weights from it, and dropout its masks; nothing else of ours does. There is
    one for all threads, so they take turns.
    """
    with _GLOBAL, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
