"""Processes that train together do what one does: gradients, moves, checkpoints, densities.

Two processes here; four of them, and killed ones, are in ``python -m tests.soak processes``.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.phases import BOX, PHASES
from tests.training.processes import in_processes
from uspebm import (
    MLP,
    USP,
    Box,
    CrowdedUSP,
    FixedNodes,
    GaussianMixture,
    Langevin,
    PersistentUSP,
    TrainState,
    fit,
    grid_density,
)
from uspebm.evaluation.grid_density import kl
from uspebm.negative import persistent_usp, whole
from uspebm.neighbours.crowd import Crowd
from uspebm.neighbours.search import Neighbours
from uspebm.objective import LIKELIHOOD, Leveled, Objective, Tempered, node_term
from uspebm.support.group import ALONE, Group, current_group
from uspebm.support.randomness import generator
from uspebm.training import loop, resume, save
from uspebm.types import Workspace

SIZES = [1, 2, 4] if os.environ.get("USPEBM_SOAK") else [1, 2]
OBJECTIVES: dict[str, Objective] = {
    "likelihood": LIKELIHOOD,
    "leveled": Leveled(2.0),
    "tempered": Tempered(1.5),
}


def network(seed: int = 0) -> MLP:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return MLP(2, width=16).double()


def points(n: int, name: str) -> Tensor:
    return BOX.sample(n, generator(0, name), torch.float64)


def gradient(objective: Objective, wrong: bool = False) -> Tensor:
    """Of one update, from nodes whose weights differ much from process to process."""
    phase = FixedNodes(points(23, "nodes"))
    net = network()
    with torch.no_grad():
        net(points(1, "x"))
        for weight in net.parameters():
            weight.mul_(3)
    state = TrainState.start(net, phase, torch.optim.SGD(net.parameters(), 1e-3))
    if wrong:
        loop.node_term = averaged_term  # type: ignore[attr-defined]
    list(fit(state, phase, points(40, "data"), batch_size=10, steps=1, objective=objective))
    grads = [p.grad.flatten() for p in net.parameters() if p.grad is not None]
    return torch.cat(grads)


def averaged_term(energy: Tensor, log_weight: Tensor) -> Tensor:
    """The mutant: every process normalises its own weights, and the results are averaged."""
    size = current_group().size
    parts = zip(energy.tensor_split(size), log_weight.tensor_split(size), strict=True)
    return torch.stack([node_term(*part) for part in parts]).mean()


def for_each(work: Callable[[Any], Any], cases: dict[str, Any]) -> dict[str, Any]:
    return {name: work(case) for name, case in cases.items()}


@pytest.mark.parametrize("size", SIZES)
def test_the_gradient_is_that_of_one_process(size: int) -> None:
    expected = for_each(gradient, OBJECTIVES)
    for found in in_processes(size, for_each, gradient, OBJECTIVES):
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_weights_normalised_in_each_process_give_another_gradient() -> None:
    expected = gradient(LIKELIHOOD)
    found = in_processes(2, gradient, LIKELIHOOD, True)[0]
    assert (found - expected).norm() > 0.01 * expected.norm()


CROWDED: dict[str, Any] = {"domain": BOX, "particles": 61, "spacing": 0.4}
MOVED: dict[str, Any] = {
    "ps-usp": PersistentUSP(**CROWDED, active=21, nodes=40, rounds=6),
    "ps-usp sampled": PersistentUSP(**CROWDED, active=21, nodes=40, rounds=6, others=30),
    "ps-usp uniform": PersistentUSP(
        **CROWDED, active=21, nodes=40, rounds=6, redraw="round", choice="uniform"
    ),
    "ps-usp alternating": PersistentUSP(
        **CROWDED, active=21, nodes=40, rounds=3, ascent_steps=2, repulsion="plain"
    ),
    "crowded": CrowdedUSP(
        phase=PersistentUSP(**CROWDED, active=21, nodes=40, rounds=6), restarts=7.5
    ),
    "usp": USP(**CROWDED, rounds=6),
}


def moves(
    phase: Any, mutant: str = "", largest_copy: int = whole.LARGEST_COPY
) -> tuple[Tensor, Tensor, Any]:
    """Points after three updates' moves, the sorted weights of the nodes, and what is said."""
    whole.LARGEST_COPY = largest_copy
    if mutant == "deaf":
        Neighbours.crowd = deaf_crowd  # type: ignore[method-assign]
    if mutant == "forgetful":
        persistent_usp.place = forgetful_place  # type: ignore[attr-defined]
    start = points(60, "start")
    state = phase.start_at(torch.cat([start, start[7:8]]))  # two in the very same place
    energy, group, workspace = network(), current_group(), Workspace()
    for k in range(3):
        nodes, state, info = phase.step(energy, state, generator(0, "moves", k), workspace)
    weights = group.gathered(nodes.log_weight).sort().values
    return group.gathered(state.points), weights, tuple(info)


HEARS, PLACES = Neighbours.crowd, whole.place


def deaf_crowd(
    self: Neighbours, moving: Tensor, group: Group = ALONE, shared: bool = False
) -> Crowd:
    """The mutant: points of one process do not feel those of another."""
    return HEARS(self, group.rows(moving))


def forgetful_place(
    points: Tensor, particles: int, rows: Tensor, x: Tensor, workspace: Workspace, sketched: bool
) -> None:
    """The mutant: nobody remembers where points of other processes went."""
    own, _ = current_group().mine(rows, particles)
    PLACES(points, particles, rows[own], x[own], workspace, sketched)


