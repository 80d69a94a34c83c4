"""The kernel reference against brute force, and its law."""

import math

import pytest
import torch
from torch import Tensor, nn

from tests.laws import assert_law
from uspebm.energies.kernel import KernelReference, TiltedEnergy, likeliest_bandwidth
from uspebm.support.randomness import generator


def normal(n: int, d: int, seed: int = 0) -> Tensor:
    return torch.randn(n, d, generator=generator(seed), dtype=torch.float64)


def brute_force(x: Tensor, centres: Tensor, h: float) -> Tensor:
    d = x.shape[1]
    exponent = -0.5 * ((x[:, None] - centres) / h).square().sum(-1)
    density = exponent.exp().mean(1) / (h * math.sqrt(2 * math.pi)) ** d
    return density.log()


@pytest.mark.parametrize("d", [1, 2, 7])
def test_log_prob_is_the_mixtures(d: int) -> None:
    centres, x = normal(40, d), normal(20, d, 1)
    found = KernelReference(centres, 0.7).log_prob(x)
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, brute_force(x, centres, 0.7), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("d", [1, 2])
def test_it_integrates_to_one(d: int) -> None:
    step = 0.02
    axis = torch.arange(-6, 6, step, dtype=torch.float64)
    grid = torch.cartesian_prod(*[axis] * d).reshape(-1, d)
    reference = KernelReference(normal(9, d), 0.3)
    total = sum(reference.log_prob(part).exp().sum().item() for part in grid.split(20_000))
    assert total * step**d == pytest.approx(1, abs=1e-9)


def test_samples_have_its_law() -> None:
    centres, h = torch.tensor([[-1.0], [0.5], [3.0]]).double(), 0.4
    reference = KernelReference(centres, h)
    draws = reference.sample(200_000, generator(0), torch.float64)

    def mixture(x: Tensor, width: float) -> Tensor:
        below: Tensor = torch.special.ndtr((x[:, None] - centres.flatten()) / width)
        return below.mean(1)

    assert_law(draws, lambda x: mixture(x, h))
    with pytest.raises(AssertionError):  # a bandwidth off by a tenth
        assert_law(draws, lambda x: mixture(x, 1.1 * h))


def leave_one_out(points: Tensor, h: float) -> float:
    n = len(points)
    return (
        sum(
            brute_force(points[i : i + 1], torch.cat([points[:i], points[i + 1 :]]), h).item()
            for i in range(n)
        )
        / n
    )


@pytest.mark.parametrize("d", [1, 3])
def test_the_bandwidth_is_the_likeliest(d: int) -> None:
    points = normal(60, d)
    h, value = likeliest_bandwidth(points)
    assert value == pytest.approx(leave_one_out(points, h), abs=1e-6)
    grid = [leave_one_out(points, w) for w in torch.logspace(-1, 1, 200).tolist()]
    # Two rounds of twelve widths leave a hundredth or two of log h, where the maximum is flat.
    assert value > max(grid) - 1e-3


def test_the_bandwidth_is_not_at_the_end_of_what_is_tried() -> None:
    """Uniform points in 1-D: neighbours are a thousand times closer than the bandwidth."""
    points = torch.rand(2000, 1, generator=generator(0), dtype=torch.float64)
    h, value = likeliest_bandwidth(points)
    shown = points[:500]
    others = [torch.cat([points[:i], points[i + 1 :]]) for i in range(500)]
    for width in (h / 1.5, 1.5 * h):
        found = sum(
            brute_force(x[None], o, width).item() for x, o in zip(shown, others, strict=True)
        )
        assert found / 500 < value


def test_repeated_points_do_not_shrink_the_bandwidth() -> None:
    points = normal(100, 2)
    plain = likeliest_bandwidth(points)[0]
    repeated = likeliest_bandwidth(points.repeat(3, 1))[0]
    assert repeated == pytest.approx(plain, rel=0.05)
    assert likeliest_bandwidth((10 * points).round() / 10)[0] == pytest.approx(plain, rel=0.2)
    assert likeliest_bandwidth(torch.ones(5, 2)) == (1.0, -math.inf)
    assert likeliest_bandwidth(torch.ones(1, 2)) == (1.0, -math.inf)


def test_gradients_are_finite_even_at_a_centre() -> None:
    centres = normal(5, 3)
    x = torch.cat([centres, 1e3 + centres]).requires_grad_()
    (gradient,) = torch.autograd.grad(KernelReference(centres, 0.01)(x).sum(), x)
    assert torch.isfinite(gradient).all()
    assert gradient[:5].norm() < 1e-6  # other centres are hundreds of bandwidths away


def test_far_points_have_finite_ordered_energies() -> None:
    network = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1), nn.Flatten(0))
    energy = TiltedEnergy(network, KernelReference(normal(10, 2), 0.1))
    far = 10.0 ** torch.arange(1, 100, 3, dtype=torch.float64)
    found = energy(far[:, None] * torch.tensor([1.0, -1.0]))
    assert torch.isfinite(found).all()
    assert (found.diff() > 0).all()


class Linear(nn.Module):
    """f(x) = −b·x: under it, a Gaussian r of width h has log Z = h² |b|² / 2."""

    b = torch.tensor([0.5, -1.0])

    def forward(self, x: Tensor) -> Tensor:
        return -(x @ self.b)


def test_log_z_is_estimated_within_its_error() -> None:
    h, n = 0.8, 100_000
    energy = TiltedEnergy(Linear(), KernelReference(torch.zeros(1, 2), h))
    size = h**2 * Linear.b.square().sum().item()
    # The mean of n weights has the relative variance (e^s − 1) / n.
    error = math.sqrt(math.expm1(size) / n)
    value, said = energy.log_z(n, generator(0))
    assert abs(value - size / 2) < 5 * error
    assert said == pytest.approx(error, rel=0.05)
    energy.strength.fill_(0.0)
    assert energy.log_z(1000, generator(0)) == (0.0, 0.0)


def test_strength_turns_the_network_off() -> None:
    reference, x = KernelReference(normal(5, 2), 0.5), normal(7, 2)
    energy = TiltedEnergy(Linear(), reference)
    torch.testing.assert_close(energy(x), reference(x) + Linear()(x.float()))
    energy.strength.fill_(0.0)
    assert torch.equal(energy(x), reference(x))
