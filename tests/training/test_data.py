"""Whatever data come as, ``fit`` learns the same from them, and says what it cannot learn from."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from uspebm import MLP, Box, GaussianMixture, RiemannGrid, TrainState, fit, grid_density
from uspebm.support.randomness import generator
from uspebm.training.data import Data, Share, as_points

LINE = Box(-1.0, 1.0, (1,))
LAW = GaussianMixture(((-0.5,), (0.4,)), 0.1)
POINTS = LAW.sample(40, generator(0))
BACKWARDS = POINTS.flip(0).numpy()[::-1]  # negative strides


class Items(Dataset[Any]):
    """What a user's own data set hands out."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __getitem__(self, k: int) -> Any:
        return self.items[k]

    def __len__(self) -> int:
        return len(self.items)


class Stream(IterableDataset[Tensor]):
    """A data set without a length."""

    def __iter__(self) -> Iterator[Tensor]:
        return iter(POINTS)


def read_only(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    array = array.copy()
    array.flags.writeable = False
    return array


def losses(data: Data) -> list[float]:
    phase = RiemannGrid(LINE, 20)
    torch.manual_seed(0)
    net = MLP(1, width=8)
    state = TrainState.start(net, phase, torch.optim.Adam(net.parameters(), 1e-2))
    return [record.loss for record in fit(state, phase, data, batch_size=10, steps=6)]


@pytest.mark.parametrize(
    "data",
    [
        POINTS.numpy(),
        read_only(POINTS.numpy()),
        BACKWARDS,
        POINTS.numpy().astype(">f4"),
        POINTS.numpy().astype(np.longdouble),
        POINTS.double(),
        TensorDataset(POINTS),
        TensorDataset(POINTS, torch.arange(40)),
        Items(list(POINTS)),
        Items([(point.numpy(), "label") for point in POINTS]),
        Items([[point, 0] for point in POINTS]),
    ],
    ids=[
        *("array", "read-only array", "backwards", "other byte order", "long floats", "doubles"),
        *("data set", "with labels", "items", "arrays with labels", "lists"),
    ],
)
def test_the_same_points_teach_the_same(data: Data) -> None:
    assert losses(data) == losses(POINTS)


def test_a_density_on_a_grid_is_a_law_to_learn_from() -> None:
    assert len(losses(grid_density(LAW, LINE, 100))) == 6


def test_arrays_are_shared_and_a_law_stays_one() -> None:
    array = POINTS.numpy().copy()
    shared = as_points(array, 0)
    array[0] = 7.0
    assert isinstance(shared, Share)
    assert shared.points[0] == 7.0
    assert as_points(LAW, 0) is LAW


def test_what_a_data_set_draws_follows_from_the_seed() -> None:
    class Noisy(Items):
        def __getitem__(self, k: int) -> Tensor:
            return POINTS[k] + 0.01 * torch.randn(1)

    noisy = Noisy(list(POINTS))
    before = torch.random.get_rng_state()
    a, b, c = (as_points(noisy, seed) for seed in (0, 0, 1))
    assert torch.equal(a.points, b.points)  # type: ignore[union-attr]
    assert not torch.equal(a.points, c.points)  # type: ignore[union-attr]
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([1.0], "data is of type list.*a Dataset that has a length, or have a method sample"),
        (Stream(), "data is of type Stream"),
        (np.zeros((9, 1), np.uint8), r"data is uint8 of shape \(9, 1\).*scale it first"),
        (np.array(["a"]), "data is <U1 of shape"),
        (np.zeros(9), r"data is torch.float64 of shape \(9,\)"),
        (torch.tensor(1.0), r"data is torch.float32 of shape \(\)"),
        (Items([]), "data has no items"),
        (Items([torch.zeros(1), torch.zeros(2)]), r"item 1 of data has shape \(2,\), item 0"),
        (Items([{"x": 1.0}]), "item 0 of data holds a point of type dict.*a transform"),
        (Items([torch.zeros(1, dtype=torch.uint8)] * 20), "data is torch.uint8"),
    ],
)
def test_what_cannot_be_learned_from_is_refused(data: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        losses(data)