@pytest.mark.parametrize("size", SIZES)
def test_points_move_as_in_one_process(size: int) -> None:
    expected = for_each(moves, MOVED)
    for found in in_processes(size, for_each, moves, MOVED):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("size", SIZES[1:])
@pytest.mark.parametrize("name", ["ps-usp", "ps-usp sampled", "ps-usp uniform", "crowded"])
def test_they_do_where_no_process_has_all_points(name: str, size: int) -> None:
    """Then each tells the others what it makes their points feel."""
    expected = moves(MOVED[name])
    for found in in_processes(size, moves, MOVED[name], "", 0):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("mutant", "largest_copy"),
    [("deaf", whole.LARGEST_COPY), ("deaf", 0), ("forgetful", whole.LARGEST_COPY)],
)
def test_points_that_do_not_feel_those_of_other_processes_move_elsewhere(
    mutant: str, largest_copy: int
) -> None:
    expected = moves(MOVED["ps-usp"])[0]
    found = in_processes(2, moves, MOVED["ps-usp"], mutant, largest_copy)[0][0]
    assert (found - expected).abs().max() > 0.01


def trained(phase: Any) -> tuple[Any, list[dict[str, Any]], int]:
    net = network()
    state = TrainState.start(net, phase, torch.optim.Adam(net.parameters(), 1e-3))
    rows = [r.row() for r in fit(state, phase, points(64, "data"), batch_size=16, steps=3)]
    for row in rows:
        del row["seconds"]
    kept = state.negative[0]
    return net.state_dict(), rows, len(kept)


def test_every_phase_trains_in_two_processes() -> None:
    firsts, seconds = in_processes(2, for_each, trained, PHASES)
    for name, phase in PHASES.items():
        alone, first, second = trained(phase), firsts[name], seconds[name]
        torch.testing.assert_close(first[0], second[0], rtol=0, atol=0)
        assert first[1] == second[1]
        assert first[1][-1]["nodes"] == alone[1][-1]["nodes"]
        assert first[2] + second[2] == alone[2]


def chain_starts() -> tuple[Tensor, list[float]]:
    phase = Langevin(BOX, chains=9, steps=1, step_size=0.01)
    state = phase.init(generator(0, "init"), torch.float64)
    nodes, _, _ = phase.step(network(), state, generator(0, "negative", 0))
    return current_group().gathered(nodes.x), [float(len(nodes.x))]


def test_every_process_draws_its_own() -> None:
    (all_here, few), (all_there, fewer) = in_processes(2, chain_starts)
    assert few + fewer == [5.0, 4.0]
    assert torch.equal(all_here, all_there)
    assert len(all_here.unique(dim=0)) == 9


def partly(folder: Path, size_steps: int, begin: bool) -> tuple[Any, Tensor]:
    """Train up to some update, from a start or from what is in the folder; save."""
    phase = MOVED["crowded"]
    net = network()
    state = TrainState.start(net, phase, torch.optim.Adam(net.parameters(), 1e-3))
    state.negative = phase.start_at(points(61, "start"))
    assert resume(state, folder) is not begin
    list(fit(state, phase, points(64, "data"), batch_size=16, steps=size_steps))
    save(state, folder)
    return net.state_dict(), current_group().gathered(state.negative[0])


@pytest.mark.parametrize("sizes", [(2, 1), (1, 2), *([(4, 2), (2, 4)] if len(SIZES) > 2 else [])])
def test_a_checkpoint_goes_on_with_another_number_of_processes(
    sizes: tuple[int, int], tmp_path: Path
) -> None:
    expected = partly(tmp_path / "whole", 5, True)
    in_processes(sizes[0], partly, tmp_path / "parts", 2, True)
    for weights, where in in_processes(sizes[1], partly, tmp_path / "parts", 5, False):
        torch.testing.assert_close(where, expected[1], rtol=1e-7, atol=1e-7)
        for name, weight in weights.items():
            torch.testing.assert_close(weight, expected[0][name], rtol=1e-7, atol=1e-7)


PLANE = Box(-2.0, 2.0, (2,))
MODES = GaussianMixture(((-0.8, 0.0), (0.6, 0.5)), 0.25, (0.4, 0.6))


def divergence() -> float:
    """KL(p, q) in the plane after a short training by PS-USP."""
    phase = PersistentUSP(
        domain=PLANE, particles=400, spacing=0.15, active=100, nodes=400, rounds=5
    )
    net = network().float()
    state = TrainState.start(
        net, phase, torch.optim.Adam(net.parameters(), 1e-2), average_decay=0.95
    )
    for _ in fit(state, phase, MODES, batch_size=400, steps=200):
        pass
    p, q = (grid_density(e, PLANE, 100) for e in (MODES, state.average.module))
    return kl(p, q)


@pytest.mark.parametrize("size", SIZES[1:])
def test_processes_reach_the_divergence_of_one(size: int) -> None:
    alone, found = divergence(), in_processes(size, divergence)
    assert len(set(found)) == 1
    assert found[0] < 1.5 * alone
    assert alone < 0.1


def elsewhere() -> str:
    net = network()
    phase = FixedNodes(points(23, "nodes"))
    state = TrainState.start(net, phase, torch.optim.SGD(net.parameters(), 1e-3))
    state.step = current_group().rank
    try:
        list(fit(state, phase, points(64, "data"), batch_size=16, steps=2))
    except ValueError as error:
        return str(error)
    return ""


def test_processes_at_different_updates_are_refused() -> None:
    for said in in_processes(2, elsewhere):
        assert "disagree on the update they are at: 0 to 1" in said
