"""What processes share out: every row is made once, shares are even, and trouble is everyone's."""

import os
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.phases import BOX
from tests.training.processes import in_processes
from uspebm import (
    MLP,
    USP,
    CrowdedUSP,
    Langevin,
    NonFiniteError,
    PersistentUSP,
    TrainState,
    fit,
)
from uspebm.negative.partition import Partition
from uspebm.neighbours import search
from uspebm.neighbours.crowd import Crowd
from uspebm.support.group import Group, Task, current_group
from uspebm.support.randomness import generator

SIZES = [1, 2, 4] if os.environ.get("USPEBM_SOAK") else [1, 2]
CROWDED: dict[str, Any] = {"domain": BOX, "particles": 61, "spacing": 0.4}
PS_USP = PersistentUSP(**CROWDED, active=21, nodes=40, rounds=6)
SHARED: dict[str, Any] = {
    "ps-usp": PS_USP,
    "alternating": PersistentUSP(**CROWDED, active=21, nodes=40, rounds=3, ascent_steps=2),
    "usp": USP(**CROWDED, rounds=3),
}
"""In the second, a round has two ascents of every point."""


def points(n: int, name: str) -> Tensor:
    return BOX.sample(n, generator(0, name), torch.float64)


def made(phase: Any) -> tuple[list[int], list[int], float]:
    """How many points were repelled, and how many ascended, call by call; and who violates."""
    repelled, ascended = [], []
    repel, ascend = Partition.repel, Partition.ascend

    def noting_repel(self: Partition, u: Tensor, crowd: Crowd) -> Tensor:
        repelled.append(len(u))
        return repel(self, u, crowd)

    def noting_ascend(self: Partition, energy: Any, u: Tensor, shrink: float = 1.0) -> Tensor:
        ascended.append(len(u))
        return ascend(self, energy, u, shrink)

    Partition.repel = noting_repel  # type: ignore[method-assign]
    Partition.ascend = noting_ascend  # type: ignore[method-assign]
    try:
        state = phase.start_at(points(61, "start"))
        _, _, info = phase.step(lambda x: x.square().sum(1), state, generator(0, "moves"))
    finally:
        Partition.repel, Partition.ascend = repel, ascend  # type: ignore[method-assign]
    return repelled, ascended, info.violating


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", SHARED)
def test_each_process_moves_its_share_of_either_kind(name: str, size: int) -> None:
    """Of the points repelled in a round as of those that ascend: no process does for all."""
    alone, found = made(SHARED[name]), in_processes(size, made, SHARED[name])
    assert min(alone[0]) >= SIZES[-1]  # else shares might be empty, and not be counted
    assert len({violating for _, _, violating in found}) == 1
    for whole, *shares in (
        (alone[0], *(repelled for repelled, _, _ in found)),
        (alone[1], *(ascended for _, ascended, _ in found)),
    ):
        for together, *each in zip(whole, *shares, strict=True):
            assert sum(each) == together
            assert max(each) - min(each) <= 1


ROWS = torch.tensor([5, 0, 3, 1])


def spread() -> tuple[Tensor, list[int]]:
    """Some rows, and of another kind none; and those that were asked for here."""
    asked: list[int] = []

    def tripled(rows: Tensor) -> Tensor:
        asked.extend(rows.tolist())
        return 3 * x[rows]

    x = points(7, "x")
    return current_group().spread(x, Task(ROWS, tripled), Task(ROWS[:0], tripled)), asked


@pytest.mark.parametrize("size", SIZES)
def test_rows_are_made_once(size: int) -> None:
    x, expected = points(7, "x"), points(7, "x")
    expected[ROWS] *= 3
    found = in_processes(size, spread)
    for made_anew, _ in found:
        assert torch.equal(made_anew, expected)
    assert sorted(row for _, asked in found for row in asked) == sorted(ROWS.tolist())
    assert not torch.equal(expected, x)


def put_together() -> tuple[list[Tensor], Tensor, Tensor]:
    """Numbers of several lengths, which may be none; and sums of which each has some rows."""
    group = current_group()
    own = points(3, "a")[: group.rank, 0].requires_grad_(), points(2, "b")[:, 0] + group.rank
    joined = group.joined(*own)
    if group.rank:
        joined[0].square().sum().backward()
        assert own[0].grad is not None
        assert torch.equal(own[0].grad, 2 * own[0].detach())
    sums = group.added_rows((1.0 + group.rank) * points(5, "x"))
    return [part.detach() for part in joined], sums, group.added_rows(points(1, "one"))


@pytest.mark.parametrize("size", SIZES)
def test_numbers_are_put_together_in_the_order_of_ranks(size: int) -> None:
    found = in_processes(size, put_together)
    a, b, x, one = points(3, "a")[:, 0], points(2, "b")[:, 0], points(5, "x"), points(1, "one")
    for joined, _, _ in found:
        assert torch.equal(joined[0], torch.cat([a[:rank] for rank in range(size)]))
        assert torch.equal(joined[1], torch.cat([b + rank for rank in range(size)]))
    total = sum(range(1, size + 1))
    torch.testing.assert_close(torch.cat([sums for _, sums, _ in found]), total * x)
    torch.testing.assert_close(torch.cat([few for _, _, few in found]), size * one)


def alone_together(active: int, short: int) -> Tensor:
    """As few points as that, where some process has none to move."""
    search.SHORT_MESSAGE = short
    phase = PersistentUSP(**CROWDED, active=active, nodes=61, rounds=4)
    state, group = phase.start_at(points(61, "start")), current_group()
    for k in range(3):
        _, state, _ = phase.step(fussy, state, generator(0, "few", k))
    return group.gathered(state.points)


def fussy(x: Tensor) -> Tensor:
    """As many modules, it takes no batch of no points."""
    assert len(x)
    return x.square().sum(1)


@pytest.mark.parametrize("short", [0, search.SHORT_MESSAGE])
def test_a_process_may_have_nothing_to_move(short: int) -> None:
    expected = alone_together(1, short)
    for found in in_processes(2, alone_together, 1, short):
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def overflow(phase: Any) -> str:
    """The second process alone runs into an energy that is no number."""

    class Cliff(MLP):
        def forward(self, x: Tensor) -> Tensor:
            cliff = torch.inf if current_group().rank else 1.0
            return super().forward(x) * cliff

    net = Cliff(2, width=8)
    state = TrainState.start(net, phase, torch.optim.SGD(net.parameters(), 1e-3))
    try:
        list(fit(state, phase, points(64, "data").float(), batch_size=16, steps=2))
    except NonFiniteError as error:
        return str(error)
    return ""


def test_a_divergence_in_one_process_ends_all() -> None:
    first, second = in_processes(2, overflow, Langevin(BOX, chains=8, steps=2, step_size=0.01))
    assert "another process" in first
    assert "not finite" in second


@pytest.mark.parametrize(
    "phase", [*SHARED.values(), CrowdedUSP(phase=PS_USP)], ids=[*SHARED, "crowded"]
)
def test_so_it_does_where_points_are_moved_together(phase: Any) -> None:
    said = in_processes(2, overflow, phase)
    assert "not finite in some process" in said[0]
    assert said[0] == said[1]


def test_who_is_first_has_the_rows_over() -> None:
    """Two ways to say whose rows are whose must agree."""
    for count in range(9):
        rows = torch.arange(count)
        for size in (1, 2, 4):
            shares = rows.tensor_split(size)
            assert all(
                torch.equal(Group(rank, size).rows(rows), share)
                for rank, share in enumerate(shares)
            )
