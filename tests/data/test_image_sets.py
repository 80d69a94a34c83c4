"""Finding, checking and downloading the image sets; no test needs the network."""

import gzip
import hashlib
import io
import os
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import torch

from uspebm.data import image_sets
from uspebm.data.image_sets import OOD_NAMES, SetFile, fashion_mnist, image_set, ood, scaled

PLAIN = bytes([0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 2, 0, 85, 170, 255])
FILE = SetFile("tiny/images.gz", "https://example.org/images.gz", hashlib.sha256(PLAIN).hexdigest())


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A world with one small file, nothing found, and no network."""
    monkeypatch.setattr(image_sets, "SET_FILES", {"tiny": FILE})
    monkeypatch.setattr(image_sets, "DEBIAN", tmp_path / "debian")
    monkeypatch.setenv("USPEBM_DATA", str(tmp_path / "own"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError("no route to host")

    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    return tmp_path


def put(folder: Path, content: bytes) -> None:
    (folder / "tiny").mkdir(parents=True)
    (folder / FILE.name).write_bytes(content)


@pytest.mark.parametrize("place", ["own", "cache/uspebm/data", "debian"])
def test_a_file_is_found_wherever_it_may_lie(folders: Path, place: str) -> None:
    put(folders / place, gzip.compress(PLAIN))
    assert image_set("tiny").tolist() == [[[0, 85], [170, 255]]]


def test_the_gzip_header_does_not_matter(folders: Path) -> None:
    put(folders / "own", gzip.compress(PLAIN, mtime=12345))
    assert image_set("tiny").shape == (1, 2, 2)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(PLAIN[:-1] + b"x"), "is not the file it should be"),
        (gzip.compress(PLAIN)[:-3], "is not a whole gzip file"),
        (b"<html>not found</html>", "is not the file it should be"),
    ],
    ids=["another file", "cut short", "a web page"],
)
def test_wrong_files_are_one_line(folders: Path, content: bytes, message: str) -> None:
    put(folders / "own", content)
    with pytest.raises(ValueError, match=message) as error:
        image_set("tiny")
    assert "\n" not in str(error.value)


def test_what_is_missing_says_how_to_get_it(folders: Path) -> None:
    with pytest.raises(ValueError, match="set USPEBM_DATA to the folder that has it") as error:
        image_set("tiny")
    assert FILE.url in str(error.value)
    assert "no route to host" in str(error.value)


class Answer(io.BytesIO):
    headers = {"Content-Length": "10"}  # noqa: RUF012


def test_a_download_is_checked_and_kept(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        urllib.request, "urlopen", lambda *_, **__: Answer(gzip.compress(PLAIN + b"x"))
    )
    with pytest.raises(ValueError, match="sent something else"):
        image_set("tiny")
    assert not (folders / "cache/uspebm/data" / FILE.name).exists()
    monkeypatch.setattr(urllib.request, "urlopen", lambda *_, **__: Answer(gzip.compress(PLAIN)))
    assert image_set("tiny").shape == (1, 2, 2)
    assert (folders / "cache/uspebm/data" / FILE.name).exists()


def test_synthetic_sets_follow_from_the_seed() -> None:
    constant = ood("Constant")
    assert constant.shape == (10_000, 1, 28, 28)
    assert (constant.flatten(1).std(1) == 0).all()
    values = constant[:, 0, 0, 0]
    assert values.min() >= -1
    assert values.max() <= 1
    # Uniform on [−1, 1]: the mean of 10,000 has standard error 1/√(3 · 10,000).
    assert abs(values.mean()) < 4 / (3 * 10_000) ** 0.5
    noise = ood("Noise")
    assert noise[:5000].abs().max() <= 1
    assert noise[5000:].abs().max() > 3  # Gaussian, and not clipped
    assert torch.equal(noise, ood("Noise"))
    assert not torch.equal(noise, ood("Noise", seed=1))
    assert image_sets.constant_images(5, (3, 8, 9)).shape == (5, 3, 8, 9)
    assert image_sets.noise_images(5, (3, 8, 9)).shape == (5, 3, 8, 9)


def test_an_unknown_set_is_refused() -> None:
    with pytest.raises(ValueError, match="choose from MNIST, KMNIST"):
        ood("CIFAR")  # type: ignore[arg-type]


@pytest.mark.skipif("USPEBM_DATA" not in os.environ, reason="the image sets are not at hand")
def test_the_image_sets_are_what_they_should_be() -> None:
    assert fashion_mnist("train").shape == (60_000, 28, 28)
    assert image_set("fashion-mnist/train-labels").bincount().tolist() == [6000] * 10
    assert image_set("mnist/train").shape == (60_000, 28, 28)
    assert image_set("mnist/train-labels").bincount().tolist()[:3] == [5923, 6742, 5958]
    images = scaled(fashion_mnist("test"))
    assert images.shape == (10_000, 1, 28, 28)
    assert (images.min().item(), images.max().item()) == (-1.0, 1.0)
    for name in OOD_NAMES:
        assert ood(name).shape == (10_000, 1, 28, 28)
