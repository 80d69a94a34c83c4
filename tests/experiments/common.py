"""A problem of small images, and energies that are known."""

from torch import Tensor

from uspebm.data.image_sets import constant_images, noise_images
from uspebm.energies import Conv
from uspebm.experiments.image_problem import ImageProblem
from uspebm.negative import RandomFields
from uspebm.support.randomness import generator

SHAPE = (1, 8, 8)


def fields(n: int, seed: int) -> Tensor:
    """Images with something to learn."""
    return RandomFields(SHAPE, (2, 4)).sample(n, generator(seed, "fields"))


def small_problem() -> ImageProblem:
    """Whoever has a new in-distribution set writes such a value."""
    return ImageProblem(
        name="Fields",
        train=lambda: fields(120, 0),
        test=lambda: fields(40, 1),
        ood={
            "Noise": lambda: noise_images(40, SHAPE),
            "Constant": lambda: constant_images(40, SHAPE),
        },
    )


def brightness(sign: float = 1.0) -> Conv:
    """An energy that is the mean of the pixels, or minus it."""

    class Brightness(Conv):
        def forward(self, x: Tensor) -> Tensor:
            return sign * x.flatten(1).mean(1)

    return Brightness()
