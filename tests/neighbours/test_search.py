"""Violations against brute force, and their push against autograd of the objective."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from uspebm.neighbours import crowd as crowd_module
from uspebm.neighbours import lists
from uspebm.neighbours import search as neighbours
from uspebm.neighbours.crowd import Crowd
from uspebm.neighbours.lists import Lists
from uspebm.neighbours.search import Neighbours, smallest_distance
from uspebm.neighbours.sketch import Sketch, sketch_of
from uspebm.support.group import Group
from uspebm.support.randomness import generator
from uspebm.types import Workspace

Search = Callable[[Tensor, Tensor, float], Crowd]


def search(moving: Tensor, fixed: Tensor, spacing: float) -> Crowd:
    return Neighbours(fixed, spacing).crowd(moving)


def objective(moving: Tensor, fixed: Tensor, spacing: float) -> Tensor:
    """Sum over i in Λ, j in Λ ∪ Γ, i ≠ j of min(|u_i − u_j|, ε), as written in the paper."""
    total = moving.new_zeros(())
    for i in range(len(moving)):
        for j in range(len(moving)):
            if i != j:
                total = total + (moving[i] - moving[j]).norm().clamp_max(spacing)
        for other in fixed:
            total = total + (moving[i] - other).norm().clamp_max(spacing)
    return total


def cloud(n: int, d: int, seed: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.rand(n, d, generator=generator(seed, "cloud"), dtype=dtype)


def assert_is_the_objectives_gradient(find: Search) -> None:
    for d, spacing in ((1, 0.05), (2, 0.3), (5, 0.8), (50, 2.6)):
        moving, fixed = cloud(8, d, 0), cloud(12, d, 1)
        leaf = moving.clone().requires_grad_()
        (expected,) = torch.autograd.grad(objective(leaf, fixed, spacing), leaf)
        assert expected.abs().max() > 0
        torch.testing.assert_close(find(moving, fixed, spacing).gradient, expected)


def test_the_push_is_the_objectives_gradient() -> None:
    assert_is_the_objectives_gradient(search)


@pytest.mark.parametrize(
    "mutate",
    [
        lambda g, pairs: -g,
        lambda g, pairs: g - pairs / 2,  # a pair inside Λ counted once
    ],
    ids=["sign", "pairs counted once"],
)
def test_mutants_of_the_push_are_noticed(mutate: Callable[[Tensor, Tensor], Tensor]) -> None:
    def mutant(moving: Tensor, fixed: Tensor, spacing: float) -> Crowd:
        among_themselves = search(moving, fixed[:0], spacing).gradient
        found = search(moving, fixed, spacing)
        return found._replace(gradient=mutate(found.gradient, among_themselves))

    with pytest.raises(AssertionError):
        assert_is_the_objectives_gradient(mutant)


def set_chunk(patch: pytest.MonkeyPatch, chunk: int) -> None:
    for module in (crowd_module, lists, neighbours):
        patch.setattr(module, "CHUNK", chunk)
    patch.setattr(neighbours, "SEEN_AT_ONCE", chunk)


@given(
    st.integers(1, 40),
    st.integers(0, 60),
    st.integers(1, 6),
    st.floats(0.01, 2.0),
    st.integers(0, 10_000),
    st.sampled_from([torch.float32, torch.float64]),
    st.sampled_from([0.0, 1e3]),
    st.sampled_from([7, 64, 4_000_000]),
)
def test_violations_are_those_of_brute_force(
    m: int,
    n: int,
    d: int,
    spacing: float,
    seed: int,
    dtype: torch.dtype,
    far: float,
    chunk: int,
) -> None:
    """Also far from the origin, where the matrix product has lost the digits; in any chunks."""
    moving, fixed = cloud(m, d, seed, dtype) + far, cloud(n, d, seed + 1, dtype) + far
    everyone = torch.cat([moving, fixed])
    distance = torch.stack([(moving - other).norm(dim=1) for other in everyone], dim=1)
    distance[range(m), range(m)] = float("inf")
    with pytest.MonkeyPatch.context() as patch:
        set_chunk(patch, chunk)
        crowd = search(moving, fixed, spacing)
    assert torch.equal(crowd.nearest, distance.min(1).values.clamp_max(spacing))
    assert not crowd.coincident.any()


def test_rows_to_skip_repel_nobody() -> None:
    points, old = cloud(20, 2, 0), torch.tensor([3, 7, 11])
    moving = points[old] + 0.001
    kept = torch.ones(20, dtype=torch.bool)
    kept[old] = False
    a = Neighbours(points, 0.4, skip=old).crowd(moving)
    b = Neighbours(points[kept], 0.4).crowd(moving)
    torch.testing.assert_close(a.gradient, b.gradient)
    assert torch.equal(a.nearest, b.nearest)


def test_no_point_is_repelled_by_itself() -> None:
    lonely = torch.tensor([[0.0, 0.0], [5.0, 5.0]])
    crowd = search(lonely, lonely[:0], 1.0)
    assert torch.equal(crowd.gradient, torch.zeros(2, 2))
    assert torch.equal(crowd.nearest, torch.ones(2))
    assert not crowd.coincident.any()


def test_coincident_points_are_marked() -> None:
    moving = torch.tensor([[0.1, 0.1], [0.1, 0.1], [0.9, 0.9], [0.5, 0.5]])
    fixed = torch.tensor([[0.9, 0.9]])
    crowd = search(moving, fixed, 0.3)
    assert crowd.coincident.tolist() == [True, True, True, False]
    assert crowd.nearest.tolist() == pytest.approx([0.0, 0.0, 0.0, 0.3])
    assert torch.isfinite(crowd.gradient).all()


@given(st.permutations(range(9)))
def test_permuting_points_permutes_the_result(order: list[int]) -> None:
    moving, fixed = cloud(9, 3, 0), cloud(5, 3, 1)
    a, b = search(moving, fixed, 0.7), search(moving[order], fixed, 0.7)
    torch.testing.assert_close(a.gradient[order], b.gradient)
    assert torch.equal(a.nearest[order], b.nearest)


def brute_force(moving: Tensor, fixed: Tensor, spacing: float) -> Crowd:
    """Every pair, by differences, in float64."""
    moving, everyone = moving.double(), torch.cat([moving, fixed]).double()
    offset = moving.unsqueeze(1) - everyone
    distance = offset.norm(dim=2)
    distance[range(len(moving)), range(len(moving))] = float("inf")
    pull = torch.where((distance < spacing) & (distance > 0), 1 / distance, 0.0)
    pull[:, : len(moving)] *= 2
    return Crowd(
        (offset * pull.unsqueeze(2)).sum(1),
        distance.min(1).values.clamp_max(spacing),
        (distance == 0).any(1),
    )


def assert_same_crowd(found: Crowd, exact: Crowd, tolerance: float) -> None:
    torch.testing.assert_close(
        found.gradient.double(), exact.gradient, atol=tolerance, rtol=tolerance
    )
    torch.testing.assert_close(
        found.nearest.double(), exact.nearest, atol=tolerance, rtol=tolerance
    )
    assert torch.equal(found.coincident, exact.coincident)


@pytest.fixture(params=[300, 125_000], ids=["short lists", "long lists"])
def listed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(lists, "LISTED", request.param)
    monkeypatch.setattr(lists, "LISTED_NATIVE", request.param)
    size: int = request.param
    return size


def follow(
    neighbours: Neighbours, moving: Tensor, fixed: Tensor, spacing: float, move: str, seed: int
) -> None:
    """Move points for many rounds, in ways meant to catch a list that has become stale."""
    tolerance = 1e-9 if moving.dtype == torch.float64 else 2e-3
    for k in range(12):
        assert_same_crowd(neighbours.crowd(moving), brute_force(moving, fixed, spacing), tolerance)
        draws = generator(seed, "move", k)
        noise = torch.randn(moving.shape, generator=draws, dtype=moving.dtype)
        if move == "jitter":
            moving = moving + 0.05 * spacing * noise
        elif move == "leap":  # one point lands beside a fixed one, far from where it was
            moving = moving.clone()
            moving[k % len(moving)] = fixed[k % len(fixed)] + 0.01 * spacing * noise[0]
        elif move == "land":  # exactly on a fixed one
            moving = moving.clone()
            moving[k % len(moving)] = fixed[k % len(fixed)]
        else:  # creep towards a fixed point, a little at a time
            moving = moving + 0.1 * (fixed[: len(moving)] - moving)


@pytest.mark.parametrize("move", ["jitter", "leap", "land", "creep"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("d", "spacing"), [(2, 0.1), (3, 0.3), (60, 2.9), (200, 2.0), (200, 5.5)])
@pytest.mark.parametrize("compiled", [False, True], ids=["torch", "compiled"])
@pytest.mark.usefixtures("listed")
def test_lists_miss_nothing_however_points_move(
    move: str, dtype: torch.dtype, d: int, spacing: float, compiled: bool
) -> None:
    moving, fixed = cloud(15, d, 0, dtype), cloud(400, d, 1, dtype)
    search = Neighbours(fixed, spacing, compiled=compiled)
    follow(search, moving, fixed, spacing, move, seed=d)


@pytest.mark.parametrize(("d", "spacing"), [(1, 0.01), (2, 0.05), (10, 0.6), (16, 1.0)])
@pytest.mark.parametrize("compiled", [False, True], ids=["torch", "compiled"])
def test_many_points_of_few_coordinates_feel_each_other(
    d: int, spacing: float, compiled: bool
) -> None:
    """However they lie in memory, and of some processes each one's share."""
    moving, fixed = cloud(500, d + 1, 0)[:, :d], cloud(50, d, 1)
    moving[7] = moving[400]
    exact = brute_force(moving, fixed, spacing)
    assert (exact.nearest < spacing).sum() > 50
    search = Neighbours(fixed, spacing, compiled=compiled)
    assert_same_crowd(search.crowd(moving), exact, 1e-9)
    for group in (Group(rank, 3) for rank in range(3)):
        own = Crowd(*(group.rows(part) for part in exact))
        search = Neighbours(fixed, spacing, compiled=compiled)
        assert_same_crowd(search.crowd(moving, group), own, 1e-9)


