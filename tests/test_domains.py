import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.laws import assert_law
from uspebm import Box, Gaussian
from uspebm.domains import check_proposal, draw
from uspebm.support.randomness import generator

SQUARE = Box(-2.0, 2.0, shape=(2,))


@given(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3))
def test_projection_is_the_nearest_point(x: list[float]) -> None:
    box = Box((-1.0, 0.0, 2.0), (1.0, 0.5, 7.0))
    point = torch.tensor([x], dtype=torch.float64)
    projected = box.project(point)
    assert box.contains(projected).all()
    corners = torch.tensor([box.low, box.high], dtype=torch.float64)
    gap = torch.relu(corners[0] - point) + torch.relu(point - corners[1])
    torch.testing.assert_close((point - projected).abs(), gap)


def test_samples_are_uniform_on_every_axis() -> None:
    box = Box((-1.0, 0.0), (1.0, 5.0))
    x = box.sample(50_000, generator(0), torch.float64)
    assert_law(x[:, 0], lambda v: (v + 1) / 2)
    assert_law(x[:, 1], lambda v: v / 5)
    with pytest.raises(AssertionError):
        assert_law(x[:, 1] * 0.98, lambda v: v / 5)


def test_grid_is_made_of_midpoints() -> None:
    grid = Box((0.0, 0.0), (1.0, 2.0)).grid(2)
    expected = torch.tensor([[0.25, 0.5], [0.25, 1.5], [0.75, 0.5], [0.75, 1.5]])
    torch.testing.assert_close(grid, expected)


@pytest.mark.parametrize("cells", [1, 3, 8])
def test_every_midpoint_lies_in_its_own_cell(cells: int) -> None:
    box = Box((0.0, -1.0, 2.0), (1.0, 1.0, 7.0))
    assert torch.equal(box.cell_of(box.grid(cells), cells), torch.arange(cells**3))


def test_edges_belong_to_a_cell() -> None:
    line = Box(0.0, 1.0, (1,))
    assert line.cell_of(torch.tensor([[0.0], [0.49], [0.5], [1.0]]), 2).tolist() == [0, 0, 1, 1]


@given(st.lists(st.floats(-50, 50), min_size=2, max_size=2))
def test_a_way_that_bounces_ends_where_small_steps_lead(x: list[float]) -> None:
    """The oracle unfolds one wall at a time."""
    box = Box((-1.0, 0.0), (1.0, 0.5))
    place, sign = box.reflect(torch.tensor([x], dtype=torch.float64))
    assert box.contains(place).all()
    for k, (low, high) in enumerate(((-1.0, 1.0), (0.0, 0.5))):
        at, direction = x[k], 1.0
        while not low <= at <= high:
            at, direction = (2 * low if at < low else 2 * high) - at, -direction
        assert place[0, k].item() == pytest.approx(at, abs=1e-9)
        if min(at - low, high - at) > 1e-9:  # on a wall there are two answers
            assert sign[0, k].item() == direction


def test_volume() -> None:
    box = Box((0.0, 0.0, -1.0), (1.0, 2.0, 2.0))
    assert box.volume == 6.0
    assert box.log_volume == pytest.approx(math.log(6.0))
    assert Box(-1.0, 1.0, shape=(3, 256, 256)).log_volume == pytest.approx(196608 * math.log(2))


def test_images_keep_their_shape() -> None:
    box = Box(-1.0, 1.0, shape=(1, 4, 4))
    x = box.sample(3, generator(0))
    assert x.shape == (3, 1, 4, 4)
    assert box.contains(x).tolist() == [True] * 3
    assert not box.contains(x + 2.5).any()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"low": 1.0, "high": -1.0, "shape": (2,)}, "low=1.0 must be below high=-1.0"),
        ({"low": 0.0, "high": math.inf, "shape": (2,)}, "high=inf"),
        ({"low": 0.0, "high": 1.0}, "has no dimension"),
        ({"low": (0.0, 0.0), "high": (1.0, 1.0, 1.0)}, "has no dimension"),
        ({"low": (0.0, 0.0), "high": 1.0, "shape": (3,)}, "low has 2 values"),
        ({"low": 0.0, "high": 1.0, "shape": (3, 0)}, "empty axis"),
        ({"low": 0.0, "high": 1.0, "shape": 2}, "shape=2 must be a tuple"),
    ],
)
def test_bad_boxes_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Box(**arguments)  # type: ignore[arg-type]


def test_a_grid_in_many_dimensions_is_refused() -> None:
    with pytest.raises(ValueError, match="784 dimensions"):
        Box(-1.0, 1.0, shape=(784,)).grid(10)
    with pytest.raises(ValueError, match="cells=0"):
        SQUARE.grid(0)


def test_a_proposal_outside_the_domain_is_refused() -> None:
    with pytest.raises(ValueError, match=r"proposal=Gaussian.* 100% of its points outside"):
        check_proposal(Gaussian((5.0, 5.0), 0.1), generator(0), torch.float32, SQUARE)
    with pytest.raises(ValueError, match="outside domain"):
        check_proposal(Box(-3.0, 3.0, shape=(2,)), generator(0), torch.float32, SQUARE)
    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        check_proposal(Gaussian((0.0, 0.0, 0.0)), generator(0), torch.float32, SQUARE)


def test_a_tail_outside_the_domain_is_projected() -> None:
    q0 = Gaussian((0.0, 0.0), 0.7)
    check_proposal(q0, generator(0), torch.float32, SQUARE)
    x = draw(q0, 2000, generator(0), torch.float32, SQUARE)
    assert SQUARE.contains(x).all()
    assert SQUARE.share_outside(q0.sample(2000, generator(0))) > 0


class Owned:
    """A proposal that hands out what it keeps."""

    def __init__(self) -> None:
        self.points = torch.zeros(4, 2)

    def sample(self, n: int, generator: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
        return self.points[:n]


def test_what_is_drawn_is_nobody_elses() -> None:
    """Points are moved where they are: a proposal's own must not be."""
    owned, box = Owned(), Box(-1.0, 1.0, (2,))
    draw(owned, 4, torch.Generator(), torch.float32, box).add_(0.5)
    assert not owned.points.any()
