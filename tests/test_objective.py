import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from uspebm import MLP, Box, Nodes, RiemannGrid, effective_sample_size, mle_surrogate
from uspebm.randomness import generator
from uspebm.types import Energy

Surrogate = Callable[[Energy, Tensor, Nodes], Tensor]


def assert_gradient_is_that_of_the_likelihood(surrogate: Surrogate) -> None:
    """On a grid, log Z is a plain function of the parameters: autograd gives the exact gradient."""
    torch.manual_seed(0)
    net, box = MLP(2, width=16).double(), Box(-1.0, 1.0, (2,))
    data = box.sample(50, generator(0), torch.float64)
    phase = RiemannGrid(box, 40)
    nodes, *_ = phase.step(net, phase.init(generator(0), torch.float64), generator(1))

    negative_log_likelihood = net(data).mean() + torch.logsumexp(-net(nodes.x), 0)
    exact = torch.autograd.grad(negative_log_likelihood, list(net.parameters()))
    # The last bias shifts E by a constant: its gradient is zero, and allowed to be left out.
    ours = torch.autograd.grad(
        surrogate(net, data, nodes), list(net.parameters()), materialize_grads=True
    )
    for a, b in zip(ours, exact, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12)


def test_the_surrogates_gradient_is_minus_the_likelihoods() -> None:
    assert_gradient_is_that_of_the_likelihood(mle_surrogate)


@pytest.mark.parametrize(
    "mutant",
    [
        lambda e, x, n: mle_surrogate(e, x, Nodes(n.x, torch.zeros_like(n.log_weight))),
        lambda e, x, n: mle_surrogate(e, x, Nodes(n.x, -e(n.x))),  # gradient through the weights
        lambda e, x, n: -mle_surrogate(e, x, n),
    ],
    ids=["no weights", "weights not constant", "sign"],
)
def test_mutants_of_the_surrogate_are_noticed(mutant: Surrogate) -> None:
    with pytest.raises(AssertionError):
        assert_gradient_is_that_of_the_likelihood(mutant)


@given(st.floats(-1e4, 1e4))
def test_a_constant_added_to_the_energy_changes_nothing(c: float) -> None:
    def energy(x: Tensor) -> Tensor:
        return x.square().sum(1)

    x = torch.linspace(-1, 1, 20, dtype=torch.float64).reshape(10, 2)
    a = mle_surrogate(energy, x, Nodes(x, -energy(x)))
    b = mle_surrogate(lambda v: energy(v) + c, x, Nodes(x, -energy(x) - c))
    torch.testing.assert_close(a, b, atol=1e-8, rtol=0)


def test_effective_sample_size() -> None:
    assert effective_sample_size(torch.full((10,), -1e5)) == pytest.approx(10.0)
    assert effective_sample_size(torch.tensor([0.0, -1e9])) == pytest.approx(1.0)
    w = torch.tensor([0.5, 0.25, 0.25])
    assert effective_sample_size(w.log()) == pytest.approx(1 / (0.25 + 2 * 0.0625))
    assert math.isfinite(effective_sample_size(torch.tensor([1e4, -1e4])))
