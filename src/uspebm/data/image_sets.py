"""The image sets of the paper's experiments: found, downloaded, checked, scaled.

A file is looked for in ``$USPEBM_DATA``, then in the user's cache, then where Debian's package
``dataset-fashion-mnist`` puts it, and otherwise downloaded from its official address into the
cache. Whatever is found is checked by the SHA-256 of its unzipped content: the gzip header differs
from copy to copy.
"""

import hashlib
import os
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from ..support.files import cache_folder, whole_file
from ..support.progress import downloading
from ..support.randomness import generator
from .idx import parse_idx
from .points import from_bytes
from .unpacking import unzipped

DEBIAN = Path("/usr/share/datasets")
TEST_SIZE = 10_000


@dataclass(frozen=True)
class SetFile:
    """One file of an image set: where it lies below a data folder, its address and its checksum."""

    name: str
    url: str
    sha256: str


_FASHION = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist"
_KMNIST = "http://codh.rois.ac.jp/kmnist/dataset/kmnist"
_NOTMNIST = "https://github.com/davidflanagan/notMNIST-to-MNIST/raw/master"
SET_FILES = {
    key: SetFile(f"{folder}/{file}", f"{address}/{file}", sha256)
    for key, folder, file, address, sha256 in [
        (
            "fashion-mnist/train",
            "fashion-mnist",
            "train-images-idx3-ubyte.gz",
            _FASHION,
            "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        ),
        (
            "fashion-mnist/train-labels",
            "fashion-mnist",
            "train-labels-idx1-ubyte.gz",
            _FASHION,
            "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        ),
        (
            "fashion-mnist/test",
            "fashion-mnist",
            "t10k-images-idx3-ubyte.gz",
            _FASHION,
            "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        ),
        (
            "fashion-mnist/test-labels",
            "fashion-mnist",
            "t10k-labels-idx1-ubyte.gz",
            _FASHION,
            "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        ),
        (
            "mnist/train",
            "mnist",
            "train-images-idx3-ubyte.gz",
            _MNIST,
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        ),
        (
            "mnist/train-labels",
            "mnist",
            "train-labels-idx1-ubyte.gz",
            _MNIST,
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        ),
        (
            "mnist",
            "mnist",
            "t10k-images-idx3-ubyte.gz",
            _MNIST,
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        ),
        (
            "mnist/test-labels",
            "mnist",
            "t10k-labels-idx1-ubyte.gz",
            _MNIST,
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        ),
        (
            "kmnist",
            "kmnist",
            "t10k-images-idx3-ubyte.gz",
            _KMNIST,
            "76fbd229ce87db80dd281af5e6670de4ad0e42fb30a7bd643972994c47c1f42e",
        ),
        (
            "notmnist",
            "notmnist",
            "t10k-images-idx3-ubyte.gz",
            _NOTMNIST,
            "8e7f38ae95cc8f48e0986175ffc9137e5007ebcf3d8fdf6656c904eb9dab198b",
        ),
    ]
}

OODName = Literal["MNIST", "KMNIST", "NotMNIST", "Constant", "Noise"]
OOD_NAMES: tuple[OODName, ...] = ("MNIST", "KMNIST", "NotMNIST", "Constant", "Noise")


def scaled(images: Tensor) -> Tensor:
    """uint8 images ``(N, 28, 28)`` as floats in [−1, 1], ``(N, 1, 28, 28)``."""
    return from_bytes(images.unsqueeze(1).float())


def fashion_mnist(part: Literal["train", "test"]) -> Tensor:
    """Fashion-MNIST, uint8: 60,000 images for training or 10,000 for testing."""
    return image_set(f"fashion-mnist/{part}")


def ood(name: OODName, seed: int = 0) -> Tensor:
    """10,000 images that are not Fashion-MNIST, scaled; the synthetic ones follow from ``seed``."""
    if name == "Constant":
        return constant_images(TEST_SIZE, (1, 28, 28), seed)
    if name == "Noise":
        return noise_images(TEST_SIZE, (1, 28, 28), seed)
    if name not in OOD_NAMES:
        raise ValueError(f"there is no OOD set {name!r}; choose from {', '.join(OOD_NAMES)}")
    return scaled(image_set(name.lower()))


def constant_images(n: int, shape: tuple[int, ...], seed: int = 0) -> Tensor:
    """``Constant``: one value per image, uniform on [0, 1] before scaling."""
    values = torch.rand(n, *[1] * len(shape), generator=generator(seed, "constant"))
    return (2 * values - 1).expand(n, *shape).clone()


def noise_images(n: int, shape: tuple[int, ...], seed: int = 0) -> Tensor:
    """``Noise``: half of the images uniform, half standard Gaussian, not clipped to the domain."""
    draws, half = generator(seed, "noise"), n // 2
    uniform = 2 * torch.rand(half, *shape, generator=draws) - 1
    return torch.cat([uniform, torch.randn(n - half, *shape, generator=draws)])


def image_set(key: str) -> Tensor:
    """The values of one of the ``SET_FILES``, checked."""
    file = SET_FILES[key]
    for folder in _folders():
        path = folder / file.name
        if path.exists():
            content = unzipped(path.read_bytes(), path)
            if hashlib.sha256(content).hexdigest() != file.sha256:
                raise ValueError(
                    f"{path} is not the file it should be (its content's SHA-256 differs): remove "
                    f"it, and it is downloaded anew from {file.url}"
                )
            return parse_idx(content, path)
    return _download(file)


def _folders() -> Iterator[Path]:
    if own := os.environ.get("USPEBM_DATA"):
        yield Path(own).expanduser()
    yield cache_folder() / "data"
    yield DEBIAN


def _download(file: SetFile) -> Tensor:
    path = cache_folder() / "data" / file.name
    try:
        with urllib.request.urlopen(file.url, timeout=30) as answer:
            size = int(answer.headers.get("Content-Length", 0))
            content = downloading(answer, file.name, size)
        plain = unzipped(content, Path(file.name))
    except (OSError, ValueError, HTTPException) as error:
        raise ValueError(
            f"{file.name} was found in none of {', '.join(map(str, _folders()))} and cannot be "
            f"downloaded from {file.url} ({error}): put it in one of these folders, or set "
            "USPEBM_DATA to the folder that has it"
        ) from error
    if hashlib.sha256(plain).hexdigest() != file.sha256:
        raise ValueError(
            f"{file.url} sent something else than {file.name} (its content's SHA-256 "
            "differs): get the file elsewhere, and put it below USPEBM_DATA"
        )
    with whole_file(path) as kept:
        kept.write(content)
    return parse_idx(plain, path)
