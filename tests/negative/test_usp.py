import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from uspebm import USP, Box, Gaussian, Particles
from uspebm.negative import USPInfo
from uspebm.neighbours.crowd import Crowd
from uspebm.support.randomness import generator

UNIT = Box(0.0, 1.0, (2,))


def flat(x: Tensor) -> Tensor:
    return 0.0 * x.sum(1)


def packed(spacing: float, share: float) -> int:
    """Points in the unit square at ``share`` of the densest packing's number."""
    return int(share * 2 / (math.sqrt(3) * spacing**2))


def settle(phase: USP, energy: object = flat, seed: int = 0) -> tuple[Tensor, USPInfo]:
    state = phase.init(generator(seed), torch.float64)
    nodes, _, info = phase.step(energy, state, generator(seed, "s"))  # type: ignore[arg-type]
    return nodes.x, info


def assert_keeps_its_distance(phase: USP) -> None:
    points, info = settle(phase)
    assert torch.pdist(points).min().item() >= phase.spacing
    assert info.unsettled == 0.0
    assert info.smallest >= phase.spacing
    assert phase.domain.contains(points).all()


@pytest.mark.parametrize("share", [0.1, 0.25, 0.4])
@pytest.mark.parametrize("spacing", [0.2, 0.05])
def test_points_on_a_flat_energy_end_at_least_the_spacing_apart(
    share: float, spacing: float
) -> None:
    n = packed(spacing, share)
    assert_keeps_its_distance(USP(domain=UNIT, particles=n, spacing=spacing))


def test_points_that_all_start_in_one_place_spread() -> None:
    crowd = Box(0.5, 0.55, (2,))
    n = packed(0.1, 0.4)
    assert_keeps_its_distance(USP(domain=UNIT, particles=n, spacing=0.1, proposal=crowd))


def test_attraction_instead_of_repulsion_is_noticed() -> None:
    class Attracting(USP):
        def repel(self, u: Tensor, crowd: Crowd) -> Tensor:
            return super().repel(u, crowd._replace(gradient=-crowd.gradient))

    phase = Attracting(domain=UNIT, particles=packed(0.2, 0.4), spacing=0.2, rounds=200)
    with pytest.raises(AssertionError):
        assert_keeps_its_distance(phase)


def test_points_of_many_coordinates_part() -> None:
    phase = USP(domain=Box(-1.0, 1.0, (1, 12, 12)), particles=20, spacing=2.0)
    points, info = settle(phase, lambda x: 0.0 * x.sum((1, 2, 3)))
    assert torch.pdist(points.flatten(1)).min().item() >= 2.0
    assert info.unsettled == 0.0


def test_coincident_points_part_and_do_so_alike_for_one_seed() -> None:
    phase = USP(domain=UNIT, particles=10, spacing=0.1)
    start = torch.full((10, 2), 0.5)
    ends = [phase.step(flat, Particles(start.clone()), generator(seed))[0].x for seed in (0, 0, 1)]
    assert torch.pdist(ends[0]).min() >= 0.1
    assert torch.equal(ends[0], ends[1])
    assert not torch.equal(ends[0], ends[2])


def test_points_fill_the_highest_density_first_and_stop_moving() -> None:
    """On a Gaussian, n points at spacing ε fill a disc: its area is about that of n cells."""
    box, spacing, n = Box(-1.0, 1.0, (2,)), 0.1, 100
    phase = USP(
        domain=box, particles=n, spacing=spacing, ascent_size=2e-3, rounds=2000, tolerance=0.02
    )
    points, info = settle(phase, Gaussian((0.0, 0.0), 0.3))
    assert info.rounds < 2000
    assert info.moved < phase.tolerance * spacing
    cell = math.sqrt(3) / 2 * spacing**2
    radius = math.sqrt(n * cell / math.pi)
    assert points.norm(dim=1).max() < 1.5 * radius
    assert info.smallest > 0.95 * spacing


def test_short_repulsions_are_not_taken_for_rest() -> None:
    phase = USP(domain=UNIT, particles=packed(0.2, 0.3), spacing=0.2, repulsion_size=0.001)
    assert_keeps_its_distance(replace(phase, rounds=3000))


def test_a_number_of_rounds_is_kept() -> None:
    phase = USP(domain=UNIT, particles=50, spacing=0.5, rounds=3)
    assert settle(phase)[1].rounds == 3


def test_says_when_the_constraint_does_not_hold() -> None:
    points, info = settle(USP(domain=UNIT, particles=200, spacing=0.5, rounds=20))
    assert info.unsettled == 1.0
    assert info.smallest == pytest.approx(torch.pdist(points).min().item())
    assert info.smallest < 0.5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"spacing": -0.1}, "spacing=-0.1"),
        ({"particles": 0}, "particles=0"),
        ({"rounds": 0}, "rounds=0"),
        ({"ascent_steps": 0}, "ascent_steps=0"),
        ({"repulsion_size": 0.0}, "repulsion_size=0.0"),
        ({"ascent_size": float("inf")}, "ascent_size=inf"),
        ({"tolerance": 0.0}, "tolerance=0.0"),
    ],
)
def test_bad_settings_are_refused(change: dict[str, float], message: str) -> None:
    phase = USP(domain=UNIT, particles=10, spacing=0.1)
    with pytest.raises(ValueError, match=message):
        replace(phase, **change)  # type: ignore[arg-type]
