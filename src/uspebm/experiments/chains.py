"""Whether SRLMC's chains mix on images: what becomes of samples while chains run on.

Chains that mix share mass between the classes as the model's density does. Chains that do not leave
each class the mass it happens to have, and training cannot tell.
"""

import torch
from torch import Tensor

from ..negative import Langevin
from ..support.randomness import generator
from ..types import Energy

RUNS_LATER = 50
"""Runs of a chain, one after the other, until it is looked at again."""


def kept_class(
    energy: Energy,
    sampler: Langevin,
    samples: Tensor,
    train: Tensor,
    labels: Tensor,
    seed: int,
) -> tuple[float, Tensor]:
    """Share of ``samples`` of the same class ``RUNS_LATER`` runs later, and where these end.

    The class is that of the nearest training image. Of chains that mix, about one in ten keeps it.
    """
    later = samples
    for k in range(RUNS_LATER):
        later = sampler.run(energy, later, generator(seed, "longer", k))
    before, after = (labels[_nearest(x, train)] for x in (samples, later))
    return (before == after).float().mean().item(), later


def _nearest(images: Tensor, others: Tensor) -> Tensor:
    """To each image, the index of the nearest of the others."""
    return torch.cdist(images.flatten(1), others.flatten(1)).argmin(1)
