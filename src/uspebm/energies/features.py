r"""Distance to the data in what a network sees of it: an energy over features.

A network that PS-USP trained knows more than its last number says: its hidden layers tell images of
a kind that it never saw from those it did, where its energy does not. So the images recipe trains
an energy, and then scores by how far an image's features are from the data's.

Training also forgets: what tells no data from the points around them is lost, though a kind that
comes later may differ in just that. A small network that was never trained has lost nothing:
distances in what it sees are taken beside, and the two energies are added. In one distance the
network with more features would outvote the other.

Three settings lie between extremes that each fail somewhere (LOG.md has the figures). Whitened
features make every direction count alike, noise included; as they are, a few directions count
alone: each is divided by the root of its deviation. A distance forgets that some kinds of data lie
closer together than others; its ratio to the neighbours' own distances, as in LOF, forgets how far
away a point is: it is divided by a power of them, and own distances beyond a quantile count as
that, since near a training point that lies alone anything would seem usual. Distances to neighbours
grow with how far these are from each other, the distance to their middle forgets whether any of
them is near: both count.

References:
    Breunig, Kriegel, Ng, Sander (2000), *LOF: identifying density-based local outliers*.
    Sun, Ming, Zhu, Li (2022), *Out-of-distribution detection with deep nearest neighbors*.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from ..support.checks import at_least, one_of
from ..support.randomness import generator
from .nearest import TINY, Nearest, SearchMixin, log_scales
from .reading import OF_NETWORKS, PLAIN, Reading
from .rules import EnergyRule
from .shapes import expect_shape
from .turning import Turning, half_whitening

MOST_KEPT = 20_000_000
"""Of all centres together: 80 megabytes."""
PIXELS_AT_ONCE = 10_000_000
"""In points whose features are found at a time."""


class Pixels(nn.Module):
    """Points seen as they are: the network of an energy over pixels. It has no weights."""

    def __init__(self, event_shape: tuple[int, ...]) -> None:
        super().__init__()
        self.event_shape = tuple(event_shape)
        self.settings: dict[str, float] = {}

    def features(self, x: Tensor) -> Tensor:
        expect_shape(x, self.event_shape, "Pixels")
        return x.flatten(1)


class Joined(nn.Module):
    """A network, and one beside it that was not trained: what either sees.

    >>> both = Joined(Pixels((2,)), Pixels((2,)))
    >>> both.features(torch.tensor([[1.0, 2.0]]))
    tensor([[1., 2., 1., 2.]])
    """

    def __init__(self, network: nn.Module, untrained: nn.Module) -> None:
        super().__init__()
        self.networks = nn.ModuleList([network, untrained])

    @property
    def event_shape(self) -> tuple[int, ...]:
        """The trained network's."""
        return tuple(self.networks[0].event_shape)  # type: ignore[arg-type]

    def features(self, x: Tensor) -> Tensor:
        return torch.cat([network.features(x) for network in self.networks], 1)  # type: ignore[operator]


