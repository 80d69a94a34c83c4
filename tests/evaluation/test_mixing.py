"""R-hat and effective sample size against slow formulas, and against laws where both are known."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from uspebm.evaluation.mixing import chains_ess, split_r_hat
from uspebm.support.randomness import generator


def ar1(a: float, shape: tuple[int, int, int], seed: int = 0) -> Tensor:
    """Stationary chains x' = a x + z, of variance 1 / (1 − a²)."""
    chains, draws, d = shape
    z = torch.randn(draws, chains, d, generator=generator(seed), dtype=torch.float64)
    x = z[0] / math.sqrt(1 - a**2)
    kept = []
    for step in z:
        x = a * x + step
        kept.append(x)
    return torch.stack(kept, 1)


def slowly(chains: Tensor) -> tuple[float, float]:
    """R-hat and ESS of one coordinate, ``(M, N)``, as Vehtari et al. write them, lag by lag."""
    x = chains.numpy()
    n = x.shape[1] // 2
    x = np.concatenate([x[:, -2 * n : -n], x[:, -n:]])
    m = len(x)
    means, variances = x.mean(1), x.var(1, ddof=1)
    within, between = variances.mean(), n * means.var(ddof=1)
    total = (n - 1) / n * within + between / n

    def rho(t: int) -> float:
        lagged = [
            np.sum((row[: n - t] - mean) * (row[t:] - mean)) / (n - 1)
            for row, mean in zip(x, means, strict=True)
        ]
        return float(1 - (within - np.mean(lagged)) / total)

    tau, last = -1.0, math.inf
    for k in range(n // 2):
        pair = rho(2 * k) + rho(2 * k + 1)
        if pair <= 0:
            break
        last = min(last, pair)
        tau += 2 * last
    return float(np.sqrt(total / within)), m * n / max(tau, 1 / math.log10(m * n))


@pytest.mark.parametrize("a", [-0.5, 0.0, 0.9])
@pytest.mark.parametrize("draws", [40, 41])
def test_both_are_what_the_slow_formulas_give(a: float, draws: int) -> None:
    x = ar1(a, (3, draws, 70))  # more coordinates than are looked at together
    r_hat, ess = zip(*(slowly(x[:, :, k]) for k in range(70)), strict=True)
    torch.testing.assert_close(split_r_hat(x), torch.tensor(r_hat, dtype=torch.float64))
    torch.testing.assert_close(chains_ess(x), torch.tensor(ess, dtype=torch.float64))


@pytest.mark.parametrize("a", [0.0, 0.8])
def test_effective_draws_of_an_ar1_process(a: float) -> None:
    """Exactly M N (1 − a) / (1 + a). Halves of n draws know ρ up to a bias of τ / n."""
    x = ar1(a, (4, 2000, 100))
    tau = (1 + a) / (1 - a)
    ratio = chains_ess(x) / (4 * 2000 / tau)
    error = 4 * ratio.std().item() / math.sqrt(len(ratio))
    bias = 2 * tau / 1000 + 2 / 1000
    assert ratio.mean().item() == pytest.approx(1.0, abs=error + bias)
    # The mutant: of every second draw the neighbours are less alike.
    thinned = chains_ess(x[:, ::2]) / (4 * 1000 / tau)
    assert (thinned.mean().item() == pytest.approx(1.0, abs=error + bias)) is (a == 0)


def test_chains_that_differ_or_drift_are_noticed() -> None:
    x = ar1(0.0, (4, 1000, 1))
    assert split_r_hat(x).item() < 1.01
    apart = x + torch.tensor([0.0, 0.0, 0.0, 2.0]).view(4, 1, 1)
    # Of eight halves two are 2 higher: their means have a variance of 6/7.
    assert split_r_hat(apart).item() == pytest.approx(math.sqrt(1 + 6 / 7), rel=0.05)
    assert chains_ess(apart).item() < 20
    assert split_r_hat(x + torch.linspace(0, 3, 1000).view(1, -1, 1)).item() > 1.2


def test_a_coordinate_that_never_moves_is_worth_nothing() -> None:
    x = ar1(0.0, (2, 10, 2))
    x[:, :, 1] = 3.0
    assert split_r_hat(x)[1] == math.inf
    assert chains_ess(x)[1] == 0.0


@pytest.mark.parametrize("shape", [(2, 3, 1), (2, 10)])
def test_too_few_draws_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"they must be \(chains, draws, coordinates\)"):
        split_r_hat(torch.zeros(shape))
