import itertools
import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from uspebm import (
    Box,
    FixedNodes,
    Gaussian,
    GaussianMixture,
    Importance,
    NegativePhase,
    Nodes,
    RiemannGrid,
)
from uspebm.negative import TiltImportance
from uspebm.support.randomness import generator

BOX = Box(-1.0, 1.0, (2,))
Q = GaussianMixture(((-0.4, 0.1), (0.3, 0.0)), 0.2, (0.3, 0.7))


def nodes_of(phase: NegativePhase[Any], energy: object = Q, seed: int = 0) -> Nodes:
    state = phase.init(generator(seed), torch.float64)
    nodes, _, _ = phase.step(energy, state, generator(seed, "step"))  # type: ignore[arg-type]
    return nodes


def assert_integrates(nodes: Nodes, f: Tensor, exact: float) -> None:
    """Self-normalised estimates are asymptotically normal; six of their own standard errors."""
    w = nodes.log_weight.softmax(0)
    estimate = (w * f).sum()
    error = (w.square() * (f - estimate).square()).sum().sqrt()
    assert abs(estimate.item() - exact) < 6 * error.item()


def test_importance_weights_integrate() -> None:
    grid = nodes_of(RiemannGrid(BOX, 500))
    exact = (grid.log_weight.softmax(0) * grid.x[:, 1].square()).sum().item()
    nodes = nodes_of(Importance(BOX, 400_000))
    assert_integrates(nodes, nodes.x[:, 1].square(), exact)
    for mutant in (
        nodes._replace(log_weight=torch.zeros_like(nodes.log_weight)),
        nodes._replace(log_weight=-nodes.log_weight),
        nodes._replace(log_weight=1.1 * nodes.log_weight),
    ):
        with pytest.raises(AssertionError):
            assert_integrates(mutant, mutant.x[:, 1].square(), exact)


SHIFT = torch.tensor([0.6, -0.3], dtype=torch.float64)


def assert_partition_function(log_weight: Tensor) -> None:
    """E_r[e^{b·x}] = e^{|b|²/2}, without bias; five standard errors, from the exact variance."""
    size = SHIFT.square().sum().item()
    variance = math.exp(2 * size) - math.exp(size)
    error = log_weight.exp().mean().item() - math.exp(size / 2)
    assert abs(error) < 5 * math.sqrt(variance / len(log_weight))


def test_draws_from_a_gaussian_stand_for_a_tilted_one() -> None:
    """r = N(0, 1) tilted by E = −b·x is N(b, 1)."""
    reference = Gaussian((0.0, 0.0))
    nodes = nodes_of(TiltImportance(reference, 200_000), lambda x: -(x @ SHIFT))
    assert_partition_function(nodes.log_weight)
    for k in range(2):
        assert_integrates(nodes, nodes.x[:, k], SHIFT[k].item())
        assert_integrates(nodes, nodes.x[:, k].square(), 1 + SHIFT[k].item() ** 2)
    mutants = (
        nodes.log_weight + reference.log_prob(nodes.x),  # the reference counted twice
        1.05 * nodes.log_weight,
        -nodes.log_weight,
    )
    for mutant in mutants[:2]:
        with pytest.raises(AssertionError):
            assert_partition_function(mutant)
    for mutant in mutants:
        with pytest.raises(AssertionError):
            assert_integrates(nodes._replace(log_weight=mutant), nodes.x[:, 0], SHIFT[0].item())


def test_draws_from_another_law_stand_for_the_model_itself() -> None:
    """E of N(0, 1), draws from N(2, 1): the mean is 0, not that of a law between the two."""
    target, proposal = Gaussian((0.0,)), Gaussian((2.0,))
    nodes = nodes_of(Importance(proposal, 400_000), target)
    assert_integrates(nodes, nodes.x[:, 0], 0.0)
    relative = nodes_of(TiltImportance(proposal, 400_000), target)  # q ∝ N(2, 1) N(0, 1) = N(1, ½)
    assert_integrates(relative, relative.x[:, 0], 1.0)
    with pytest.raises(AssertionError):
        assert_integrates(relative, relative.x[:, 0], 0.0)


def test_given_points_are_weighted_where_they_are() -> None:
    grid = BOX.grid(40, torch.float64)
    given, exact = nodes_of(FixedNodes(grid)), nodes_of(RiemannGrid(BOX, 40))
    assert torch.equal(given.x, exact.x)
    assert torch.equal(given.log_weight, exact.log_weight)
    some = nodes_of(FixedNodes(grid, nodes=100))
    assert len(some.x) == 100
    assert torch.equal(some.log_weight, -Q(some.x))
    assert len(some.x.unique(dim=0)) == 100
    with pytest.raises(ValueError, match="nodes=1601 is more than the 1600 points"):
        FixedNodes(grid, nodes=1601)


def assert_second_order(mean_error: object) -> None:
    errors = [mean_error(cells) for cells in (8, 16, 32)]  # type: ignore[operator]
    orders = [math.log2(a / b) for a, b in itertools.pairwise(errors)]
    assert orders == pytest.approx([2.0, 2.0], abs=0.05), orders


def test_the_grid_is_second_order_where_the_box_cuts_the_density() -> None:
    """q ∝ e^{-3x} on [0, 1]: its mean is known, and the sum does not profit from decay."""
    box = Box(0.0, 1.0, (1,))
    exact = 1 / 3 - 1 / (math.exp(3) - 1)

    def error(cells: int, shift: float = 0.0) -> float:
        x = nodes_of(RiemannGrid(box, cells), lambda x: 3 * x[:, 0]).x[:, 0] - shift / cells
        return abs(((-3 * x).softmax(0) * x).sum().item() - exact)

    assert_second_order(error)
    with pytest.raises(AssertionError):  # left ends instead of midpoints
        assert_second_order(lambda cells: error(cells, shift=0.5))


@given(st.floats(-1e3, 1e3))
def test_a_constant_added_to_the_energy_changes_no_weight(c: float) -> None:
    for phase in (Importance(BOX, 50), RiemannGrid(BOX, 7)):
        a = nodes_of(phase).log_weight.softmax(0)
        b = nodes_of(phase, lambda x: Q(x) + c).log_weight.softmax(0)
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12)


def test_bad_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="nodes=0"):
        Importance(BOX, 0)
    with pytest.raises(ValueError, match="cells=-3"):
        RiemannGrid(BOX, -3)
