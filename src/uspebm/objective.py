r"""The maximum-likelihood objective, through whatever nodes stand in for q.

.. math:: \nabla_\theta \mathbb{E}_p[\log q]
          = \mathbb{E}_q[\nabla_\theta E] - \mathbb{E}_p[\nabla_\theta E]
"""

import torch
from torch import Tensor

from .types import Energy, Nodes


def mle_surrogate(energy: Energy, data: Tensor, nodes: Nodes) -> Tensor:
    """A scalar whose gradient is minus the log-likelihood's. Its value is not the likelihood."""
    return contrast(energy(data), energy(nodes.x), nodes.log_weight)


def contrast(data_energy: Tensor, node_energy: Tensor, log_weight: Tensor) -> Tensor:
    """The surrogate, given the energies of data and nodes."""
    # Constants: grad(log Z) = -E_q[grad E], so no gradient flows through the weights.
    weight = log_weight.softmax(0)
    return data_energy.mean() - (weight * node_energy).sum()


def effective_sample_size(log_weight: Tensor) -> float:
    """How many equally weighted nodes would be worth as much: 1 / Σ w².

    >>> round(effective_sample_size(torch.zeros(8)), 6)
    8.0
    """
    log_w = log_weight.double().log_softmax(0)
    return torch.exp(-torch.logsumexp(2 * log_w, 0)).item()
