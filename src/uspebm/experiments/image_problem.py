"""An image experiment as a value: what is inside, what is outside, and what the paper found.

A new in-distribution set is one more :class:`ImageProblem`, and no other change. Its training
images are split once: eleven twelfths to train on, and twice a twenty-fourth to look at while
developing, in-distribution and for proxies (:mod:`uspebm.evaluation.proxies`). Of 60,000 these are
55,000, 2,500 and 2,500. Test images and OOD sets are opened by Table 1 and Fig. 5 only.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from ..data import image_sets
from ..data.points import points
from ..data.readers import is_table, open_source
from ..evaluation.proxies import proxies
from ..support.randomness import generator

Load = Callable[[], Tensor]
"""Images ``(N, C, H, W)`` in [−1, 1], or classes ``(N,)``, read when they are asked for."""
MeanAndSpread = tuple[float, float]
DEVELOPMENT = 24
"""One in so many training images is held out, and another one is for proxies."""
TEST = 20
"""One in so many of a user's images is for the test."""
FEWEST_IMAGES = 40


class ImageSplit(NamedTuple):
    """Training images in three parts, or their classes."""

    train: Tensor
    held_out: Tensor
    for_proxies: Tensor


class OpenedSets(NamedTuple):
    """What a method is judged on in the end."""

    inside: Tensor
    """Test images."""
    outside: dict[str, Tensor]

    @property
    def first(self) -> str:
        """The OOD set that is looked at closely."""
        return next(iter(self.outside))


@dataclass(frozen=True)
class PaperFigures:
    """Of the paper's Table 1, by method, in the order of the OOD sets, in per cent.

    Mean and deviation of three seeds. Of AUPR it does not say which of the two is positive.
    """

    fpr95: Mapping[str, tuple[MeanAndSpread, ...]]
    aupr: Mapping[str, tuple[MeanAndSpread, ...]]


@dataclass(frozen=True)
class ImageProblem:
    """One in-distribution set, and what is to be told from it.

    Arguments:
        name: As tables and cards call it.
        train: Training images.
        test: Test images.
        ood: The OOD sets; the first is looked at closely.
        paper_figures: What the paper reports on it.
        labels: Classes of the training images.
        test_labels: Classes of the test images.
        classes: Their names, by number.
    """

    name: str
    train: Load
    test: Load
    ood: Mapping[str, Load]
    paper_figures: PaperFigures | None = None
    labels: Load | None = None
    test_labels: Load | None = None
    classes: tuple[str, ...] = ()

    def split(self) -> ImageSplit:
        """The training images, split the same way every time."""
        return self._parts(self.train())

    def split_labels(self) -> ImageSplit | None:
        """The classes of the split's images, where they are known."""
        return None if self.labels is None else self._parts(self.labels())

    def _parts(self, every: Tensor) -> ImageSplit:
        if len(every) < DEVELOPMENT:
            raise ValueError(
                f"{self.name} has {len(every)} training images; at least {DEVELOPMENT} are needed"
            )
        order = torch.randperm(len(every), generator=generator(0, "split"))
        kept = len(every) // DEVELOPMENT
        parts = every[order].split([len(every) - 2 * kept, kept, kept])
        return ImageSplit(*(part.contiguous() for part in parts))

    def opened(self, images: int) -> OpenedSets:
        """Test images and OOD sets, at most so many images of each."""
        inside = self.test()[:images]
        return OpenedSets(inside, {name: load()[:images] for name, load in self.ood.items()})

    def class_number(self, kind: str) -> int:
        """Of a class, by name."""
        if kind not in self.classes:
            raise ValueError(f"there is no class {kind!r}, but {', '.join(self.classes)}")
        return self.classes.index(kind)


def _known_set(key: str) -> Tensor:
    return image_sets.scaled(image_sets.image_set(key))


def _labels(key: str) -> Tensor:
    return image_sets.image_set(key)


