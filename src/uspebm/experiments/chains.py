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
    """What happens to chains that start at digits, and to samples that are moved on."""

    digits_stay: float
    """Share of the chains from digits, as long as in training, that end nearer to their own start
    than to another: of chains that mix, one in as many as there are. So short, they stay on a
    flat energy too."""
    samples_stay: float
    """Share of the samples that, ``LONG`` such runs later, still resemble the same class, which is
    that of the nearest training image: of chains that mix, about one in ten."""
    visited: float
    """Median distance of digits to the nearest sample, over that to the nearest of as many training
    images: below one if samples come nearer to digits than the data do."""


def unmixed(
    energy: Energy,
    sampler: Langevin,
    samples: Tensor,
    train: Tensor,
    labels: Tensor,
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
        _same(_nearest(ends, digits).indices, torch.arange(len(digits))),
        _same(labels[_nearest(later, train).indices], labels[_nearest(chosen, train).indices]),
        _far(digits, samples) / _far(digits, train[: len(samples)]),
    )


def _nearest(images: Tensor, others: Tensor) -> torch.return_types.min:
    """To each image, the nearest of the others, and its distance."""
    return torch.cdist(images.flatten(1), others.flatten(1)).min(1)


def _far(images: Tensor, others: Tensor) -> float:
    return _nearest(images, others).values.median().item()


def _same(a: Tensor, b: Tensor) -> float:
    return (a == b).float().mean().item()
