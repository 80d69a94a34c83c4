"""Units: there and back, the same whatever units the data came in."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from uspebm.energies.kernel import distances_to_others
from uspebm.energies.scaling import (
    NEIGHBOURS,
    SHRINKAGES,
    Scaling,
    as_is,
    of_images,
    of_pixels,
    of_table,
)
from uspebm.support.randomness import generator


def normal(n: int, d: int, seed: int = 0) -> Tensor:
    return torch.randn(n, d, generator=generator(seed), dtype=torch.float64)


MIXED = normal(200, 3) @ torch.tensor([[1.0, 0.9, 0.0], [0.0, 0.4, 0.2], [0.0, 0.0, 1.0]]).double()


@given(st.lists(st.floats(-9, 9), min_size=3, max_size=3), st.floats(-1e3, 1e3))
def test_there_and_back(exponents: list[float], shift: float) -> None:
    units = 10.0 ** torch.tensor(exponents, dtype=torch.float64)
    x = (MIXED + shift) * units
    scaling = of_table(x)
    back = scaling.inverse(scaling(x))
    torch.testing.assert_close(back / units, x / units, rtol=1e-12, atol=1e-9)


def test_images_have_one_unit() -> None:
    images = torch.rand(50, 2, 4, 4, generator=generator(0), dtype=torch.float64)
    images[:, 0] *= 10
    scaling = of_images(images)
    z = scaling(images)
    assert scaling.factor.dim() == 0
    assert z.square().mean().item() == pytest.approx(1)
    assert z[:, 0].std() > 9 * z[:, 1].std()  # brighter channels stay so
    torch.testing.assert_close(scaling.inverse(z), images)


@pytest.mark.parametrize("kind", ["table", "images"])
def test_log_det_is_that_of_the_jacobian(kind: str) -> None:
    x = MIXED * torch.tensor([1e3, 1.0, 1e-3]) if kind == "table" else MIXED.reshape(-1, 1, 2, 3)
    scaling = of_table(x) if kind == "table" else of_images(x)
    d = x[0].numel()
    jacobian = torch.func.jacrev(lambda p: scaling(p[None])[0])(x[0]).reshape(d, d)
    exact = torch.linalg.slogdet(jacobian)[1].item()
    assert scaling.log_det == pytest.approx(exact, abs=1e-9)


@given(st.lists(st.integers(-20, 20), min_size=3, max_size=3))
def test_units_of_columns_do_not_matter(powers: list[int]) -> None:
    """Powers of two: not even rounding differs."""
    units = 2.0 ** torch.tensor(powers, dtype=torch.float64)
    assert torch.equal(of_table(MIXED)(MIXED), of_table(MIXED * units)(MIXED * units))


def test_differences_between_neighbours_are_white_after_shrinkage() -> None:
    """Along an axis of variance v they have v / ((1 − s) v + s): one but for the shrinkage s."""
    x = normal(1000, 2) @ torch.tensor([[1.0, 1.0], [0.0, 0.01]]).double()
    x[:500] += 5  # two clusters, in which the columns differ by a hundredth of their spread
    single = (x - x.mean(0)) / x.std(0, correction=0)
    nearest = distances_to_others(single, single).topk(NEIGHBOURS, largest=False).indices

    def variances(z: Tensor) -> Tensor:
        differences = (z[:, None] - z[nearest]).flatten(0, 1)
        found: Tensor = torch.linalg.eigvalsh(differences.T @ differences)
        return 2 * found / found.sum()

    before, after = variances(single), variances(of_table(x)(x))
    s = min(SHRINKAGES)
    exact = before / ((1 - s) * before + s)
    assert before[1] / before[0] > 20
    torch.testing.assert_close(after, 2 * exact / exact.sum())


def test_the_unit_is_the_spread_of_the_points() -> None:
    assert of_table(MIXED)(MIXED).square().mean().item() == pytest.approx(1)


def test_independent_columns_are_left_alone() -> None:
    """Shrunk all the way or nearly: no direction is stretched by more than sampling would."""
    factor = of_table(normal(1000, 5)).factor
    singular = torch.linalg.svdvals(factor)
    assert singular.max() / singular.min() < 1.5


def test_few_rows_of_many_columns_are_not_whitened() -> None:
    """Their covariance has rank 29 of 100; stretched along the rest, new points would be far."""
    x = normal(60, 100)
    scaling = of_table(x[:30])
    known, new = scaling(x[:30]), scaling(x[30:])
    assert new.square().mean() < 4 * known.square().mean()


def test_equal_columns_of_two_values_stay_equal() -> None:
    """The nearest different row of a binary table differs in one column, the same for all."""
    x = (normal(240, 3) > 0).double()
    singular = torch.linalg.svdvals(of_table(x).factor)
    assert singular.max() / singular.min() < 2


@pytest.mark.parametrize("value", [0.0, 0.1, 1e9 + 0.1, -1e-9])
def test_constant_columns_keep_their_unit(value: float) -> None:
    x = torch.cat([MIXED, torch.full((200, 1), value, dtype=torch.float64)], 1)
    z = of_table(x)(x)
    assert torch.isfinite(z).all()
    assert z[:, 3].abs().max() < 1e-14 * max(1, abs(value))  # rounding of the mean
    off = x[:1].clone()
    off[0, 3] += 1
    assert 0.01 < (of_table(x)(off) - z[:1]).norm() < 100


@pytest.mark.parametrize("rows", [1, 2, 3, 6])
def test_hardly_any_rows_are_enough(rows: int) -> None:
    x = normal(rows, 4)
    assert torch.isfinite(of_table(x)(x)).all()
    assert math.isfinite(of_table(x).log_det)


def test_a_scaling_is_what_it_says() -> None:
    matrix = torch.tensor([[1.0, 2.0], [0.0, 1.0]])
    assert Scaling(torch.ones(2), matrix)(torch.tensor([[2.0, 1.0]])).tolist() == [[1.0, 2.0]]
    assert np.isclose(Scaling(torch.ones(2), torch.tensor(3.0)).log_det, 2 * math.log(3))


def test_pixels_that_lie_between_minus_one_and_one_stay_as_they_are() -> None:
    images = torch.rand(20, 1, 4, 4, generator=generator(0))
    for same in (images, 2 * images - 1, images - 0.5, torch.zeros(3, 1, 2, 2)):
        assert torch.equal(of_pixels(same)(same), same.double())


@pytest.mark.parametrize(("low", "high"), [(0.0, 255.0), (-3.0, 5.0), (0.999, 1.001), (7.0, 7.5)])
def test_other_pixels_are_brought_there(low: float, high: float) -> None:
    images = low + (high - low) * torch.rand(50, 3, 4, 4, generator=generator(0)).double()
    images[0, 0, 0, 0], images[1, 0, 0, 0] = low, high
    scaling = of_pixels(images)
    z = scaling(images)
    assert (z.min().item(), z.max().item()) == pytest.approx((-1, 1))
    torch.testing.assert_close(scaling.inverse(z), images)
    torch.testing.assert_close((z - z.mean()) * (high - low) / 2, images - images.mean())


def test_images_that_are_all_of_one_colour_keep_their_unit() -> None:
    images = torch.full((5, 1, 4, 4), 9.1)
    z = of_pixels(images)(images)
    assert z.abs().max() < 1e-14
    assert math.isfinite(of_pixels(images).log_det)


def test_as_is_changes_nothing() -> None:
    x = normal(5, 3)
    assert torch.equal(as_is((3,))(x), x)
    assert as_is((1, 2, 3)).log_det == 0
