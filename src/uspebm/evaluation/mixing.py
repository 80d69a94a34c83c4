r"""Whether chains have mixed, and how many independent draws theirs are worth.

Each of M chains of length N is cut in two, so that a drift within a chain counts as a difference
between chains. With W the mean variance within, B / N the variance between their means, and
:math:`V = \tfrac{N - 1}{N} W + \tfrac{1}{N} B`,

.. math:: \hat R = \sqrt{V / W}, \qquad
    \mathrm{ESS} = \frac{M N}{1 + 2 \sum_t \hat\rho_t}, \qquad
    \hat\rho_t = 1 - \frac{W - \overline{s_m^2 \hat\rho_{t, m}}}{V},

the sum taken as long as sums of two neighbours are positive, which are kept from rising (Geyer).

Not guaranteed: that chains have found every mode. Where all of them miss one, both figures look
fine. Nor do they mean anything for laws without a variance.

References:
    Gelman & Rubin (1992); Geyer (1992); Vehtari et al. (2021), without its ranks.
"""

import math

import torch
from torch import Tensor

AT_ONCE_COORDINATES = 64


def split_r_hat(chains: Tensor) -> Tensor:
    """:math:`\\hat R` of every coordinate, ``(d,)``, of chains ``(M, N, d)``.

    Infinite where a coordinate never moves.

    >>> from uspebm.support.randomness import generator
    >>> x = torch.randn(4, 500, 1, generator=generator(0))
    >>> split_r_hat(x).item() < 1.01
    True
    >>> split_r_hat(x + torch.arange(4.0).view(4, 1, 1)).item() > 1.4
    True
    """
    within, total = _variances(_halves(chains))
    return torch.where(within > 0, (total / within).sqrt(), math.inf)


def chains_ess(chains: Tensor) -> Tensor:
    """The effective number of draws for the mean of every coordinate, ``(d,)``, as above.

    At most :math:`M N \\log_{10} M N` however much neighbours differ; 0 where one never moves.

    >>> from uspebm.support.randomness import generator
    >>> x = torch.randn(4, 500, 1, generator=generator(0))
    >>> 1500 < chains_ess(x).item() < 2500
    True
    """
    parts = chains.split(AT_ONCE_COORDINATES, dim=2)  # transforms take several times the memory
    return torch.cat([_ess(_halves(part)) for part in parts])


def _halves(chains: Tensor) -> Tensor:
    """``(2M, N // 2, d)``; of an odd number of draws the first is left out."""
    if chains.dim() != 3 or chains.shape[1] < 4:
        raise ValueError(
            f"chains have shape {tuple(chains.shape)}; they must be (chains, draws, coordinates), "
            "with at least 4 draws"
        )
    half = chains.shape[1] // 2
    return torch.cat(chains[:, -2 * half :].double().split(half, dim=1))


def _variances(halves: Tensor) -> tuple[Tensor, Tensor]:
    """W and V of every coordinate."""
    n = halves.shape[1]
    within = halves.var(1).mean(0)
    return within, (n - 1) / n * within + halves.mean(1).var(0)


def _ess(halves: Tensor) -> Tensor:
    m, n, _ = halves.shape
    within, total = _variances(halves)
    centred = halves - halves.mean(1, keepdim=True)
    spectrum = torch.fft.rfft(centred, 2 * n, dim=1).abs().square()
    covariance = torch.fft.irfft(spectrum, 2 * n, dim=1)[:, :n].mean(0) / n
    rho = 1 - (within - covariance * n / (n - 1)) / total
    pairs = rho[: n - n % 2].reshape(-1, 2, rho.shape[1]).sum(1)
    pairs = pairs * (pairs > 0).cumprod(0)
    tau = 2 * pairs.cummin(0).values.sum(0) - 1
    ess = m * n / tau.clamp_min(1 / math.log10(m * n))
    return torch.where(within > 0, ess, 0.0)
