"""An energy trained on: with its own nodes, and with points in their place."""

from dataclasses import replace

import torch
from torch import Tensor

from uspebm.energies import Conv
from uspebm.experiments import table1
from uspebm.experiments.exchange import with_own_nodes, with_points
from uspebm.experiments.fashion import start
from uspebm.randomness import generator

SRLMC = table1.SMOKE.methods["SRLMC"]
METHOD = replace(SRLMC, recipe=replace(SRLMC.recipe, steps=40))
IMAGES = 0.2 * torch.rand(60, 1, 28, 28, generator=generator(0, "images")) - 1
POINTS = 0.2 * torch.rand(60, 1, 28, 28, generator=generator(0, "points")) + 0.5


def gap(energy: Conv, above: Tensor) -> float:
    with torch.no_grad():
        return float(energy(above).mean() - energy(IMAGES).mean())


def test_points_in_place_of_nodes_rise_above_the_data_and_the_model_stays_as_it_was() -> None:
    torch.manual_seed(0)
    energy = Conv()
    before = gap(energy, POINTS)
    exchanged = with_points(energy, METHOD, POINTS, IMAGES, seed=0)
    assert gap(exchanged, POINTS) > before
    assert gap(energy, POINTS) == before


def test_own_nodes_go_on_from_their_state_which_stays_as_it_was() -> None:
    torch.manual_seed(0)
    energy, negative = Conv(), start(METHOD, IMAGES, seed=0)
    kept = [part.clone() for part in negative]
    first, again = (with_own_nodes(energy, METHOD, negative, IMAGES, seed=0) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(kept, negative, strict=True))
    assert gap(first, POINTS) == gap(again, POINTS) != gap(energy, POINTS)
