from dataclasses import replace

import pytest
import torch
from torch import Tensor

from uspebm import Box, Gaussian, NonFiniteError, Particles, PersistentUSP
from uspebm.support.randomness import generator

BOX = Box(-2.0, 2.0, (2,))
PHASE = PersistentUSP(domain=BOX, particles=60, spacing=0.1, active=20, nodes=40, rounds=1)
BOWL = Gaussian((0.0, 0.0), 0.5)


def flat(x: Tensor) -> Tensor:
    return 0.0 * x.sum(1)


def start(phase: PersistentUSP = PHASE) -> Particles:
    return phase.init(generator(0), torch.float64)


def lattice(spacing: float) -> Particles:
    """60 points exactly on a square lattice, wide apart."""
    axis = torch.arange(8, dtype=torch.float64) * spacing
    return Particles(torch.cartesian_prod(axis, axis)[:60] - 4 * spacing)


def test_only_active_points_move() -> None:
    before = start().points.clone()
    _, state, _ = PHASE.step(BOWL, Particles(before.clone()), generator(1))
    moved = (state.points != before).any(1)
    assert moved.sum() == PHASE.active


def test_nodes_are_the_active_points_filled_up_from_the_others() -> None:
    before = start().points.clone()
    nodes, state, _ = PHASE.step(BOWL, Particles(before.clone()), generator(1))
    assert len(nodes.x) == 40
    moved = {tuple(p.tolist()) for p in state.points[(state.points != before).any(1)]}
    chosen = {tuple(p.tolist()) for p in nodes.x}
    assert len(chosen) == 40  # none twice
    assert moved <= chosen <= {tuple(p.tolist()) for p in state.points}
    torch.testing.assert_close(nodes.log_weight, -BOWL(nodes.x))


def test_in_a_merged_round_free_points_ascend_and_violating_ones_are_repelled() -> None:
    free = lattice(0.3)
    expected = PHASE.ascend(BOWL, free.points)
    nodes, _, info = PHASE.step(BOWL, Particles(free.points.clone()), generator(1))
    assert info.violating == 0.0
    for point in nodes.x[: PHASE.active]:
        assert (expected - point).norm(dim=1).min() < 1e-12

    crowded = lattice(0.05)
    _, state, info = PHASE.step(BOWL, Particles(crowded.points.clone()), generator(1))
    assert info.violating == 1.0
    # On a flat energy exactly the same happens: nothing ascended.
    _, indifferent, _ = PHASE.step(flat, Particles(crowded.points.clone()), generator(1))
    assert torch.equal(state.points, indifferent.points)


def test_more_steps_per_round_alternate() -> None:
    """With two ascents and one repulsion, violating points ascend as well."""
    phase = replace(PHASE, ascent_steps=2)
    crowded = lattice(0.05)
    _, state, _ = phase.step(BOWL, Particles(crowded.points.clone()), generator(1))
    _, indifferent, _ = phase.step(flat, Particles(crowded.points.clone()), generator(1))
    assert not torch.equal(state.points, indifferent.points)


def nearest_other(points: Tensor) -> Tensor:
    distance = torch.cdist(points, points)
    distance.fill_diagonal_(float("inf"))
    return distance.min(1).values


def settled_spacing(others: int | None) -> float:
    """Median distance to the nearest other point, in units of ε, once a bowl has been filled."""
    phase = PersistentUSP(
        domain=Box(-1.0, 1.0, (2,)),
        particles=100,
        spacing=0.1,
        active=20,
        nodes=100,
        rounds=10,
        others=others,
        ascent_size=0.001,
    )
    state = phase.init(generator(0), torch.float64)
    for k in range(100):
        _, state, _ = phase.step(BOWL, state, generator(k, "step"))
    return nearest_other(state.points).median().item() / phase.spacing


def test_others_keep_the_active_points_off_the_rest() -> None:
    """With all others the spacing comes to hold; with none, points settle on top of them."""
    assert settled_spacing(None) > 0.9
    assert settled_spacing(80) > 0.9
    assert settled_spacing(0) < 0.75


def test_with_every_other_drawn_sampling_equals_all() -> None:
    """Γ of all the rest is all the rest, in whatever order it is drawn."""
    a, _, _ = PHASE.step(flat, start(), generator(1))
    b, _, _ = replace(PHASE, others=40).step(flat, start(), generator(1))
    torch.testing.assert_close(a.x[:20], b.x[:20])


def test_an_ascent_is_never_longer_than_the_spacing() -> None:
    steep = Gaussian((0.0, 0.0), 0.001)
    x = start().points
    moved = (PHASE.ascend(steep, x) - x).norm(dim=1)
    torch.testing.assert_close(moved, torch.full_like(moved, PHASE.spacing))
    gentle = Gaussian((0.0, 0.0), 1.0)
    torch.testing.assert_close(PHASE.ascend(gentle, x), x - PHASE.ascent_size * x)


def test_coincident_points_part() -> None:
    same = Particles(torch.zeros(60, 2, dtype=torch.float64))
    state = same
    for k in range(200):
        _, state, _ = PHASE.step(flat, state, generator(k))
    assert torch.isfinite(state.points).all()
    assert nearest_other(state.points).min() > 0.05


def test_a_failing_energy_leaves_the_points_as_they_were() -> None:
    state = start()
    before = state.points.clone()
    with pytest.raises(NonFiniteError):
        PHASE.step(lambda x: x[:, 0] * float("nan"), state, generator(1))
    assert torch.equal(state.points, before)


def test_points_given_by_hand_are_copied_and_checked() -> None:
    images = lattice(0.3).points
    state = PHASE.start_at(images)
    PHASE.step(BOWL, state, generator(1))
    assert torch.equal(images, lattice(0.3).points)
    with pytest.raises(ValueError, match="do not fit particles=60"):
        PHASE.start_at(images[:50])
    with pytest.raises(ValueError, match="lie outside"):
        PHASE.start_at(images + 2.0)
    with pytest.raises(ValueError, match="the state has 50 points, but particles=60"):
        PHASE.step(BOWL, Particles(images[:50]), generator(1))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"active": 61}, "active=61 is more than there are: particles=60"),
        ({"nodes": 100}, "nodes=100 is more than there are"),
        ({"others": 41}, "others=41 is more than the 40 points"),
        ({"others": -1}, "others=-1"),
        ({"spacing": -1.0}, "spacing=-1.0 must be a positive number"),
        ({"rounds": 0}, "rounds=0"),
    ],
)
def test_bad_settings_are_refused(change: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(PHASE, **change)  # type: ignore[arg-type]