class FeatureEnergy(SearchMixin, nn.Module):
    r"""How far a point's features are from those of training points.

    .. math:: E(x) = \sum_\varphi \Big[
              \tfrac{1}{2} \log \frac{1}{k} \sum_{i=1}^{k} \|\varphi(x) - \varphi(x_{(i)})\|
              + \tfrac{1}{2} \log \Big\| \varphi(x)
              - \frac{1}{c} \sum_{i=1}^{c} \varphi(x_{(i)}) \Big\|
              - \frac{\lambda}{a} \sum_{i=1}^{a} \log s_{(i)} \Big]

    over the features :math:`\varphi` of each network, with the centre :math:`x_{(i)}` the i-th
    nearest by them, and :math:`s_{(i)}` that centre's own mean distance to its k nearest others, or
    a quantile of all such distances where it is larger. c (``middle``), a (``around``), λ
    (``locality``) and the quantile (``cap``) are the :class:`Reading`'s; without c the first
    logarithm counts whole, and alone.

    It is a score that orders points: nothing is normalised, there is no Z, and no guarantee but
    one: what the network sees as it sees the data is called data. How well that finds what it never
    saw is a matter of measurement (RESULTS.md). :class:`FeatureRule` makes one of training points.

    Arguments:
        network: With a method ``features`` from points ``(N, *event)`` to ``(N, m)``; its own
            energy is not used.
        centres: ``(n, r)``: features of training points, shifted and turned.
        log_scale: ``(n,)``: log s; of several networks ``(n, networks)``.
        frame: Shift and turn of features. Left out: they are taken as they are.
        neighbours: k; of fewer centres, all but one, and so are c and a.
        reading: c, a, λ, and the quantile that ``log_scale`` was held below.

    >>> images = torch.rand(50, 1, 8, 8, generator=generator(0))
    >>> energy = FeatureRule(of="pixels").build(images, seed=0)
    >>> seen, turned_dark = energy(images[:1] + 0.01), energy(images[:1] - 1.0)
    >>> bool(turned_dark > seen)
    True
    """

    centres: Tensor
    log_scale: Tensor
    shift: Tensor | None
    turn: Tensor | None

    def __init__(
        self,
        network: nn.Module,
        centres: Tensor,
        log_scale: Tensor,
        frame: Turning | None = None,
        neighbours: int = 5,
        reading: Reading = PLAIN,
    ) -> None:
        super().__init__()
        at_least(1, neighbours=neighbours)
        if centres.dim() != 2 or len(centres) < 2 or not centres.shape[1]:
            raise ValueError(f"centres of shape {tuple(centres.shape)} must be two or more (n, r)")
        shift, turn, widths = frame or (None, None, ())
        self.widths = widths or (centres.shape[1],)
        at_least(1, **{f"widths[{i}]": width for i, width in enumerate(self.widths)})
        if sum(self.widths) != centres.shape[1]:
            raise ValueError(f"widths={self.widths} must add up to {centres.shape[1]} columns")
        wanted = (len(centres), len(self.widths))
        if tuple(log_scale.shape) != (wanted if len(self.widths) > 1 else wanted[:1]):
            raise ValueError(
                f"log_scale of shape {tuple(log_scale.shape)} must be one number for each of "
                f"{len(centres)} centres and {len(self.widths)} networks"
            )
        if shift is not None and turn is not None:
            turned = (shift.numel(), centres.shape[1])
            if shift.dim() != 1 or tuple(turn.shape) != turned:
                raise ValueError(f"turn of shape {tuple(turn.shape)} must have {turned}")
        given = [part for part in (centres, log_scale, shift, turn) if part is not None]
        if any(part.dtype != torch.float32 or not part.isfinite().all() for part in given):
            raise ValueError("centres, scales and frame must be finite numbers in float32")
        self.network = network
        self.neighbours = neighbours
        self.reading = reading
        self.register_buffer("centres", centres)
        self.register_buffer("log_scale", log_scale)
        self.register_buffer("shift", shift)
        self.register_buffer("turn", turn)

    @property
    def takes(self) -> torch.dtype:
        """Of points: the precision of the centres, since pixels have no weights to tell."""
        return self.centres.dtype

    @property
    def event_shape(self) -> tuple[int, ...]:
        """The network's."""
        return tuple(self.network.event_shape)  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        searches, places = self._searches(self.widths), self.places(x).split(self.widths, 1)
        scales = self.log_scale.view(len(self.centres), -1).unbind(1)
        far = [self._far(*one) for one in zip(searches, places, scales, strict=True)]
        return torch.stack(far).sum(0)

    def _far(self, search: Nearest, z: Tensor, log_scale: Tensor) -> Tensor:
        """By the features of one network."""
        reading = self.reading
        asked = (self.neighbours, reading.middle or 1, reading.around or self.neighbours)
        k, middle, around = (min(count, len(self.centres) - 1) for count in asked)
        which = search.which(z, max(k, middle, around))
        far = search.distances(z, which[:, :k]).mean(1).log()
        if reading.middle is not None:
            away = (z - search.middle(which[:, :middle])).square().sum(1)
            far = 0.5 * far + 0.25 * away.clamp_min(TINY).log()  # of a square
        return far - reading.locality * log_scale[which[:, :around]].mean(1)

    def places(self, x: Tensor) -> Tensor:
        """Where points are among the centres, ``(N, r)``."""
        z: Tensor = self.network.features(x)  # type: ignore[operator]
        if self.shift is not None and self.turn is not None:
            z = (z - self.shift) @ self.turn
        return z