FASHION_MNIST = ImageProblem(
    name="Fashion-MNIST",
    train=partial(_known_set, "fashion-mnist/train"),
    test=partial(_known_set, "fashion-mnist/test"),
    ood={name: partial(image_sets.ood, name) for name in image_sets.OOD_NAMES},
    paper_figures=PaperFigures(
        fpr95={
            "SRLMC": ((97.73, 0.76), (50.56, 6.02), (12.27, 3.06), (20.03, 12.47), (0.0, 0.0)),
            "PS-USP": ((2.18, 1.03), (1.84, 1.01), (7.04, 0.57), (0.97, 0.78), (0.0, 0.0)),
        },
        aupr={
            "SRLMC": ((86.01, 4.94), (90.57, 3.13), (99.05, 0.21), (99.89, 0.10), (100.0, 0.0)),
            "PS-USP": ((99.15, 0.29), (99.32, 0.12), (99.07, 0.27), (99.99, 0.00), (100.0, 0.0)),
        },
    ),
    labels=partial(_labels, "fashion-mnist/train-labels"),
    test_labels=partial(_labels, "fashion-mnist/test-labels"),
    classes=(
        *("t-shirt", "trouser", "pullover", "dress", "coat"),
        *("sandal", "shirt", "sneaker", "bag", "boot"),
    ),
)
MNIST = ImageProblem(
    name="MNIST",
    train=partial(_known_set, "mnist/train"),
    test=partial(_known_set, "mnist"),
    ood={
        "Fashion-MNIST": FASHION_MNIST.test,
        **{name: load for name, load in FASHION_MNIST.ood.items() if name != "MNIST"},
    },
    labels=partial(_labels, "mnist/train-labels"),
    test_labels=partial(_labels, "mnist/test-labels"),
    classes=tuple("0123456789"),
)
PROBLEMS = {one.name.lower(): one for one in (FASHION_MNIST, MNIST)}


def problem(name: str) -> ImageProblem:
    """One of ``PROBLEMS``, or the images at a path of the user's."""
    if name in PROBLEMS:
        return PROBLEMS[name]
    path = Path(name)
    if not path.exists():
        raise ValueError(
            f"there is no in-distribution set {name!r}, but {', '.join(PROBLEMS)}, or a folder or "
            "file of images that is there"
        )
    return own_images(path)


def own_images(path: Path) -> ImageProblem:
    """A folder of images or a file with an array, a twentieth of it held back as test images.

    Outside are changed test images, constant ones, and noise. Files are read once.
    """
    if is_table(path):
        raise ValueError(f"{path} is a table; images are needed")

    @cache
    def parts() -> tuple[Tensor, Tensor]:
        images = _read(path)
        order = torch.randperm(len(images), generator=generator(0, "test"))
        held_back = len(images) // TEST
        train, test = images[order].split([len(images) - held_back, held_back])
        return train, test

    @cache
    def changed() -> dict[str, Tensor]:
        return proxies(parts()[1])

    def one_proxy(name: str) -> Tensor:
        return changed()[name]

    def like_test(make: Callable[[int, tuple[int, ...]], Tensor]) -> Tensor:
        test = parts()[1]
        return make(len(test), tuple(test.shape[1:]))

    # Which proxies there are does not depend on the images.
    names = proxies(torch.zeros(1, 1, TEST, TEST))
    return ImageProblem(
        name=path.resolve().name,
        train=lambda: parts()[0],
        test=lambda: parts()[1],
        ood={
            **{name: partial(one_proxy, name) for name in names},
            "Constant": partial(like_test, image_sets.constant_images),
            "Noise": partial(like_test, image_sets.noise_images),
        },
    )


def _read(path: Path) -> Tensor:
    array = open_source(path).read()
    if array.ndim < 3:
        raise ValueError(f"{path} has shape {array.shape}; images are needed")
    images = points(array).float()
    if len(images) < FEWEST_IMAGES:
        raise ValueError(f"{path} has {len(images)} images; at least {FEWEST_IMAGES} are needed")
    if images.abs().max() > 1:
        low, high = images.min().item(), images.max().item()
        raise ValueError(
            f"{path} has values from {low:g} to {high:g}: give bytes, or floats scaled to [−1, 1]"
        )
    return images
