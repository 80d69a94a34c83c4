"""Points in every shape that people have them in."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from uspebm.data.image_sets import scaled
from uspebm.data.points import as_bytes, described, from_bytes, points

DRAWS = np.random.default_rng(0)
COLOUR = DRAWS.integers(0, 256, size=(6, 5, 7, 3)).astype(np.uint8)


def test_tables_keep_their_numbers_whatever_their_type() -> None:
    for dtype in (np.float64, np.float32, np.int64, np.uint8, np.bool_):
        table = DRAWS.integers(0, 2, size=(4, 3)).astype(dtype)
        found = points(table)
        assert found.dtype == torch.float64
        assert np.array_equal(found.numpy(), table.astype(np.float64))


def test_the_order_of_an_images_axes_does_not_matter() -> None:
    assert torch.equal(points(COLOUR), points(COLOUR.transpose(0, 3, 1, 2)))
    grey = COLOUR[..., 0]
    assert torch.equal(points(grey), points(grey[..., None]))
    assert torch.equal(points(grey), points(grey[:, None]))


def test_bytes_become_minus_one_to_one() -> None:
    edges = np.array([[[0, 255]]], np.uint8)
    assert points(edges).flatten().tolist() == [-1.0, 1.0]
    floats = COLOUR.astype(np.float32) / 127.5 - 1
    assert torch.equal(points(COLOUR).double(), points(floats))
    assert points(COLOUR.astype(np.int32)).max() > 1  # other whole numbers are no bytes


def test_bytes_are_scaled_alike_whatever_holds_them() -> None:
    """Every byte of a user's images and of an image set's, as an array and as a tensor."""
    every = np.arange(256, dtype=np.uint8).reshape(1, 16, 16)
    found = points(every)
    assert found.dtype == torch.float32
    assert torch.equal(scaled(torch.from_numpy(every)), found)
    assert np.array_equal(from_bytes(every[:, None].astype(np.float32)), found.numpy())
    exact = from_bytes(torch.from_numpy(every)[:, None].double())
    # A number below 2 is rounded, then one below 1.
    assert (found - exact).abs().max() <= 2.0**-24 + 2.0**-25


def test_memory_is_not_shared() -> None:
    table = np.zeros((2, 2))
    table.flags.writeable = False
    points(table).fill_(1.0)
    assert not table.any()


@pytest.mark.parametrize(
    "array", [np.zeros((2, 9, 9, 5)), np.zeros((2, 3, 3, 3, 3)), np.zeros((2, 9, 9, 9))]
)
def test_other_shapes_are_refused(array: NDArray[np.float64]) -> None:
    with pytest.raises(ValueError, match=r"X has shape .* must be a table") as caught:
        points(array)
    assert "\n" not in str(caught.value)


def test_points_in_words() -> None:
    assert described((1,)) == "1 column"
    assert described((3, 32, 32)) == "32 × 32 pixels of 3 channels"


def test_what_floats_are_does_not_depend_on_what_else_is_in_the_batch() -> None:
    """Images of bytes that something made floats of, from black to bright, one by one."""
    levels = np.stack([np.arange(4) * top // 3 for top in (2, 3, 15, 20, 21, 255)])
    images = levels.reshape(-1, 2, 2).astype(np.float64)
    assert as_bytes(images).dtype == np.uint8
    for image in images:
        alone = as_bytes(image[None])
        assert alone.dtype == np.uint8
        assert np.array_equal(alone[0], image)


@pytest.mark.parametrize("high", [0.0, 0.5, 1.0])
def test_floats_that_may_be_in_another_scale_are_pointed_out(high: float) -> None:
    images = np.zeros((2, 2, 2))
    images[0, 0] = high
    with pytest.warns(UserWarning, match=f"from 0 to {high:g}: if they are scaled to"):
        assert as_bytes(images) is images


@pytest.mark.parametrize("values", [[-21.0, 0.0], [-1.0, 20.5], [0.0, 2.5], [0.5, 9.0], [0, 256.0]])
def test_floats_far_from_any_scale_are_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="the model was fitted to bytes, but X has float64") as no:
        as_bytes(np.array(values).reshape(1, 1, 2))
    assert "\n" not in str(no.value)
    noisy = np.array([[[-1.5, 6.0]]])  # as normal noise may be
    assert as_bytes(noisy) is noisy