@dataclass(frozen=True)
class FeatureRule:
    """A :class:`FeatureEnergy` over a trained network, or over pixels.

    Arguments:
        of: Whose features.
        centres: Training points that are kept, by their features; all where there are fewer, and of
            pixels no more than have :data:`MOST_KEPT` together. The more, the more is found, and
            the longer a score takes.
        neighbours: Of those, how many nearest count.
        reading: What of them counts further. Left out: :data:`OF_NETWORKS`, or of pixels
            :data:`PLAIN`.
        beside: A rule for a network that is not trained; distances by its features count as much.

    >>> from uspebm import Conv
    >>> from uspebm.energies.rules import ConvRule
    >>> images = torch.rand(50, 1, 8, 8, generator=generator(0))
    >>> rule = FeatureRule(centres=30, beside=ConvRule((4, 4, 4), width=8))
    >>> energy = rule.over(Conv((1, 8, 8)), images, seed=0)
    >>> energy.network.features(images).shape, energy.centres.shape  # 224 and 4 + 4 + 8
    (torch.Size([50, 240]), torch.Size([30, 224]))
    """

    of: Literal["network", "pixels"] = "network"
    centres: int = 60_000
    neighbours: int = 5
    reading: Reading | None = None
    beside: EnergyRule | None = None

    def __post_init__(self) -> None:
        one_of(("network", "pixels"), of=self.of)
        at_least(2, centres=self.centres)
        at_least(1, neighbours=self.neighbours)
        if self.reading is not None and not isinstance(self.reading, Reading):
            raise ValueError(f"reading={self.reading!r} must be a Reading")
        if self.beside is not None and (self.of == "pixels" or not hasattr(self.beside, "build")):
            raise ValueError(
                f"beside={self.beside!r} must be a rule that builds a network, such as ConvRule(), "
                "and pixels have none beside them"
            )

    def build(self, points: Tensor, seed: int) -> FeatureEnergy:
        """Over pixels, which need no network."""
        if self.of != "pixels":
            raise ValueError("features of a network need one that is trained: see over")
        return self.over(Pixels(tuple(points.shape[1:])), points, seed)

    def check(self, network: nn.Module, points: Tensor) -> None:
        """An error where ``network``, or that beside it, shows no features: before training."""
        if self.of == "pixels":
            return
        beside = [] if self.beside is None else [self.beside.build(points[:1], seed=0)]
        for one in (network, *beside):
            if not hasattr(one, "features"):
                raise ValueError(
                    f"{type(one).__name__} has no method features(x): an energy over features "
                    "needs a network that shows them, such as Conv"
                )

    def over(self, network: nn.Module, points: Tensor, seed: int) -> FeatureEnergy:
        """With centres among ``points``; the same ones for the same seed."""
        self.check(network, points)
        if len(points) < 2:
            raise ValueError(f"{len(points)} training points are too few: distances need two")
        most, shape = self.centres, tuple(points.shape[1:])
        if self.of == "pixels":
            network, most = Pixels(shape), min(most, max(2, MOST_KEPT // math.prod(shape)))
        elif self.beside is not None:
            network = Joined(network, self.beside.build(points[:1], seed))
        chosen = torch.randperm(len(points), generator=generator(seed, "centres"))[:most]
        network.eval()  # as it will score
        centres, frame = features_of(network, points[chosen].float()), None
        widths: tuple[int, ...] = (centres.shape[1],)
        if self.of != "pixels":  # which share a unit, and are too many to be turned
            parts = network.networks if isinstance(network, Joined) else [network]
            sizes = [features_of(one, points[:1].float()).shape[1] for one in parts]
            frame = half_whitening(centres, sizes)
            centres, widths = (centres - frame.shift) @ frame.turn, frame.widths
        reading = self.reading or (PLAIN if self.of == "pixels" else OF_NETWORKS)
        k = min(self.neighbours, len(centres) - 1)
        scales = [
            log_scales(Nearest(part).among_themselves(k)[0], reading.cap)
            for part in centres.split(widths, 1)
        ]
        scale = torch.stack(scales, 1) if len(scales) > 1 else scales[0]
        return FeatureEnergy(network, centres, scale, frame, self.neighbours, reading)


@torch.no_grad()
def features_of(network: nn.Module, points: Tensor) -> Tensor:
    """What ``network`` sees in ``points``, however many they are."""
    size = max(1, min(500, PIXELS_AT_ONCE // math.prod(points.shape[1:])))
    return torch.cat([network.features(part) for part in points.split(size)])  # type: ignore[operator]
