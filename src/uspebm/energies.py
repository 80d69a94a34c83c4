r"""Energies :math:`E_\theta`: the paper's three networks, and two with known :math:`\log Z`.

An energy maps points ``(N, *event)`` to ``(N,)``. The model's density is
:math:`q(x) = e^{-E(x)} / Z`.

References:
    Kim & Ye (2022), *Mitigating Out-of-Distribution Data Density Overestimation in
    Energy-Based Models*, appendix B.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn


def _event_shape(shape: int | Sequence[int], name: str) -> tuple[int, ...]:
    event = (shape,) if isinstance(shape, int) else tuple(int(size) for size in shape)
    if not event or any(size < 1 for size in event):
        raise ValueError(f"{name}: event_shape={shape} must be one or more positive sizes")
    return event


def _expect(x: Tensor, event_shape: tuple[int, ...], name: str) -> None:
    if x.shape[1:] != event_shape:
        raise ValueError(
            f"{name} takes points of shape (N, {', '.join(map(str, event_shape))}), "
            f"got {tuple(x.shape)}"
        )


def _mlp(inputs: int, outputs: int, width: int, layers: int, slope: float) -> nn.Sequential:
    if width < 1 or layers < 1:
        raise ValueError(f"width={width} and layers={layers} must be at least 1")
    modules: list[nn.Module] = []
    for _ in range(layers - 1):
        modules += [nn.Linear(inputs, width), nn.LeakyReLU(slope)]
        inputs = width
    return nn.Sequential(*modules, nn.Linear(inputs, outputs))


class MLP(nn.Module):
    """A multi-layer perceptron with one output. The paper's energy in 2-D.

    Arguments:
        event_shape: Shape of one point; flattened.
        width: Units per hidden layer.
        layers: Linear layers. The paper's "four layers" is read as four of these.
        slope: Negative slope of the LeakyReLU.

    >>> MLP(2)(torch.zeros(5, 2)).shape
    torch.Size([5])
    """

    def __init__(
        self,
        event_shape: int | Sequence[int],
        width: int = 512,
        layers: int = 4,
        slope: float = 0.2,
    ) -> None:
        super().__init__()
        self.event_shape = _event_shape(event_shape, "MLP")
        self.settings = {"width": width, "layers": layers, "slope": slope}
        self.net = _mlp(math.prod(self.event_shape), 1, width, layers, slope)

    def forward(self, x: Tensor) -> Tensor:
        _expect(x, self.event_shape, "MLP")
        energy: Tensor = self.net(x.flatten(1)).squeeze(1)
        return energy


class Reconstruction(nn.Module):
    r""":math:`E(x) = \|x - f(x)\|^2` with a multi-layer perceptron f. The paper's energy in 1-D.

    Never negative, and small only where f leaves x in its place. Arguments as in :class:`MLP`.
    """

    def __init__(
        self,
        event_shape: int | Sequence[int],
        width: int = 512,
        layers: int = 4,
        slope: float = 0.2,
    ) -> None:
        super().__init__()
        self.event_shape = _event_shape(event_shape, "Reconstruction")
        dim = math.prod(self.event_shape)
        self.net = _mlp(dim, dim, width, layers, slope)

    def forward(self, x: Tensor) -> Tensor:
        _expect(x, self.event_shape, "Reconstruction")
        flat = x.flatten(1)
        reconstruction: Tensor = self.net(flat)
        return (flat - reconstruction).square().sum(1)


class Conv(nn.Module):
    """The paper's convolutional energy for images ``(channels, height, width)``.

    Each 3×3 convolution is followed by a LeakyReLU and 2×2 average pooling; two linear layers
    end in one output. The paper gives neither padding nor the width of the first linear layer.
    Without padding the network is blind to 300 of the 784 pixels of a 28×28 image, and points
    can keep their distance where it does not look; so: padding 1, width 128.

    Arguments:
        event_shape: ``(channels, height, width)``; grey, colour, or any number of channels.
        filters: Filters of each convolution.
        width: Units between the two linear layers.
        slope: Negative slope of the LeakyReLU.
    """

    def __init__(
        self,
        event_shape: Sequence[int] = (1, 28, 28),
        filters: Sequence[int] = (32, 64, 128),
        width: int = 128,
        slope: float = 0.4,
    ) -> None:
        super().__init__()
        self.event_shape = _event_shape(event_shape, "Conv")
        self.settings = {"filters": list(filters), "width": width, "slope": slope}
        smallest = 2 ** len(filters)
        if len(self.event_shape) != 3 or min(self.event_shape[1:]) < smallest:
            raise ValueError(
                f"Conv: event_shape={tuple(event_shape)} must be (channels, height, width) with "
                f"height and width at least {smallest}: {len(filters)} poolings halve them each"
            )
        channels, height, breadth = self.event_shape
        blocks: list[nn.Module] = []
        for a, b in zip([channels, *filters[:-1]], filters, strict=True):
            blocks += [nn.Conv2d(a, b, 3, padding=1), nn.LeakyReLU(slope), nn.AvgPool2d(2)]
            height, breadth = height // 2, breadth // 2
        features = filters[-1] * height * breadth
        self.net = nn.Sequential(
            *blocks,
            nn.Flatten(),
            nn.Linear(features, width),
            nn.LeakyReLU(slope),
            nn.Linear(width, 1),
        )
        # Stored channels-last, convolutions on a CPU are half as fast again.
        self.net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, x: Tensor) -> Tensor:
        _expect(x, self.event_shape, "Conv")
        energy: Tensor = self.net(x).squeeze(1)
        return energy


@dataclass(frozen=True)
class Gaussian:
    r""":math:`E(x) = \tfrac12 \sum_k ((x_k - \mu_k) / \sigma_k)^2`, independent coordinates.

    >>> from uspebm.randomness import generator
    >>> q = Gaussian(mean=(0.0, 1.0), std=0.5)
    >>> q(torch.tensor([[0.5, 1.0]]))
    tensor([0.5000])
    >>> q.sample(3, generator(0)).shape
    torch.Size([3, 2])
    """

    mean: tuple[float, ...]
    std: float | tuple[float, ...] = 1.0

    def __post_init__(self) -> None:
        stds = self.std if isinstance(self.std, tuple) else (self.std,)
        if min(stds) <= 0:
            raise ValueError(f"std={self.std} must be positive")
        if isinstance(self.std, tuple) and len(self.std) != len(self.mean):
            raise ValueError(f"std has {len(self.std)} values, mean has {len(self.mean)}")

    @property
    def log_z(self) -> float:
        """Exact log-partition function."""
        stds = self.std if isinstance(self.std, tuple) else (self.std,) * len(self.mean)
        return math.fsum(0.5 * math.log(2 * math.pi) + math.log(s) for s in stds)

    def __call__(self, x: Tensor) -> Tensor:
        _expect(x, (len(self.mean),), "Gaussian")
        return 0.5 * ((x - x.new_tensor(self.mean)) / x.new_tensor(self.std)).square().sum(1)

    def log_prob(self, x: Tensor) -> Tensor:
        """Normalised log-density, ``(N,)``."""
        return -self(x) - self.log_z

    def sample(
        self, n: int, generator: torch.Generator, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """``n`` independent points."""
        z = torch.randn(
            n, len(self.mean), generator=generator, dtype=dtype, device=generator.device
        )
        return z.new_tensor(self.mean) + z.new_tensor(self.std) * z


@dataclass(frozen=True)
class GaussianMixture:
    r"""Isotropic Gaussians of one width.

    .. math:: E(x) = -\log \sum_k w_k e^{-\|x - \mu_k\|^2 / 2\sigma^2}

    ``weights`` sum to one; equal if not given.

    >>> p = GaussianMixture(means=((-0.5,), (0.5,)), std=0.05)
    >>> round(p.log_prob(torch.tensor([[0.5]])).exp().item(), 3)  # half a Gaussian's peak
    3.989
    """

    means: tuple[tuple[float, ...], ...]
    std: float
    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.std <= 0:
            raise ValueError(f"std={self.std} must be positive")
        if len({len(mean) for mean in self.means}) != 1:
            raise ValueError(f"means={self.means} must be points of one dimension, at least one")
        if self.weights is not None:
            if len(self.weights) != len(self.means) or min(self.weights) <= 0:
                raise ValueError(
                    f"weights={self.weights} must be {len(self.means)} positive numbers"
                )
            if not math.isclose(math.fsum(self.weights), 1.0, rel_tol=1e-9):
                raise ValueError(f"weights={self.weights} must sum to 1")

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return len(self.means[0])

    @property
    def mode_weights(self) -> tuple[float, ...]:
        """The weight of each component."""
        return self.weights or (1.0 / len(self.means),) * len(self.means)

    @property
    def log_z(self) -> float:
        """Exact log-partition function."""
        return 0.5 * self.dim * math.log(2 * math.pi * self.std**2)

    def __call__(self, x: Tensor) -> Tensor:
        _expect(x, (self.dim,), "GaussianMixture")
        offset = x.unsqueeze(1) - x.new_tensor(self.means)
        exponent = -0.5 * offset.square().sum(-1) / self.std**2
        return -torch.logsumexp(exponent + x.new_tensor(self.mode_weights).log(), dim=1)

    def log_prob(self, x: Tensor) -> Tensor:
        """Normalised log-density, ``(N,)``."""
        return -self(x) - self.log_z

    def sample(
        self, n: int, generator: torch.Generator, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """``n`` independent points."""
        device = generator.device
        weights = torch.tensor(self.mode_weights, dtype=torch.float64, device=device)
        mode = torch.multinomial(weights, n, replacement=True, generator=generator)
        means = torch.tensor(self.means, dtype=dtype, device=device)
        noise = torch.randn(n, self.dim, generator=generator, dtype=dtype, device=device)
        return means[mode] + self.std * noise
