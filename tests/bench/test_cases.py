import torch

from uspebm import Conv
from uspebm.bench import cases


def test_multiplications_are_counted_as_the_layers_define_them() -> None:
    forward = 28 * 28 * 32 * 9 + 14 * 14 * 64 * 32 * 9 + 7 * 7 * 128 * 64 * 9 + 1152 * 128 + 128
    assert cases.multiplications(Conv(), (1, 28, 28)) == 2 * forward


def test_images_are_as_far_apart_as_they_say() -> None:
    x = cases.synthetic_images(10_000).flatten(1)
    distance = torch.cdist(x[:200], x)
    distance[range(200), range(200)] = torch.inf
    assert 7.0 < distance.min(1).values.median() < 9.5
    assert 0.002 < (distance < 10).double().mean() < 0.01
