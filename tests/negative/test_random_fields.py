import torch

from uspebm import Box
from uspebm.negative.random_fields import RandomFields
from uspebm.support.randomness import generator

FIELDS = RandomFields((1, 28, 28))


def test_fields_are_images_of_the_domain_and_follow_from_the_seed() -> None:
    x = FIELDS.sample(500, generator(0))
    assert x.shape == (500, 1, 28, 28)
    assert Box(-1.0, 1.0, FIELDS.shape).contains(x).all()
    assert torch.equal(x, FIELDS.sample(500, generator(0)))
    assert FIELDS.sample(3, generator(0), torch.float64).dtype == torch.float64
    assert FIELDS.sample(0, generator(0)).shape == (0, 1, 28, 28)


def test_fields_range_from_flat_to_two_valued_and_from_smooth_to_rough() -> None:
    x = FIELDS.sample(2000, generator(0)).flatten(1)
    spread = x.std(1)
    assert (spread < 0.1).double().mean() > 0.1
    saturated = (x.abs() == 1).double().mean(1)
    assert (saturated > 0.9).double().mean() > 0.1
    image = x.view(-1, 28, 28)
    step = (image[:, 1:] - image[:, :-1]).flatten(1).std(1) / (spread + 1e-6)
    assert (step < 0.3).double().mean() > 0.1
    assert (step > 1.0).double().mean() > 0.1
    assert x.mean(1).std() > 0.3  # bright and dark
