"""Why SRLMC's density cannot be trusted on images: where its chains go, and where they never come.

Training only compares the data's energy with that of the chains' ends. Two things then stay unknown
to it: the energy of places that no chain visits, and where chains would go if they went on.
"""

from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from ..negative import Langevin
from ..plots import save_images
from ..randomness import generator
from ..types import Energy

LONG = 50
"""Runs of a chain, one after the other, until it is looked at again."""


class Unmixed(NamedTuple):
    """What happens to chains that start at digits, and to samples that are moved on."""

    stay: float
    """Share of the chains from digits whose ends are nearer to their own start than to another: of
    chains that mix, one in as many as there are digits."""
    visited: float
    """Median distance of digits to the nearest sample, over that to the nearest of as many training
    images: below one if samples come nearer to digits than the data do."""
    collapse: float
    """Median distance of samples to the nearest other after ``LONG`` further runs, over that of as
    many training images: chains that reach the law they aim at tend to few of its modes."""


def unmixed(
    energy: Energy,
    sampler: Langevin,
    samples: Tensor,
    train: Tensor,
    digits: Tensor,
    seed: int,
    stem: Path | None = None,
) -> Unmixed:
    """Run chains from ``digits``, and on from as many ``samples``; draw them at ``stem``."""
    ends = sampler.run(energy, digits, generator(seed, "from digits"))
    home = torch.cdist(ends.flatten(1), digits.flatten(1)).argmin(1)
    later = samples[: len(digits)]
    for k in range(LONG):
        later = sampler.run(energy, later, generator(seed, "longer", k))
    if stem is not None:
        rows = (
            ("samples", samples),
            (f"{LONG * sampler.steps:,} steps later", later),
            ("digits", digits),
            (f"{sampler.steps} steps later", ends),
        )
        save_images(stem, rows)
    return Unmixed(
        (home == torch.arange(len(digits))).float().mean().item(),
        _nearest(digits, samples) / _nearest(digits, train[: len(samples)]),
        _apart(later) / _apart(train[: len(digits)]),
    )


def _nearest(images: Tensor, samples: Tensor) -> float:
    """Median distance to the nearest sample."""
    return torch.cdist(images.flatten(1), samples.flatten(1)).min(1).values.median().item()


def _apart(images: Tensor) -> float:
    """Median distance to the nearest other image."""
    distance = torch.cdist(images.flatten(1), images.flatten(1))
    return distance.fill_diagonal_(torch.inf).min(1).values.median().item()
