import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from uspebm import (
    MLP,
    Box,
    GaussianMixture,
    Leveled,
    Likelihood,
    Nodes,
    Objective,
    RiemannGrid,
    Tempered,
    effective_sample_size,
    mle_surrogate,
)
from uspebm.support.randomness import generator
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


CELLS = Box(-3.0, 3.0, (1,)).grid(60, torch.float64)
STEP = 6.0 / 60
P = GaussianMixture(((-1.0,), (1.2,)), std=0.5, weights=(0.3, 0.7))
MASS = (P.log_prob(CELLS).exp() * STEP) / (P.log_prob(CELLS).exp() * STEP).sum()


def at_rest(data_term: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """The energy of every cell where data term + log Z is least, both by exact sums."""
    energy = (-MASS.log()).clamp_max(8.0).clone().requires_grad_()
    descent = torch.optim.LBFGS(
        [energy], max_iter=2000, tolerance_grad=1e-12, tolerance_change=1e-16,
        history_size=50, line_search_fn="strong_wolfe",
    )  # fmt: skip

    def loss() -> Tensor:
        descent.zero_grad()
        value = data_term(energy, MASS) + torch.logsumexp(-energy, 0)
        value.backward()
        return value

    descent.step(loss)
    return energy.detach()


def exactly(objective: Objective) -> Callable[[Tensor, Tensor], Tensor]:
    """Its data term under the law with these masses: draws in proportion to them."""
    counts = (MASS * 200_000).round().long()

    def term(energy: Tensor, mass: Tensor) -> Tensor:
        return objective.data_term(energy.repeat_interleave(counts))

    return term


COUNTED = (MASS * 200_000).round() / (MASS * 200_000).round().sum()
SEEN = COUNTED > 1e-4


def assert_law(energy: Tensor, law: Callable[[Tensor], Tensor]) -> None:
    """q = softmax(−E) is what ``law`` makes of p and E, wherever p has mass."""
    q = (-energy).softmax(0)
    expected = law(energy)
    torch.testing.assert_close(q[SEEN], (expected / expected.sum())[SEEN], rtol=0.01, atol=1e-6)


LAWS: dict[str, tuple[Objective, Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]] = {
    "likelihood": (Likelihood(), lambda e: COUNTED, lambda e: COUNTED.sqrt()),
    "leveled": (
        Leveled(0.4),
        lambda e: COUNTED * (1 + 0.8 * (e - (COUNTED * e).sum())),
        lambda e: COUNTED * (1 + 0.4 * (e - (COUNTED * e).sum())),  # the 2 forgotten
    ),
    "tempered": (Tempered(1.5), lambda e: COUNTED ** (1 / 2.5), lambda e: COUNTED ** (1 / 1.5)),
}


@pytest.mark.parametrize(("objective", "law", "mutant"), LAWS.values(), ids=LAWS)
def test_objectives_come_to_rest_where_they_say(
    objective: Objective, law: Callable[[Tensor], Tensor], mutant: Callable[[Tensor], Tensor]
) -> None:
    energy = at_rest(exactly(objective))
    assert_law(energy, law)
    with pytest.raises(AssertionError):
        assert_law(energy, mutant)


@pytest.mark.parametrize(("objective", "law", "mutant"), LAWS.values(), ids=LAWS)
def test_the_density_of_the_data_is_read_off_energies_at_rest(
    objective: Objective, law: object, mutant: object
) -> None:
    energy = at_rest(exactly(objective))
    data_energy = energy.repeat_interleave((MASS * 200_000).round().long())
    log_z = torch.logsumexp(-energy, 0).item()
    log_p = objective.log_density(energy, data_energy, log_z)
    torch.testing.assert_close(log_p[SEEN].exp(), COUNTED[SEEN], rtol=0.01, atol=1e-6)
    # Higher energies never have higher densities.
    order = energy[SEEN].argsort()
    assert (log_p[SEEN][order].diff() <= 1e-9).all()


def test_no_point_of_the_data_has_an_energy_below_where_the_level_ends() -> None:
    energies = torch.tensor([0.0, -0.6, 1.0])
    density = Leveled(1.0).log_density(energies, torch.zeros(5), 0.0)
    assert density[1] == math.inf
    assert density[0] == 0.0
    assert density[2] == pytest.approx(-1 - math.log(3))


@pytest.mark.parametrize("make", [Leveled, Tempered])
def test_weights_of_objectives_are_positive(make: Callable[[float], Objective]) -> None:
    with pytest.raises(ValueError, match=r"=-1\.0 must be a positive number"):
        make(-1.0)


def test_a_batch_s_terms_are_the_formulas() -> None:
    energy = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64)
    mean, variance = 7 / 3, 14 / 9
    assert Likelihood().data_term(energy).item() == pytest.approx(mean)
    assert Leveled(10.0).data_term(energy).item() == pytest.approx(mean + 10 * variance)
    expected = math.log(sum(math.exp(0.5 * e) for e in (1.0, 2.0, 4.0)) / 3) / 0.5
    assert Tempered(0.5).data_term(energy).item() == pytest.approx(expected)
    assert Tempered(0.5).rho == 1.5
