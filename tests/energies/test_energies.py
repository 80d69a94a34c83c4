import math

import pytest
import torch
from torch import Tensor, nn

from tests.laws import assert_law, normal_cdf
from uspebm import (
    MLP,
    Box,
    Conv,
    Gaussian,
    GaussianMixture,
    Reconstruction,
    grid_density,
)
from uspebm.energies.gradient import energy_gradient
from uspebm.support.randomness import generator


def test_the_papers_mlp() -> None:
    net = MLP(2)
    linear = [m for m in net.modules() if isinstance(m, nn.Linear)]
    assert [(m.in_features, m.out_features) for m in linear] == [
        (2, 512),
        (512, 512),
        (512, 512),
        (512, 1),
    ]
    slopes = [m.negative_slope for m in net.modules() if isinstance(m, nn.LeakyReLU)]
    assert slopes == [0.2] * 3


def test_the_papers_cnn() -> None:
    net = Conv()
    conv = [m for m in net.modules() if isinstance(m, nn.Conv2d)]
    assert [(m.in_channels, m.out_channels) for m in conv] == [(1, 32), (32, 64), (64, 128)]
    assert all(m.kernel_size == (3, 3) and m.stride == (1, 1) for m in conv)
    linear = [m for m in net.modules() if isinstance(m, nn.Linear)]
    assert [(m.in_features, m.out_features) for m in linear] == [(1152, 128), (128, 1)]
    slopes = {m.negative_slope for m in net.modules() if isinstance(m, nn.LeakyReLU)}
    assert slopes == {0.4}


def test_reconstruction_is_the_squared_distance_to_its_output() -> None:
    net = Reconstruction((1, 3), width=8)
    x = torch.randn(5, 1, 3, generator=generator(0))
    expected = torch.stack([((p - net.net(p)) ** 2).sum() for p in x.flatten(1)])
    torch.testing.assert_close(net(x), expected)


@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (3, 8, 11), (2, 9, 9)])
def test_conv_takes_any_image(shape: tuple[int, ...]) -> None:
    assert Conv(shape)(torch.zeros(4, *shape)).shape == (4,)


def assert_sees_every_pixel(net: nn.Module) -> None:
    x = torch.rand(8, 1, 28, 28, generator=generator(1)) * 2 - 1
    seen = energy_gradient(net, x).abs().amax(0)
    assert (seen > 0).all(), f"blind to {int((seen == 0).sum())} pixels"


class _Unpadded(nn.Module):
    """The same network as Conv would be without padding."""

    def __init__(self) -> None:
        super().__init__()
        blocks: list[nn.Module] = []
        for a, b in ((1, 32), (32, 64), (64, 128)):
            blocks += [nn.Conv2d(a, b, 3), nn.LeakyReLU(0.4), nn.AvgPool2d(2)]
        self.net = nn.Sequential(*blocks, nn.Flatten(), nn.Linear(128, 1))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.net(x).squeeze(1)
        return out


def test_conv_sees_every_pixel_and_without_padding_would_not() -> None:
    torch.manual_seed(0)
    assert_sees_every_pixel(Conv())
    with pytest.raises(AssertionError, match="blind to 300 pixels"):
        assert_sees_every_pixel(_Unpadded())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Conv((28, 28)), r"event_shape=\(28, 28\) must be \(channels, height, width\)"),
        (lambda: Conv((1, 7, 28)), "at least 8"),
        (lambda: MLP(()), r"event_shape=\(\)"),
        (lambda: MLP(0), "event_shape=0"),
        (lambda: MLP(2, width=0), "width=0"),
        (lambda: Gaussian((0.0,), -1.0), "std=-1.0"),
        (lambda: Gaussian((0.0,), (1.0, 1.0)), "std has 2 values"),
        (lambda: GaussianMixture(((0.0,), (0.0, 1.0)), 1.0), "one dimension"),
        (lambda: GaussianMixture(((0.0,), (1.0,)), 1.0, (0.5, 0.6)), "must sum to 1"),
        (lambda: GaussianMixture(((0.0,), (1.0,)), 1.0, (1.5, -0.5)), "positive"),
        (lambda: GaussianMixture(((0.0,),), 0.0), r"std=0\.0"),
    ],
)
def test_bad_settings_are_refused(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]


@pytest.mark.parametrize(
    ("energy", "given", "wanted"),
    [
        (MLP(2), (5, 3), r"MLP takes points of shape \(N, 2\), got \(5, 3\)"),
        (Conv(), (5, 28, 28), "Conv takes"),
        (Reconstruction(1), (5,), "Reconstruction takes"),
        (Gaussian((0.0, 0.0)), (5, 1), "Gaussian takes"),
        (GaussianMixture(((0.0, 0.0),), 1.0), (5, 1), "GaussianMixture takes"),
    ],
)
def test_points_of_another_shape_are_refused(
    energy: object, given: tuple[int, ...], wanted: str
) -> None:
    with pytest.raises(ValueError, match=wanted):
        energy(torch.zeros(given))  # type: ignore[operator]


LOPSIDED = GaussianMixture(((-0.5, 0.2), (0.4, 0.0)), 0.1, (0.3, 0.7))


@pytest.mark.parametrize("q", [Gaussian((0.1, -0.2), (0.1, 0.2)), LOPSIDED])
def test_log_z_is_exact(q: Gaussian | GaussianMixture) -> None:
    on_grid = grid_density(q, Box(-2.0, 2.0, (2,)), 400, torch.float64)
    assert on_grid.log_z == pytest.approx(q.log_z, abs=1e-9)
    torch.testing.assert_close(q.log_prob(on_grid.x), on_grid.log_q, atol=1e-8, rtol=0)


def test_samples_follow_the_density() -> None:
    x = Gaussian((0.5, 0.0), (2.0, 1.0)).sample(100_000, generator(0), torch.float64)
    assert_law(x[:, 0], normal_cdf(2.0, mean=0.5))
    x = LOPSIDED.sample(100_000, generator(0), torch.float64)

    def cdf(v: Tensor) -> Tensor:
        return 0.3 * normal_cdf(0.1, -0.5)(v) + 0.7 * normal_cdf(0.1, 0.4)(v)

    def equal_weights(v: Tensor) -> Tensor:
        return 0.5 * normal_cdf(0.1, -0.5)(v) + 0.5 * normal_cdf(0.1, 0.4)(v)

    assert_law(x[:, 0], cdf)
    with pytest.raises(AssertionError):
        assert_law(x[:, 0], equal_weights)
    assert math.isclose(x[:, 1].mean().item(), 0.06, abs_tol=6 * 0.14 / math.sqrt(100_000))
