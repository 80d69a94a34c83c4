r"""Networks as energies :math:`E_\theta`: the paper's three.

An energy maps points ``(N, *event)`` to ``(N,)``. The model's density is
:math:`q(x) = e^{-E(x)} / Z`.

References:
    Kim & Ye (2022), *Mitigating Out-of-Distribution Data Density Overestimation in
    Energy-Based Models*, appendix B.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from .shapes import expect_shape

FINE_BLOCKS = 2
"""Blocks of a convolutional energy whose filters are features by their means."""


def _event_shape(shape: int | Sequence[int], name: str) -> tuple[int, ...]:
    event = (shape,) if isinstance(shape, int) else tuple(int(size) for size in shape)
    if not event or any(size < 1 for size in event):
        raise ValueError(f"{name}: event_shape={shape} must be one or more positive sizes")
    return event


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

    >>> energy = MLP(2, width=16)
    >>> energy(torch.zeros(5, 2)).shape  # a number for each point
    torch.Size([5])
    >>> MLP((1, 8, 8))(torch.zeros(3, 1, 8, 8)).shape  # of any shape: points are flattened
    torch.Size([3])
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
        expect_shape(x, self.event_shape, "MLP")
        energy: Tensor = self.net(x.flatten(1)).squeeze(1)
        return energy


class Reconstruction(nn.Module):
    r""":math:`E(x) = \|x - f(x)\|^2` with a multi-layer perceptron f. The paper's energy in 1-D.

    Never negative, and small only where f leaves x in its place. ``event_shape``, ``width``,
    ``layers`` and ``slope`` of f are as in :class:`MLP`.

    >>> energy = Reconstruction(1, width=16)
    >>> bool((energy(torch.linspace(-1.0, 1.0, 9).unsqueeze(1)) >= 0).all())
    True
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
        self.settings = {"width": width, "layers": layers, "slope": slope}
        dim = math.prod(self.event_shape)
        self.net = _mlp(dim, dim, width, layers, slope)

    def forward(self, x: Tensor) -> Tensor:
        expect_shape(x, self.event_shape, "Reconstruction")
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

    >>> energy, images = Conv((3, 32, 32)), torch.zeros(4, 3, 32, 32)
    >>> energy(images).shape, energy.features(images).shape  # 32 + 64 means, 128 units
    (torch.Size([4]), torch.Size([4, 224]))
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
        expect_shape(x, self.event_shape, "Conv")
        energy: Tensor = self.net(x).squeeze(1)
        return energy

    def features(self, x: Tensor) -> Tensor:
        """What is seen of images: ``(N, m)``.

        The mean of every filter of the first two blocks, which know texture and contrast wherever
        they are, and the layer before the last, which knows what is where.
        """
        expect_shape(x, self.event_shape, "Conv")
        means: list[Tensor] = []
        for module in list(self.net)[:-1]:
            x = module(x)
            if isinstance(module, nn.AvgPool2d) and len(means) < FINE_BLOCKS:
                means.append(x.mean((2, 3)))
        return torch.cat([*means, x], 1)
