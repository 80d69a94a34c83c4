import pytest
import torch

from uspebm.evaluation.proxies import blurred, faded, outlined, proxies, shuffled
from uspebm.support.randomness import generator

IMAGES = 2 * torch.rand(20, 1, 28, 28, generator=generator(0)) - 1


def test_every_proxy_is_a_set_of_images() -> None:
    made = proxies(IMAGES)
    assert len(made) == 8
    for x in made.values():
        assert x.shape == IMAGES.shape
        assert x.abs().max() <= 1 + 1e-6
        assert not torch.equal(x, IMAGES)
    for name, x in proxies(IMAGES).items():
        assert torch.equal(x, made[name])


def test_colour_and_other_sides_are_taken_channel_by_channel() -> None:
    colour = 2 * torch.rand(6, 3, 10, 13, generator=generator(1)) - 1
    made, one = proxies(colour), proxies(colour[:, 1:2])
    for name, x in made.items():
        assert x.shape == colour.shape
        torch.testing.assert_close(x[:, 1:2], one[name])
    assert torch.equal(made["rotated"], colour.flip(2, 3))  # a half turn: sides differ
    # What no tile holds stays where it is.
    assert torch.equal(made["shuffled"][:, :, 8:], colour[:, :, 8:])
    assert torch.equal(made["shuffled"][:, :, :, 12:], colour[:, :, :, 12:])
    with pytest.raises(ValueError, match="images of 3 × 9 cannot be cut in 4 × 4 tiles"):
        shuffled(torch.zeros(1, 1, 3, 9), 4, generator(0))


def test_simple_proxies_are_what_they_are_called() -> None:
    made = proxies(IMAGES)
    assert torch.equal(made["inverted"], -IMAGES)
    # What was at the right end of the top row is now at the left end of it: a quarter turn.
    assert torch.equal(made["rotated"][:, 0, 0, 0], IMAGES[:, 0, 0, -1])
    assert torch.equal(made["rotated"][:, 0, -1, 0], IMAGES[:, 0, 0, 0])
    assert torch.equal(made["stretched"], (4 * IMAGES).clamp(-1, 1))
    others = 2 * made["blended"] - IMAGES  # each image once
    partner = torch.cdist(others.flatten(1), IMAGES.flatten(1)).argmin(1)
    torch.testing.assert_close(others, IMAGES[partner])
    assert partner.sort().values.tolist() == list(range(len(IMAGES)))


def test_blurring_keeps_constants_and_the_mean() -> None:
    flat = torch.full((1, 1, 28, 28), 0.3)
    torch.testing.assert_close(blurred(flat, 3.0), flat)
    point = torch.zeros(1, 1, 28, 28)
    point[0, 0, 14, 14] = 1.0
    assert blurred(point, 2.0).sum().item() == pytest.approx(1.0)
    assert blurred(point, 2.0)[0, 0, 14, 14].item() == pytest.approx(
        1 / (2 * 3.14159 * 4), rel=0.02
    )


def test_shuffling_moves_whole_tiles() -> None:
    moved = shuffled(IMAGES, 4, generator(0))
    for before, after in zip(IMAGES, moved, strict=True):
        tiles = [{t.numpy().tobytes() for t in _tiles(x)} for x in (before[0], after[0])]
        assert tiles[0] == tiles[1]


def _tiles(image: torch.Tensor) -> list[torch.Tensor]:
    return [t.contiguous() for row in image.split(7) for t in row.split(7, dim=1)]


def test_fading_keeps_the_mean_and_lowers_the_contrast() -> None:
    pale = faded(IMAGES, generator(0))
    torch.testing.assert_close(pale.mean((2, 3)), IMAGES.mean((2, 3)))
    assert (pale.std((2, 3)) <= IMAGES.std((2, 3)) / 3).all()


def test_an_outline_is_bright_at_edges_only() -> None:
    square = torch.full((1, 1, 28, 28), -1.0)
    square[:, :, 8:20, 8:20] = 1.0
    edges = outlined(square)
    assert edges[0, 0, 14, 14] == edges[0, 0, 2, 2] == -1.0
    assert edges[0, 0, 14, 7] == edges[0, 0, 7, 14] == 1.0
