import gc

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from uspebm.negative import sketch as module
from uspebm.negative.crowd import PointSet, rounding_error, squared_distances
from uspebm.negative.sketch import DIRECTIONS, Sketch, sketch_of
from uspebm.randomness import generator


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


def test_in_few_dimensions_points_are_their_own_sketch() -> None:
    points = low_rank(50, 20, 0)
    sketch = Sketch(points)
    assert sketch.coordinates is points
    assert torch.equal(sketch.square, points.square().sum(1))


def test_a_sketch_is_remembered_and_kept_up_to_date() -> None:
    points = low_rank(50, 200, 0)
    sketch = sketch_of(points)
    assert sketch_of(points) is sketch
    rows = torch.tensor([3, 5])
    points[rows] += 1.0
    sketch.renew(points, rows)
    assert sketch_of(points) is sketch
    torch.testing.assert_close(sketch.coordinates, sketch.of(points))
    torch.testing.assert_close(sketch.square, points.square().sum(1))


def test_writes_by_others_are_noticed() -> None:
    points = low_rank(50, 200, 0)
    sketch = sketch_of(points)
    points[7] = 0.0
    assert sketch_of(points) is not sketch
    torch.testing.assert_close(sketch_of(points).square, points.square().sum(1))


def test_nothing_is_remembered_of_what_is_gone() -> None:
    gc.collect()
    before = len(module._remembered)
    points = low_rank(50, 200, 0)
    sketch_of(points)
    assert len(module._remembered) == before + 1
    del points
    gc.collect()
    assert len(module._remembered) == before


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sketches_keep_the_dtype(dtype: torch.dtype) -> None:
    assert Sketch(low_rank(50, 200, 0, dtype)).coordinates.dtype == dtype
