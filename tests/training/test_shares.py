"""Data in shares: a batch is that of one process, whoever holds its rows, and nobody holds more."""

import os
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from tests.phases import BOX
from tests.training.processes import in_processes
from uspebm import Box, CrowdedUSP, FixedNodes, PersistentUSP, Recipe, TrainState, fit
from uspebm.energies.rules import MLPRule
from uspebm.objective import Leveled
from uspebm.recipes import AtData, Run, Schedule
from uspebm.recipes.recipe import Noisy
from uspebm.support.group import current_group
from uspebm.support.randomness import generator
from uspebm.training import Share
from uspebm.training.data import as_points
from uspebm.training.loop import Batches

SIZES = [1, 2, 4] if os.environ.get("USPEBM_SOAK") else [1, 2]
COUNT = 13
"""In batches of as many points as there are processes, some of these often have none."""


def points(n: int = COUNT) -> Tensor:
    return BOX.sample(n, generator(0, "data"), torch.float64)


class Fussy(nn.Module):
    """Takes no batch of no points, as many modules do not: −1 could be any size then."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 8), nn.SiLU(), nn.Linear(8, 1)).double()

    def forward(self, x: Tensor) -> Tensor:
        energy: Tensor = self.net(x.view(len(x), -1)).squeeze(1)
        return energy


NODES = FixedNodes(BOX.sample(9, generator(0, "nodes"), torch.float64))


def started() -> TrainState:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = Fussy()
    return TrainState.start(net, NODES, torch.optim.SGD(net.parameters(), 0.1))


def batches(size: int) -> list[Tensor]:
    """This process's part of the data of six updates."""
    state, source, found = started(), Batches(Share.of(points()), size), []
    for state.step in range(6):
        found.append(source.batch(state, next(state.module.parameters())))
    return found


@pytest.mark.parametrize("size", SIZES)
def test_a_batch_is_that_of_one_process(size: int) -> None:
    whole, parts = batches(size), in_processes(size, batches, size)
    for step, batch in enumerate(whole):
        together = torch.cat([part[step] for part in parts])
        assert sorted(together.tolist()) == sorted(batch.tolist())
        if size == 1:
            assert torch.equal(together, batch)
    # Within an epoch no point is shown twice.
    epoch = torch.cat([part[step] for part in parts for step in range(min(6, COUNT // size))])
    assert len(epoch.unique(dim=0)) == len(epoch) == size * min(6, COUNT // size)
    # What the next test is about comes to pass.
    assert size == 1 or any(not len(batch) for part in parts for batch in part)


def learned(size: int, each_its_own: bool = False) -> dict[str, Tensor]:
    state, data = started(), points()
    if each_its_own:
        Batches.energies = noted  # type: ignore[assignment, method-assign]
    objective: Any = EachItsOwn() if each_its_own else Leveled(2.0)
    list(fit(state, NODES, data, batch_size=size, steps=6, objective=objective))
    return state.module.state_dict()


ENERGIES = Batches.energies
COUNTS: list[int] = []


def noted(*arguments: Any) -> Tensor:
    found = ENERGIES(*arguments)
    COUNTS.append(len(found))
    return found


class EachItsOwn:
    """The mutant: the mean over processes of what each has for its own points."""

    def data_term(self, energy: Tensor) -> Tensor:
        counts = current_group().gathered(torch.tensor(COUNTS[-1:])).tolist()
        terms = [Leveled(2.0).data_term(part) for part in energy.split(counts) if len(part)]
        return torch.stack(terms).mean()


@pytest.mark.parametrize("size", SIZES)
def test_weights_are_those_of_one_process(size: int) -> None:
    expected = learned(size)
    for found in in_processes(size, learned, size):
        torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-11)


def test_terms_of_each_process_alone_give_other_weights() -> None:
    expected, found = learned(2)["net.0.weight"], in_processes(2, learned, 2, True)[0]
    assert (found["net.0.weight"] - expected).norm() > 1e-3 * expected.norm()


class Items(Dataset[Any]):
    """What draws anew whenever it is asked."""

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, k: int) -> Tensor:
        return points()[k] + torch.randn(2, dtype=torch.float64)


CROWDED = CrowdedUSP(
    phase=PersistentUSP(domain=BOX, particles=9, spacing=0.3, active=3, nodes=5, rounds=2)
)


def parts() -> list[Tensor]:
    """Of a data set, of noisy points, and of where particles start."""
    share = as_points(Items(), 0)
    assert isinstance(share, Share)
    noisy = Noisy(Share.of(points()), 0.1, BOX).sample(6, generator(0, "noisy"), torch.float64)
    start = AtData(0.4).state(CROWDED, points(7).contiguous(), 0)[0]
    return [share.points, current_group().rows(noisy), start]


@pytest.mark.parametrize("size", SIZES[1:])
def test_shares_put_together_are_what_one_process_has(size: int) -> None:
    for whole, *shares in zip(parts(), *in_processes(size, parts), strict=True):
        assert torch.equal(torch.cat(shares), whole)
        assert len(shares[0]) < len(whole)


RECIPE = Recipe(
    "small",
    MLPRule(4),
    PersistentUSP(domain=Box(-2.0, 2.0, (2,)), particles=10, spacing=0.3, active=3, nodes=5),
    Schedule(updates=2, batch_size=4),
)


def kept(noise: float) -> tuple[int, int]:
    """Rows that a run keeps of its data, and the bytes that are behind them."""
    run = Run(replace(RECIPE, noise=noise), points().float(), None, 0, show=False)
    data = run._data
    share = data.points if isinstance(data, Noisy) else data
    assert isinstance(share, Share)
    list(run)
    return len(share.points), share.points.untyped_storage().nbytes()


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_a_run_keeps_its_share_and_no_more(noise: float) -> None:
    assert in_processes(2, kept, noise) == [(7, 7 * 2 * 4), (6, 6 * 2 * 4)]


def refusal() -> str:
    data = points()
    if current_group().rank == 1:
        data[-1] = torch.nan  # a row of the last process
    try:
        list(fit(started(), NODES, Share.of(data), batch_size=4, steps=1))
    except ValueError as error:
        return str(error)
    return ""


def test_what_is_wrong_with_one_share_is_refused_by_all() -> None:
    assert all("NaN or infinite" in said for said in in_processes(2, refusal))


def test_a_share_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match=r"the share has 3 of count=4 points: this process's are"):
        Share(torch.zeros(3, 2), 4)
