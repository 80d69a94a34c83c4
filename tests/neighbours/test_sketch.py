import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from uspebm.neighbours.crowd import PointSet, rounding_error, squared_distances
from uspebm.neighbours.sketch import DIRECTIONS, Sketch, sketch_of
from uspebm.support.randomness import generator
from uspebm.types import Workspace


def low_rank(n: int, d: int, seed: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Points near a curved sheet of ten dimensions, as images are, off the origin."""
    draws = generator(seed, "low rank")
    z = torch.randn(n, 10, generator=draws, dtype=dtype)
    a = torch.randn(10, d, generator=draws, dtype=dtype)
    return (z @ a).tanh() + 0.1 * torch.randn(n, d, generator=draws, dtype=dtype) + 3.0


@given(st.integers(0, 1000), st.integers(127, 300), st.sampled_from([torch.float32, torch.float64]))
def test_sketches_are_never_further_apart_than_points(
    seed: int, d: int, dtype: torch.dtype
) -> None:
    points, others = low_rank(80, d, seed, dtype), low_rank(20, d, seed + 1, dtype)
    sketch = Sketch(points)
    assert sketch.coordinates.shape == (80, DIRECTIONS + 1)
    exact = torch.cdist(others.double(), points.double())
    bound = torch.cdist(sketch.of(others).double(), sketch.coordinates.double())
    assert (bound <= exact * (1 + 1e-5) + 1e-4).all()


@pytest.mark.parametrize("seed", range(5))
def test_the_allowance_covers_rounding_in_many_dimensions(seed: int) -> None:
    """Pairs that differ only along sketched directions, where the bound is tight."""
    points = low_rank(300, 784, seed, torch.float32).clamp(-1.0, 1.0)
    sketch = Sketch(points)
    assert sketch._basis is not None
    along = torch.randn(300, DIRECTIONS, generator=generator(seed, "along"))
    others = points + 0.3 * along @ sketch._basis.T
    a, b = PointSet(sketch.of(others)), PointSet(sketch.coordinates)
    squared = squared_distances(a, b)
    exact = torch.cdist(others.double(), points.double()).square()
    assert (squared - rounding_error(a, b, 784) <= exact).all()
    assert (squared > exact).any()  # without an allowance a violation could be missed


def test_sketches_rule_out_most_of_what_is_far() -> None:
    points = low_rank(500, 784, 0)
    exact, bound = torch.pdist(points), torch.pdist(Sketch(points).coordinates)
    assert (bound / exact).median() > 0.9


@pytest.mark.parametrize("n", [30, 700])
def test_in_more_dimensions_than_points_sketches_are_bounds_too(n: int) -> None:
    points, others = low_rank(n, 1500, 0), low_rank(20, 1500, 1)
    sketch = Sketch(points)
    basis = sketch._basis
    assert basis is not None
    eye = torch.eye(basis.shape[1], dtype=basis.dtype)
    torch.testing.assert_close(basis.T @ basis, eye, atol=1e-9, rtol=0)
    exact = torch.cdist(others, points)
    bound = torch.cdist(sketch.of(others), sketch.coordinates)
    assert (bound <= exact * (1 + 1e-9) + 1e-9).all()
    assert (bound / exact).median() > 0.6  # of points that none was sketched by


def test_in_few_dimensions_points_are_their_own_sketch() -> None:
    points = low_rank(50, 20, 0)
    sketch = Sketch(points)
    assert sketch.coordinates is points
    assert torch.equal(sketch.square, points.square().sum(1))


def test_a_sketch_is_kept_in_the_workspace_and_up_to_date() -> None:
    points, workspace = low_rank(50, 200, 0), Workspace()
    sketch = sketch_of(points, workspace)
    assert sketch_of(points, workspace) is sketch
    rows = torch.tensor([3, 5])
    points[rows] += 1.0
    sketch.renew(points, rows)
    assert sketch_of(points, workspace) is sketch
    torch.testing.assert_close(sketch.coordinates, sketch.of(points))
    torch.testing.assert_close(sketch.square, points.square().sum(1))


def test_writes_by_others_are_noticed() -> None:
    points, workspace = low_rank(50, 200, 0), Workspace()
    sketch = sketch_of(points, workspace)
    points[7] = 0.0
    assert sketch_of(points, workspace) is not sketch
    torch.testing.assert_close(sketch_of(points, workspace).square, points.square().sum(1))


def test_workspaces_share_nothing_and_keep_one_set_of_points() -> None:
    points, others, workspace = low_rank(50, 200, 0), low_rank(50, 200, 1), Workspace()
    sketch = sketch_of(points, workspace)
    assert sketch_of(points, Workspace()) is not sketch
    assert sketch_of(others, workspace) is not sketch
    assert sketch_of(points, workspace) is not sketch
    torch.testing.assert_close(sketch_of(points, workspace).square, sketch.square)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sketches_keep_the_dtype(dtype: torch.dtype) -> None:
    assert Sketch(low_rank(50, 200, 0, dtype)).coordinates.dtype == dtype
