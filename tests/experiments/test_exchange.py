"""An energy trained on: with its own nodes, and with points in their place."""

from dataclasses import replace

import torch
from torch import Tensor, nn

from uspebm.energies import Conv
from uspebm.experiments import exchange, table1
from uspebm.experiments.exchange import with_own_nodes, with_points
from uspebm.recipes import Run
from uspebm.support.randomness import generator

IMAGES = 0.2 * torch.rand(60, 1, 28, 28, generator=generator(0, "images")) - 1
POINTS = 0.2 * torch.rand(60, 1, 28, 28, generator=generator(0, "points")) + 0.5
SRLMC = table1.SMOKE.methods["SRLMC"].given(IMAGES)
RECIPE = replace(SRLMC, schedule=replace(SRLMC.schedule, updates=12))


def gap(energy: nn.Module, above: Tensor) -> float:
    with torch.no_grad():
        return float(energy(above).mean() - energy(IMAGES).mean())


def test_points_in_place_of_nodes_rise_above_the_data_and_the_model_stays_as_it_was() -> None:
    torch.manual_seed(0)
    energy = Conv()
    before = gap(energy, POINTS)
    exchanged = with_points(energy, RECIPE, POINTS, IMAGES, seed=0)
    assert gap(exchanged, POINTS) > before
    assert gap(energy, POINTS) == before


def test_own_nodes_go_on_from_their_state_which_stays_as_it_was() -> None:
    torch.manual_seed(0)
    energy, negative = Conv(), Run(RECIPE, IMAGES, None, seed=0).state.negative
    kept = [part.clone() for part in negative]
    first, again = (with_own_nodes(energy, RECIPE, negative, IMAGES, seed=0) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(kept, negative, strict=True))
    assert gap(first, POINTS) == gap(again, POINTS) != gap(energy, POINTS)
    elsewhere = negative._replace(buffer=-negative.buffer)  # type: ignore[attr-defined]
    other = with_own_nodes(energy, RECIPE, elsewhere, IMAGES, seed=0)
    assert gap(other, POINTS) != gap(first, POINTS)


def test_the_data_keep_their_noise_and_their_domain_whatever_the_nodes_are() -> None:
    noisy = exchange._data(RECIPE, IMAGES).sample(2000, generator(0), torch.float32)
    assert noisy.min() == -1.0  # projected, or most pixels of some images would lie below
    clean = exchange._data(replace(RECIPE, noise=0.0), IMAGES)
    assert clean.sample(2000, generator(0), torch.float32).max() < noisy.max()
