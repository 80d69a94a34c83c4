"""Why SRLMC's density cannot be trusted on images: where its chains go, and where they never come.

Training only compares the data's energy with that of the chains' ends. Two things stay unknown to
it: the energy of places that no chain visits, and how to share mass between places that no chain
connects.
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
    """What happens to chains that start at digits, and to samples that are moved on.

    Of chains that mix, the share that *stays*, ending nearer to their own start than to another,
    would be one in as many as there are.
    """

    digits_stay: float
    """Of chains from digits, as long as in training."""
    samples_stay: float
    """Of samples moved on for ``LONG`` such runs."""
    visited: float
    """Median distance of digits to the nearest sample, over that to the nearest of as many training
    images: below one if samples come nearer to digits than the data do."""


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
    later = chosen = samples[: len(digits)]
    for k in range(LONG):
        later = sampler.run(energy, later, generator(seed, "longer", k))
    if stem is not None:
        rows = (
            ("samples", chosen),
            (f"{LONG * sampler.steps:,} steps later", later),
            ("digits", digits),
            (f"{sampler.steps} steps later", ends),
        )
        save_images(stem, rows)
    return Unmixed(
        _stay(digits, ends),
        _stay(chosen, later),
        _nearest(digits, samples) / _nearest(digits, train[: len(samples)]),
    )


def _stay(starts: Tensor, ends: Tensor) -> float:
    """Share of the ends whose own start is the nearest."""
    home = torch.cdist(ends.flatten(1), starts.flatten(1)).argmin(1)
    return (home == torch.arange(len(starts))).float().mean().item()


def _nearest(images: Tensor, samples: Tensor) -> float:
    """Median distance to the nearest sample."""
    return torch.cdist(images.flatten(1), samples.flatten(1)).min(1).values.median().item()
