r"""A density that an energy is measured against.

An energy need not be learned from nothing. With a law r that is known,

.. math:: E(x) = -\log r(x) + f_\theta(x), \qquad \log Z = \log \mathbb{E}_r[e^{-f_\theta}],

a network has to learn only what r gets wrong; far from the data, energies grow whatever the network
says there; and log Z is a mean over exact draws. Here r is a kernel density estimate: a Gaussian of
one width around every one of some training points.
"""

import math

import torch
from torch import Tensor, nn

WIDTHS = 12
"""Bandwidths that are tried at first, and then between the neighbours of the best of them."""
DECIDING = 500
"""Points whose likelihood decides between them; points at a time."""
MOST_NUMBERS = 20_000_000
"""In points that are held at a time, whatever their shape: 160 MB."""
NETWORK_REACH = 1e4
"""A network sees no coordinate that is larger: float32 has an end."""


class KernelReference(nn.Module):
    """Gaussians of one bandwidth around ``centres``; as an energy, minus their log-density.

    Computed in float64: where bandwidths are small, distances in float32 are not.

    Arguments:
        centres: ``(K, *event)``.
        bandwidth: Standard deviation of every Gaussian in every direction.

    >>> r = KernelReference(torch.tensor([[-1.0], [1.0]]), 0.5)
    >>> x = torch.linspace(-4, 4, 801)[:, None]
    >>> round((r.log_prob(x).exp().sum() * 0.01).item(), 6)
    1.0
    """

    centres: Tensor
    bandwidth: Tensor

    def __init__(self, centres: Tensor, bandwidth: float) -> None:
        super().__init__()
        self.register_buffer("centres", centres.double())
        self.register_buffer("bandwidth", torch.tensor(bandwidth, dtype=torch.float64))

    def log_prob(self, x: Tensor) -> Tensor:
        """Log-densities ``(N,)``."""
        count, d = len(self.centres), self.centres[0].numel()
        normaliser = math.log(count) + d * self.bandwidth.log() + 0.5 * d * math.log(2 * math.pi)
        a, b = (points.flatten(1).double() / self.bandwidth for points in (x, self.centres))
        # −‖a − b‖² / 2 but for a's own part, which is the same for every b: three passes less.
        exponent = torch.addmm(-0.5 * b.square().sum(1), a, b.T)
        return torch.logsumexp(exponent, 1) - 0.5 * a.square().sum(1) - normaliser

    def forward(self, x: Tensor) -> Tensor:
        """Energies ``(N,)``."""
        return -self.log_prob(x)

    def sample(
        self, n: int, generator: torch.Generator, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """``n`` independent points."""
        shape, where = (n, *self.centres.shape[1:]), generator.device
        chosen = torch.randint(len(self.centres), (n,), generator=generator, device=where)
        # In their place: points of very many columns are held twice and no more.
        x = torch.randn(shape, generator=generator, dtype=self.centres.dtype, device=where)
        return x.mul_(self.bandwidth).add_(self.centres[chosen]).to(dtype)


class TiltedEnergy(nn.Module):
    """What a network adds to a reference: E(x) = f(x) − log r(x).

    ``strength`` times the network is f: one, or zero where the reference alone is better.
    ``takes`` is the kind of numbers it wants: distances in float32 are not what they should be.
    """

    takes = torch.float64
    strength: Tensor

    def __init__(self, network: nn.Module, reference: KernelReference) -> None:
        super().__init__()
        self.network = network
        self.reference = reference
        self.register_buffer("strength", torch.ones(()))

    def tilt(self, x: Tensor) -> Tensor:
        """f, ``(N,)``. Of float32 and of points that are not too far for it."""
        # Before it becomes single: what overflows there is no number to some programs.
        near = x.clamp(-NETWORK_REACH, NETWORK_REACH).float()
        network: Tensor = self.network(near)
        return self.strength * network

    def forward(self, x: Tensor) -> Tensor:
        energy: Tensor = self.reference(x) + self.tilt(x)
        return energy

    @torch.no_grad()
    def log_z(self, draws: int, generator: torch.Generator) -> tuple[float, float]:
        """log Z = log E_r[exp(−f)] by draws from r, and its standard error.

        Zero and zero where the reference alone counts: it is normalised.
        """
        if not self.strength:
            return 0.0, 0.0
        x = self.reference.sample(draws, generator)
        log_weight = -torch.cat([self.tilt(part) for part in x.split(DECIDING)]).double()
        value = log_mean_exp(log_weight)
        return value, torch.exp(log_weight - value).std().item() / math.sqrt(draws)


def affordable(count: int, points: Tensor, numbers: int | None = None) -> int:
    """``count``, or as many points like ``points`` as have so many ``numbers``; one at least.

    Left out: :data:`MOST_NUMBERS`.

    >>> affordable(2000, torch.empty(3, 100)), affordable(2000, torch.empty(1, 1_000_000))
    (2000, 20)
    """
    most = MOST_NUMBERS if numbers is None else numbers
    return max(1, min(count, most // math.prod(points.shape[1:])))


def log_mean_exp(values: Tensor) -> float:
    """In float64."""
    return torch.logsumexp(values.double(), 0).item() - math.log(len(values))


def pairwise_squared(x: Tensor, y: Tensor) -> Tensor:
    """``(N, K)``, in float64."""
    a, b = x.flatten(1).double(), y.flatten(1).double()
    return (a.square().sum(1, keepdim=True) + b.square().sum(1) - 2 * a @ b.T).clamp_min(0.0)


def distances_to_others(rows: Tensor, points: Tensor) -> Tensor:
    """Squared distances from ``rows``, the first of ``points``; infinite between equal ones."""
    squared = pairwise_squared(rows, points)
    squared[squared <= 1e-12 * squared.mean()] = math.inf
    return squared.fill_diagonal_(math.inf)


def likeliest_bandwidth(points: Tensor, deciding: int = DECIDING) -> tuple[float, float]:
    """The bandwidth under which points are likeliest given the others, and their mean log-density.

    Of some of the points, ``deciding``. Equal points do not count as others: they would call
    for a bandwidth of zero, and rounded or counted values have many.
    """
    squared = distances_to_others(points[:deciding], points)
    others = (squared < math.inf).sum(1)
    squared, others = squared[others > 0], others[others > 0]
    if not len(squared):
        return 1.0, -math.inf  # all points are one
    d = points[0].numel()
    normaliser = others.double().log().mean() + 0.5 * d * math.log(2 * math.pi)
    # Sums of exponentials in single precision: what counts is of the size of the largest, exp(0).
    # What would be no normal number any more takes processors fifty times as long.
    nearest = squared.min(1).values
    beyond = (squared - nearest[:, None]).float()
    kernels = torch.empty_like(beyond)

    def likelihood(log_width: Tensor) -> Tensor:
        sharpness = 0.5 * torch.exp(-2 * log_width)
        terms = torch.mul(beyond, -sharpness.item(), out=kernels).clamp_min_(-80.0).exp_()
        sums = terms.sum(1).double().log()
        return (sums - sharpness * nearest).mean() - d * log_width - normaliser

    # From a tenth of what lies between neighbours, of which d dimensions have sqrt(d) bandwidths,
    # to twice the spread of all points.
    farthest = squared[squared < math.inf].mean()
    low, high = (0.5 * torch.log(edge / d) for edge in (nearest.mean() / 100, 4 * farthest))
    for _ in range(2):
        widths = torch.linspace(low.item(), high.item(), WIDTHS, dtype=torch.float64)
        found = torch.stack([likelihood(width) for width in widths])
        best = int(found.argmax())
        low, high = widths[max(best - 1, 0)], widths[min(best + 1, WIDTHS - 1)]
    return widths[best].exp().item(), found[best].item()