@pytest.mark.parametrize("move", ["jitter", "land"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("d", "spacing"), [(2, 0.1), (60, 2.9), (200, 2.0), (200, 5.5)])
@pytest.mark.parametrize("compiled", [False, True], ids=["torch", "compiled"])
@pytest.mark.parametrize("chunk", [100, 4_000_000])
def test_one_look_needs_no_list_and_misses_nothing(
    move: str,
    dtype: torch.dtype,
    d: int,
    spacing: float,
    compiled: bool,
    chunk: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As for Λ drawn in every round; and so does every further look."""
    set_chunk(monkeypatch, chunk)
    moving, fixed = cloud(15, d, 0, dtype), cloud(400, d, 1, dtype)
    search = Neighbours(fixed, spacing, compiled=compiled, once=True)
    follow(search, moving, fixed, spacing, move, seed=d)
    assert search._lists is None


@pytest.mark.parametrize("compiled", [False, True], ids=["torch", "compiled"])
def test_for_one_look_rows_to_skip_repel_nobody_and_sketches_have_to_be_bounds(
    compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = sheet(400, 0)
    old = torch.arange(0, 400, 20)
    moving = points[old] + 0.1 * sheet(20, 1)
    kept = torch.ones(400, dtype=torch.bool)
    kept[old] = False
    spacing = brute_force(moving, points[kept], 1e9).nearest.median().item() + 1e-3
    exact = brute_force(moving, points[kept], spacing)

    def found() -> Crowd:
        return Neighbours(points, spacing, skip=old, compiled=compiled, once=True).crowd(moving)

    assert_same_crowd(found(), exact, 1e-9)
    of = Sketch.of
    monkeypatch.setattr(Sketch, "of", lambda sketch, x: 1.5 * of(sketch, x))
    with pytest.raises(AssertionError):
        assert_same_crowd(found(), exact, 1e-9)


def forget_to_list_anew(held: Lists) -> None:
    held._radius = float("inf")


def forget_the_movement(held: Lists) -> None:
    held._gone.zero_()


@pytest.mark.parametrize(
    ("mutant", "move", "d", "spacing"),
    [
        (forget_to_list_anew, "leap", 60, 2.0),
        (forget_the_movement, "creep", 60, 2.0),
    ],
)
@pytest.mark.parametrize("compiled", [False, True], ids=["torch", "compiled"])
def test_stale_lists_are_noticed(
    mutant: Callable[[Lists], None],
    move: str,
    d: int,
    spacing: float,
    compiled: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lists, "LISTED", 300)
    monkeypatch.setattr(lists, "LISTED_NATIVE", 300)
    look = Lists.look

    def stale(held: Lists, moving: Tensor, felt: Crowd) -> None:
        mutant(held)
        look(held, moving, felt)

    monkeypatch.setattr(Lists, "look", stale)
    moving, fixed = cloud(15, d, 0), cloud(400, d, 1)
    with pytest.raises(AssertionError):
        follow(Neighbours(fixed, spacing, compiled=compiled), moving, fixed, spacing, move, seed=0)


def sheet(n: int, seed: int) -> Tensor:
    """Points far apart in ten directions, and close in 190 others, which sketches leave out."""
    wide = torch.cat([torch.full((10,), 3.0), torch.full((190,), 0.3)]).double()
    return wide * torch.randn(n, 200, generator=generator(seed, "sheet"), dtype=torch.float64)


@pytest.mark.parametrize("compiled", [False, True], ids=["torch", "compiled"])
def test_moves_that_sketches_do_not_see_are_followed(compiled: bool) -> None:
    fixed = sheet(400, 0)
    moving = fixed[:15].clone()
    moving[:, 10:] += 1.5 * sheet(15, 1)[:, 10:]
    search = Neighbours(fixed, 5.8, compiled=compiled)
    follow(search, moving, fixed, 5.8, "creep", seed=0)
    assert search._lists is not None
    assert search._sketch.coordinates.shape == (400, 64)


@pytest.mark.parametrize("move", ["jitter", "creep"])
@pytest.mark.parametrize("compiled", [False, True], ids=["torch", "compiled"])
def test_another_view_of_the_points_is_their_sketch(move: str, compiled: bool) -> None:
    """As for images of few pixels, which are searched flattened: their last pixel is no length."""
    points = cloud(400, 10, 1).view(400, 2, 5)
    fixed, moving = points.flatten(1), cloud(15, 10, 0)
    search = Neighbours(fixed, 0.8, sketch=sketch_of(points, Workspace()), compiled=compiled)
    follow(search, moving, fixed, 0.8, move, seed=0)


def test_forgetting_moves_across_the_sketch_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sketch, "length_across", lambda sketch, step: step.new_zeros(len(step)))
    with pytest.raises(AssertionError):
        test_moves_that_sketches_do_not_see_are_followed(compiled=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("far", [0.0, 10.0, 300.0])
@pytest.mark.parametrize("chunk", [50, 5000, 4_000_000])
@pytest.mark.parametrize("d", [2, 17, 60, 150])
def test_crowds_are_those_of_brute_force(
    dtype: torch.dtype,
    far: float,
    chunk: int,
    d: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By products and by differences, in many chunks or one, also where digits are lost."""
    set_chunk(monkeypatch, chunk)
    monkeypatch.setattr(neighbours, "LONGEST", 0 if chunk == 5000 else neighbours.LONGEST)
    moving, fixed = cloud(30, d, 2, dtype) + far, cloud(200, d, 3, dtype) + far
    moving[3] = moving[4]
    moving[5] = fixed[7]
    moving[6] = fixed[8] + 1e-4
    spacing = brute_force(moving, fixed, 1e9).nearest.median().item() + 1e-3
    exact = brute_force(moving, fixed, spacing)
    assert 0 < (exact.nearest < spacing).sum() < 30
    tolerance = 1e-7 if dtype == torch.float64 else 3e-3 * (1 + far / 100)
    assert_same_crowd(search(moving, fixed, spacing), exact, tolerance)


def test_a_point_that_repels_itself_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the mask, every point coincides with itself."""
    monkeypatch.setattr(Tensor, "diagonal", lambda tensor, offset=0: tensor.clone().flatten())
    moving, fixed = cloud(15, 2, 0), cloud(40, 2, 1)
    with pytest.raises(AssertionError):
        assert_same_crowd(search(moving, fixed, 0.2), brute_force(moving, fixed, 0.2), 1e-9)


def test_smallest_distance() -> None:
    x = cloud(300, 3, 0)
    expected = torch.pdist(x).min().item()
    assert smallest_distance(x) == pytest.approx(expected)
    assert smallest_distance(x[:1]) == float("inf")
