"""What processes share out: every row is made once, shares are even, and trouble is everyone's."""

import os
from typing import Any, NamedTuple

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
from uspebm.negative import whole
from uspebm.negative.partition import Partition
from uspebm.neighbours.crowd import Crowd
from uspebm.support.group import current_group
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


class Made(NamedTuple):
    """How many points were repelled, and how many ascended, call by call."""

    repelled: list[int]
    ascended: list[int]


def made(phase: Any, largest_copy: int) -> Made:
    noted = Made([], [])
    repel, ascend = Partition.repel, Partition.ascend

    def noting_repel(self: Partition, u: Tensor, crowd: Crowd) -> Tensor:
        noted.repelled.append(len(u))
        return repel(self, u, crowd)

    def noting_ascend(self: Partition, energy: Any, u: Tensor, shrink: float = 1.0) -> Tensor:
        noted.ascended.append(len(u))
        return ascend(self, energy, u, shrink)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(whole, "LARGEST_COPY", largest_copy)
        patch.setattr(Partition, "repel", noting_repel)
        patch.setattr(Partition, "ascend", noting_ascend)
        state = phase.start_at(points(61, "start"))
        phase.step(lambda x: x.square().sum(1), state, generator(0, "moves"))
    return noted


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("largest_copy", [0, whole.LARGEST_COPY], ids=["shares", "copies"])
@pytest.mark.parametrize("name", SHARED)
def test_each_process_moves_its_share(name: str, largest_copy: int, size: int) -> None:
    """No process does for all: it would have as many as one that is alone."""
    alone = made(SHARED[name], largest_copy)
    found = in_processes(size, made, SHARED[name], largest_copy)
    for together, *each in zip(alone.repelled, *(m.repelled for m in found), strict=True):
        assert sum(each) == together
        assert max(each) - min(each) <= 1
    # Where all of its points are repelled, a process makes no ascent, so these do not go in step.
    ascended = [sum(m.ascended) for m in found]
    assert sum(ascended) == sum(alone.ascended)
    assert max(ascended) < sum(alone.ascended) or size == 1


def put_together() -> tuple[list[Tensor], Tensor, Tensor]:
    """Numbers of several lengths, which may be none; and rows that are dealt, or one of them."""
    group = current_group()
    own = points(3, "a")[: group.rank, 0].requires_grad_(), points(2, "b")[:, 0] + group.rank
    joined = group.joined(*own)
    if group.rank:
        joined[0].square().sum().backward()
        assert own[0].grad is not None
        assert torch.equal(own[0].grad, 2 * own[0].detach())
    dealt = group.dealt((1.0 + group.rank) * points(5, "x"))
    return [part.detach() for part in joined], dealt, group.dealt(points(1, "one"))


@pytest.mark.parametrize("size", SIZES)
def test_numbers_are_put_together_in_the_order_of_ranks(size: int) -> None:
    found = in_processes(size, put_together)
    a, b, x, one = points(3, "a")[:, 0], points(2, "b")[:, 0], points(5, "x"), points(1, "one")
    for joined, _, _ in found:
        assert torch.equal(joined[0], torch.cat([a[:rank] for rank in range(size)]))
        assert torch.equal(joined[1], torch.cat([b + rank for rank in range(size)]))
    each = torch.stack([(1.0 + rank) * x for rank in range(size)])
    assert torch.equal(torch.cat([dealt for _, dealt, _ in found], 1), each)
    assert torch.equal(torch.cat([few for _, _, few in found], 1), one.expand(size, 1, 2))


def alone_together(active: int, largest_copy: int) -> Tensor:
    """As few points as that, where some process has none to move."""
    phase = PersistentUSP(**CROWDED, active=active, nodes=61, rounds=4)
    state, group = phase.start_at(points(61, "start")), current_group()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(whole, "LARGEST_COPY", largest_copy)
        for k in range(3):
            _, state, _ = phase.step(fussy, state, generator(0, "few", k))
    return group.gathered(state.points)


def fussy(x: Tensor) -> Tensor:
    """As many modules, it takes no batch of no points."""
    assert len(x)
    return x.square().sum(1)


@pytest.mark.parametrize("largest_copy", [0, whole.LARGEST_COPY], ids=["shares", "copies"])
def test_a_process_may_have_nothing_to_move(largest_copy: int) -> None:
    expected = alone_together(1, largest_copy)
    for found in in_processes(2, alone_together, 1, largest_copy):
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
