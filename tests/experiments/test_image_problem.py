"""What is inside and outside, and how it is split."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from uspebm.data import image_sets
from uspebm.data.points import from_bytes
from uspebm.experiments.image_problem import FASHION_MNIST, MNIST, ImageProblem, problem
from uspebm.support.randomness import generator


def numbered(n: int) -> ImageProblem:
    """Each image is its number."""

    def images() -> Tensor:
        return torch.arange(n, dtype=torch.float32).view(n, 1, 1, 1)

    return ImageProblem("numbers", images, images, {}, labels=lambda: torch.arange(n))


@pytest.mark.parametrize(
    ("n", "sizes"), [(60_000, [55_000, 2_500, 2_500]), (24, [22, 1, 1]), (100, [92, 4, 4])]
)
def test_parts_are_apart_and_nothing_is_lost(n: int, sizes: list[int]) -> None:
    inside = numbered(n)
    parts, labels = inside.split(), inside.split_labels()
    assert [len(part) for part in parts] == sizes
    assert torch.cat(list(parts)).flatten().sort().values.tolist() == list(range(n))
    assert labels is not None
    for images, classes in zip(parts, labels, strict=True):
        assert torch.equal(images.flatten().long(), classes)


def test_the_split_is_the_one_that_models_were_trained_with() -> None:
    """The same permutation for ever: what was held out stays held out."""
    order = torch.randperm(60_000, generator=generator(0, "split"))
    found = numbered(60_000).split()
    assert torch.equal(found.train.flatten().long(), order[:55_000])
    assert torch.equal(found.held_out.flatten().long(), order[55_000:57_500])
    assert order[:5].tolist() == [33101, 57512, 3452, 40206, 59345]


def test_a_handful_of_images_is_refused() -> None:
    with pytest.raises(ValueError, match="numbers has 23 training images; at least 24"):
        numbered(23).split()


@pytest.mark.usefixtures("made_up")
def test_mnist_is_a_problem_like_fashion_mnist() -> None:
    assert problem("mnist") is MNIST
    assert problem("fashion-mnist") is FASHION_MNIST
    sets = MNIST.opened(50)
    assert list(sets.outside) == ["Fashion-MNIST", "KMNIST", "NotMNIST", "Constant", "Noise"]
    assert sets.first == "Fashion-MNIST"
    assert MNIST.paper_figures is None
    digits = image_sets.scaled(image_sets.image_set("mnist"))
    assert torch.equal(sets.inside, digits[:50])
    assert torch.equal(FASHION_MNIST.opened(50).outside["MNIST"], digits[:50])
    assert torch.equal(sets.outside["Fashion-MNIST"], FASHION_MNIST.opened(50).inside)
    assert len(MNIST.split().train) == 1_100
    assert MNIST.class_number("7") == 7


def test_the_papers_figures_are_as_many_as_the_sets() -> None:
    assert FASHION_MNIST.paper_figures is not None
    for figures in (FASHION_MNIST.paper_figures.fpr95, FASHION_MNIST.paper_figures.aupr):
        assert {len(row) for row in figures.values()} == {len(FASHION_MNIST.ood)}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Sixty colour images, each of one colour."""
    where = tmp_path / "photos"
    where.mkdir()
    for k in range(60):
        Image.new("RGB", (9, 8), (4 * k, 2 * k, k)).save(where / f"{k:02}.png")
    return where


def test_a_folder_is_a_problem(folder: Path) -> None:
    inside = problem(str(folder))
    assert inside.name == "photos"
    train, test = inside.train(), inside.test()
    assert (len(train), len(test)) == (57, 3)
    assert train.shape[1:] == (3, 8, 9)
    # All of them, once, as the bytes that they are.
    values = torch.cat([train, test])[:, :, 0, 0]
    wanted = from_bytes(torch.tensor([[4 * k, 2 * k, k] for k in range(60)]).float())
    torch.testing.assert_close(values[values[:, 0].argsort()], wanted)
    assert [len(part) for part in inside.split()] == [53, 2, 2]
    sets = inside.opened(100)
    assert {"inverted", "shuffled", "Constant", "Noise"} <= sets.outside.keys()
    assert len(sets.outside) == 10
    assert {images.shape for images in sets.outside.values()} == {(3, 3, 8, 9)}
    assert torch.equal(sets.outside["inverted"], -test)
    assert inside.split_labels() is None


def test_an_array_is_a_problem(tmp_path: Path) -> None:
    images = np.random.default_rng(0).uniform(-1, 1, (40, 8, 8)).astype(np.float32)
    np.save(tmp_path / "x.npy", images)
    inside = problem(str(tmp_path / "x.npy"))
    assert inside.name == "x.npy"
    assert inside.train().shape == (38, 1, 8, 8)
    assert inside.train().dtype == torch.float32


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((39, 8, 8), np.uint8), "has 39 images; at least 40 are needed"),
        (np.full((40, 8, 8), 7.0), "has values from 7 to 7: give bytes, or floats scaled"),
        (np.zeros((40, 64)), "images are needed"),
    ],
    ids=["few", "unscaled", "a table"],
)
def test_other_arrays_are_refused(tmp_path: Path, array: object, message: str) -> None:
    np.save(tmp_path / "x.npy", np.asarray(array))
    with pytest.raises(ValueError, match=message):
        problem(str(tmp_path / "x.npy")).split()


def test_what_is_not_there_or_no_images_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match="no in-distribution set 'nowhere', but fashion-mnist, mnist"
    ):
        problem("nowhere")
    (tmp_path / "x.csv").write_text("a\n1\n")
    with pytest.raises(ValueError, match="is a table; images are needed"):
        problem(str(tmp_path / "x.csv"))
