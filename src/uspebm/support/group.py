"""Processes that train one model together, by ``torch.distributed``; alone, a group of one.

Every process runs the same program. Rows (particles, slots of a buffer, data of a batch) are shared
out, numbers of all rows are put together again, and whatever decides how the program goes on is the
same in all processes. In a group of one nothing is sent, and all of this is the identity.

Two kinds of draws. A generator that all processes are handed draws the same in each: which points
are active, say. What each draws for its own rows comes from ``own(generator)``, which depends on
the rank; rank 0's is the one that a single process has.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.rendezvous import rendezvous

from ..types import NonFiniteError
from .randomness import generator as named_generator


class LostProcessError(OSError):
    """Another process of the group has ended, or cannot be reached."""


@dataclass(frozen=True)
class Group:
    """This process's place among ``size`` of them.

    >>> [Group(rank, 3).span(8) for rank in range(3)]
    [(0, 3), (3, 6), (6, 8)]
    """

    rank: int = 0
    size: int = 1

    @property
    def main(self) -> bool:
        """Whether this is the process that writes and speaks."""
        return self.rank == 0

    def span(self, count: int) -> tuple[int, int]:
        """First and last of ``count`` rows that are this process's, the last one excluded."""
        each, over = divmod(count, self.size)
        first = self.rank * each + min(self.rank, over)
        return first, first + each + (self.rank < over)

    def share(self, count: int) -> int:
        """How many of ``count`` rows are this process's."""
        first, last = self.span(count)
        return last - first

    def rows(self, x: Tensor) -> Tensor:
        """Those of the rows of ``x`` that are this process's."""
        first, last = self.span(len(x))
        return x[first:last]

    def mine(self, rows: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Which of these numbers of ``count`` rows are this process's, and where they lie in it."""
        first, last = self.span(count)
        found = (rows >= first) & (rows < last)
        return found, rows[found] - first

    def own(self, generator: torch.Generator) -> torch.Generator:
        """A generator for this process alone, in the place of one that all are handed."""
        if self.main:
            return generator
        return named_generator(generator.initial_seed(), "rank", self.rank, device=generator.device)

    def add(self, x: Tensor) -> Tensor:
        """``x`` itself, which becomes the sum over all processes."""
        if self.size > 1:
            _sent(lambda: dist.all_reduce(x, dist.ReduceOp.SUM))
        return x

    def dealt(self, x: Tensor) -> Tensor:
        """This process's rows of ``x``, as each process has them: ``(size, n, ...)``."""
        if self.size == 1:
            return x.unsqueeze(0)
        counts = [len(part) for part in x.tensor_split(self.size)]
        own = [counts[self.rank]] * self.size
        found = x.new_empty(sum(own), *x.shape[1:])
        _sent(lambda: dist.all_to_all_single(found, x.contiguous(), own, counts))
        return found.view(self.size, own[0], *x.shape[1:])

    def least(self, x: Tensor) -> Tensor:
        """``x`` itself, which becomes the least over all processes."""
        if self.size > 1:
            _sent(lambda: dist.all_reduce(x, dist.ReduceOp.MIN))
        return x

    def any(self, *here: bool) -> list[bool]:
        """Whether each of these holds in some process."""
        if self.size == 1:
            return list(here)
        return [bool(v) for v in self.least(1 - torch.tensor(here, dtype=torch.int32)) == 0]

    def told(self, value: int) -> int:
        """What the main process has for ``value``."""
        return int(self.add(torch.tensor(value if self.main else 0)))

    def agree(self, value: int, what: str) -> None:
        """An error where ``value`` is not the same in all processes."""
        lowest, highest = self.least(torch.tensor([value, -value])).tolist()
        if lowest != -highest:
            raise ValueError(
                f"processes disagree on {what}: {lowest} to {-highest}; they need the same "
                "program, and a folder that all of them see"
            )

    def gathered(self, x: Tensor, counts: list[int] | None = None) -> Tensor:
        """The rows of all processes, in the order of ranks, without a graph.

        ``counts``: how many there are in each, where that is known; otherwise it is asked for.
        """
        if self.size == 1:
            return x.detach()
        counts = [n for (n,) in self._counts(len(x))] if counts is None else counts
        padded = _padded(x, max(counts))
        found = x.new_empty(self.size * len(padded), *x.shape[1:])
        _sent(lambda: _gather(found, padded))
        if min(counts) == max(counts):
            return found
        parts = found.split(len(padded))
        return torch.cat([part[:n] for part, n in zip(parts, counts, strict=True)])

    def in_turn(self, x: Tensor, rows: int) -> Iterator[Tensor]:
        """The rows of all processes in the order of ranks, so many at once, in the main process.

        The others send theirs, and get none: nobody ever has all of them.
        """
        counts = [n for (n,) in self._counts(len(x))] if self.size > 1 else [len(x)]
        for rank, count in enumerate(counts):
            for first in range(0, count, rows):
                if rank == self.rank:
                    block = x[first : first + rows].detach().cpu().contiguous()
                elif self.main:
                    shape = (min(rows, count - first), *x.shape[1:])
                    block = torch.empty(shape, dtype=x.dtype)
                    _sent(partial(dist.recv, block, rank))
                else:
                    continue
                if self.main:
                    yield block
                else:
                    _sent(partial(dist.send, block, 0))

    def joined(self, *own: Tensor) -> list[Tensor]:
        """Of each of these, the numbers ``(n,)`` of all processes; this one's have their graph.

        A function of them has the same value in all processes, and its gradients, added over the
        processes, are those of one process that has all rows.
        """
        if self.size == 1:
            return list(own)
        counts = self._counts(*map(len, own))
        found = self.gathered(torch.cat(own), [sum(each) for each in counts])
        parts = list(found.split([n for each in counts for n in each]))
        parts[self.rank * len(own) : (self.rank + 1) * len(own)] = own
        return [torch.cat(parts[k :: len(own)]) for k in range(len(own))]

    def spread(
        self, work: Callable[[Tensor], tuple[Tensor, Tensor]], x: Tensor
    ) -> tuple[Tensor, Tensor]:
        """``work(x)``, which goes row by row, each process doing its share.

        It makes a new row of each, and a number. Where a process comes upon numbers that are none,
        all raise.
        """
        if self.size == 1:
            return work(x)
        own = self.rows(x)
        try:
            rows, numbers = work(own) if len(own) else (own, x.new_empty(0))
        except NonFiniteError:
            rows, numbers = own, x.new_full((len(own),), torch.nan)
        sent = torch.cat([rows.flatten(1), numbers.unsqueeze(1)], 1)
        counts = [Group(rank, self.size).share(len(x)) for rank in range(self.size)]
        found = self.gathered(sent, counts)
        if not torch.isfinite(found[:, -1]).all():
            raise NonFiniteError("energies or their gradients are not finite in some process")
        return found[:, :-1].reshape(x.shape), found[:, -1].contiguous()

    def add_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Make every gradient the sum over all processes."""
        if self.size == 1:
            return
        found = [p.grad for p in parameters if p.grad is not None]
        total = self.add(torch.cat([g.flatten() for g in found]))
        for gradient, part in zip(found, total.split([g.numel() for g in found]), strict=True):
            gradient.copy_(part.view_as(gradient))

    def _counts(self, *own: int) -> list[list[int]]:
        """How many of each there are, in each process."""
        found: list[list[int]] = self.gathered(torch.tensor([own]), [1] * self.size).tolist()
        return found


ALONE = Group()
_current = ALONE


def current_group() -> Group:
    """The processes that this one trains with."""
    return _current


def started_together() -> int:
    """How many processes ``torchrun`` started; one without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def speaks() -> bool:
    """Whether this process tells what is wrong: one on each machine does, also when alone there."""
    return os.environ.get("LOCAL_RANK", "0") == "0"


@contextmanager
def together() -> Iterator[Group]:
    """In this block, train with the processes that ``torchrun`` started; alone without it.

    A GPU, where there is one, is the one of this process's number on its machine.
    """
    global _current
    if started_together() == 1:
        yield ALONE
        return
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    # Counts and decisions are sent between CPUs, whatever the points are on.
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    _sent(lambda: _meet(backend))
    _current = Group(dist.get_rank(), dist.get_world_size())
    try:
        yield _current
    finally:
        _current = ALONE
        dist.destroy_process_group()


def _meet(backend: str) -> None:
    """Find the other processes, through the store that torchrun keeps."""
    store, rank, size = next(rendezvous("env://"))
    # It keeps it over restarts: addresses of processes that are gone must not be taken for ours.
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    store = dist.PrefixStore(f"attempt {attempt}", store)  # type: ignore[attr-defined]
    dist.init_process_group(backend, store=store, rank=rank, world_size=size)


def _gather(found: Tensor, own: Tensor) -> None:
    # Under its new name, where torch has that: the old one warns.
    new = hasattr(dist, "all_gather_single")
    getattr(dist, "all_gather_single" if new else "all_gather_into_tensor")(found, own)


def _padded(x: Tensor, rows: int) -> Tensor:
    """``x`` with zeros after it: processes send as many rows each."""
    if len(x) == rows:
        return x.detach().contiguous()
    padded = x.new_zeros(rows, *x.shape[1:])
    padded[: len(x)] = x.detach()
    return padded


def _sent(send: Callable[[], object]) -> None:
    try:
        send()
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise LostProcessError(
            f"a process of the group has ended, or cannot be reached ({reason}); the last "
            "checkpoint is what to go on from"
        ) from error
