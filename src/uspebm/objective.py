r"""What is learned: how the data's energies enter the loss.

Whatever nodes stand in for q, the loss is a *data term* minus the nodes' weighted mean energy, and
its gradient vanishes where q is a known function of the data's law p:

============  ================================  ===================================
objective     data term                         comes to rest at
============  ================================  ===================================
Likelihood    :math:`\mathbb{E}_p[E]`           :math:`q = p`
Leveled(λ)    the same + λ :math:`Var_p(E)`     :math:`q = p (1 + 2λ(E - \bar E))`
Tempered(τ)   :math:`\log E_p[e^{τE}] / τ`      :math:`q \propto p^{1/(1+τ)}`
============  ================================  ===================================

The first is maximum likelihood,
:math:`\nabla_\theta \mathbb{E}_p[\log q] = \mathbb{E}_q[\nabla_\theta E] -
\mathbb{E}_p[\nabla_\theta E]`. The others keep the order of densities and take their spread away:
among images log p spreads over hundreds of nats, and a threshold that keeps 95 % of them keeps much
else. Tempering is the paper's Prop. 3 on purpose, with :math:`\rho = 1 + \tau` known.

Not guaranteed: that training comes to rest there. These are the laws of an energy that can be any
function; a network is not, and nodes are not q.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from .support.checks import positive
from .types import Energy, Nodes


class Objective(Protocol):
    """A frozen value: the data term, and how to read a density off energies at rest.

    >>> energy = torch.tensor([0.0, 1.0])
    >>> given = {"energy": energy, "data_energy": energy, "log_z": 0.0}
    >>> [o.log_density(**given).diff().item() for o in (Likelihood(), Tempered(1.0))]  # p ∝ q²
    [-1.0, -2.0]
    """

    def data_term(self, energy: Tensor) -> Tensor:
        """Of the energies ``(N,)`` of a batch of data: a scalar with a graph."""
        ...

    def log_density(self, energy: Tensor, data_energy: Tensor, log_z: float) -> Tensor:
        """log p at points of these energies, were the model at rest.

        Arguments:
            energy: Of the points, ``(M,)``.
            data_energy: Of draws from p, ``(N,)``.
            log_z: log ∫ exp(−E).
        """
        ...


@dataclass(frozen=True)
class Likelihood:
    """Maximum likelihood: q = p at rest.

    >>> Likelihood().data_term(torch.tensor([1.0, 3.0])).item()
    2.0
    """

    def data_term(self, energy: Tensor) -> Tensor:
        return energy.mean()

    def log_density(self, energy: Tensor, data_energy: Tensor, log_z: float) -> Tensor:
        return -energy - log_z


LIKELIHOOD = Likelihood()
"""The usual one."""


@dataclass(frozen=True)
class Leveled:
    """Likelihood, and ``weight`` times the variance of the data's energies.

    At rest q = p (1 + 2λ(E − Ē)), and log q rises strictly with log p. No point of p has an energy
    of Ē − 1/(2λ) or less there; such points get an infinite density.

    >>> Leveled(10.0).data_term(torch.tensor([1.0, 3.0])).item()
    12.0
    """

    weight: float

    def __post_init__(self) -> None:
        positive(weight=self.weight)

    def data_term(self, energy: Tensor) -> Tensor:
        return energy.mean() + self.weight * energy.var(correction=0)

    def log_density(self, energy: Tensor, data_energy: Tensor, log_z: float) -> Tensor:
        factor = 1 + 2 * self.weight * (energy - data_energy.mean())
        return torch.where(factor > 0, -energy - log_z - factor.log(), math.inf)


@dataclass(frozen=True)
class Tempered:
    """The data's energies through a soft maximum: q ∝ p^(1/(1+τ)) at rest, wider than p.

    ``tau`` is τ: near zero it is the likelihood, and the larger, the more the least likely count.

    >>> Tempered(1.0).rho
    2.0
    >>> Tempered(100.0).data_term(torch.tensor([1.0, 3.0])).item()  # near the largest
    2.993...
    """

    tau: float

    def __post_init__(self) -> None:
        positive(tau=self.tau)

    @property
    def rho(self) -> float:
        """p ∝ q^ρ, as with Langevin chains of α / β = ρ (Kim & Ye, Prop. 3)."""
        return 1 + self.tau

    def data_term(self, energy: Tensor) -> Tensor:
        return self._log_mean(energy) / self.tau

    def log_density(self, energy: Tensor, data_energy: Tensor, log_z: float) -> Tensor:
        return -self.rho * energy + self._log_mean(data_energy) - log_z

    def _log_mean(self, energy: Tensor) -> Tensor:
        return torch.logsumexp(self.tau * energy, 0) - math.log(len(energy))


def mle_surrogate(energy: Energy, data: Tensor, nodes: Nodes) -> Tensor:
    r"""A scalar whose gradient is minus the log-likelihood's. Its value is not the likelihood.

    .. math:: \frac{1}{N} \sum_j E(x_j) - \sum_i w_i E(u_i), \qquad w = \mathrm{softmax}(\ell)

    of an ``energy``, data ``(N, *event)``, and nodes u whose weights w are constants.

    >>> nodes = Nodes(torch.tensor([[0.0], [2.0]]), torch.zeros(2))
    >>> mle_surrogate(lambda x: x.squeeze(1), torch.tensor([[3.0]]), nodes).item()
    2.0
    """
    return Likelihood().data_term(energy(data)) - node_term(energy(nodes.x), nodes.log_weight)


def node_term(energy: Tensor, log_weight: Tensor) -> Tensor:
    """The nodes' weighted mean energy: what every objective subtracts."""
    # Constants: grad(log Z) = -E_q[grad E], so no gradient flows through the weights.
    return (log_weight.softmax(0) * energy).sum()


def effective_sample_size(log_weight: Tensor) -> float:
    """How many equally weighted nodes would be worth as much: 1 / Σ w².

    w is the softmax of ``log_weight``, ``(N,)``.

    >>> round(effective_sample_size(torch.zeros(8)), 6)
    8.0
    >>> round(effective_sample_size(torch.tensor([9.0, 0.0, 0.0])), 3)  # one has all the weight
    1.0
    """
    log_w = log_weight.double().log_softmax(0)
    return torch.exp(-torch.logsumexp(2 * log_w, 0)).item()
