"""Folders of images: which files are read, in which order, and which are skipped on request."""

import errno
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from uspebm.data.readers import FolderRules, ImageFolder, open_source, some_rows
from uspebm.data.readers.images import DEEP, GREY, ImageForm
from uspebm.support.extras import MissingExtraError

from .common import refused

SKIP = FolderRules(skip_bad=True)
LIKE_A_MODEL = FolderRules(skip_bad=True, wanted=ImageForm((2, 3), GREY))
GOOD = ["00.png", "03.png", "dog/05.png", "dog/07.png", "dog/big/09.png"]


def write(folder: Path, name: str, image: Image.Image) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    image.save(folder / name)


def grey(value: int, size: tuple[int, int] = (3, 2)) -> Image.Image:
    """Of this value, ``size`` wide and high."""
    return Image.new("L", size, value)


def test_folders_in_it_are_read_too_sorted_by_path(tmp_path: Path) -> None:
    names = ["B.png", "a.png", "a/10.png", "a/2.png", "a/b/c/d.png", "b.PNG", "größe/x.png"]
    for k in (3, 0, 6, 1, 5, 2, 4):  # the order of making does not matter
        write(tmp_path, names[k], grey(k))
    for hidden in (".x.png", ".git/x.png", "a/.cache/deep/x.png"):
        write(tmp_path, hidden, grey(99))
    (tmp_path / "a" / ".DS_Store").write_text("not an image")
    (tmp_path / "empty").mkdir()
    data = ImageFolder(tmp_path)
    assert data.rows == len(names)
    assert data.read()[:, 0, 0].tolist() == list(range(len(names)))
    assert list(data.names()) == names
    assert data.skipped == {}


def test_what_is_no_image_is_named_with_its_path(tmp_path: Path) -> None:
    write(tmp_path, "cat/x.png", grey(1))
    (tmp_path / "cat" / "labels.txt").write_text("0\n")
    refused(tmp_path, "but has cat/labels.txt (fit, score and evaluate leave such files out")
    data = ImageFolder(tmp_path, SKIP)
    assert data.read().shape == (1, 2, 3)
    assert list(data.skipped) == ["cat/labels.txt"]
    (tmp_path / "cat" / "labels.txt").unlink()
    (tmp_path / "cat" / "x.png").unlink()
    refused(tmp_path, "is an empty folder: it should hold images")


def test_links_to_images_are_read_and_links_to_folders_are_not(tmp_path: Path) -> None:
    data = tmp_path / "data"
    write(data, "a.png", grey(1))
    write(tmp_path, "elsewhere/x.png", grey(2))
    (data / "b.png").symlink_to(tmp_path / "elsewhere" / "x.png")
    (tmp_path / "link").symlink_to(data)
    assert ImageFolder(tmp_path / "link").read()[:, 0, 0].tolist() == [1, 2]
    for name, target in (("loop", data), ("nowhere.png", tmp_path / "no.png")):
        (data / name).symlink_to(target)
        refused(data, f"but has {name} ")
        found = ImageFolder(data, SKIP)
        assert found.read()[:, 0, 0].tolist() == [1, 2]
        assert list(found.skipped) == [name]
        (data / name).unlink()


def animation(path: Path) -> None:
    grey(0).save(path, save_all=True, append_images=[grey(1)])


def truncated(path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (2, 3), dtype=np.uint8)
    Image.fromarray(noise).save(path)
    path.write_bytes(path.read_bytes()[:45])  # the header is whole


BAD: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "text": ("01.txt", lambda p: p.write_text("x"), "should hold images only"),
    "no image": ("01.png", lambda p: p.write_text("x"), "01.png is no whole image: "),
    "empty": ("01.png", lambda p: p.write_bytes(b""), "01.png is no whole image: "),
    "truncated": ("01.png", truncated, "01.png is no whole image: "),
    "transparent": ("01.png", Image.new("RGBA", (3, 2)).save, "01.png has transparency"),
    "CMYK": ("01.tif", Image.new("CMYK", (3, 2)).save, "01.tif has pixels of mode CMYK"),
    "size": ("01.png", grey(0, (2, 3)).save, "01.png is 3 × 2 grey, not 2 × 3 grey"),
    "colour": ("01.png", Image.new("RGB", (3, 2)).save, "01.png is 2 × 3 RGB, not 2 × 3 grey"),
    "depth": ("01.png", Image.new("I;16", (3, 2)).save, "01.png is 2 × 3 16-bit grey, not"),
    "animation": ("01.tif", animation, "01.tif holds several images"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Good images in several folders, each of another value."""
    for name in GOOD:
        write(tmp_path, name, grey(int(name[-6:-4])))
    return tmp_path


@pytest.mark.parametrize("place", ["", "dog/", "0/"], ids=["within", "below", "first"])
@pytest.mark.parametrize("case", BAD, ids=list(BAD))
def test_one_bad_file_is_skipped_on_request(folder: Path, case: str, place: str) -> None:
    name, make, reason = BAD[case]
    (folder / place).mkdir(exist_ok=True)
    make(folder / place / name)
    refused(folder, "(fit, score and evaluate leave such files out with --skip-bad)")
    for rules in (SKIP, LIKE_A_MODEL):
        data = open_source(folder, images=rules)
        assert isinstance(data, ImageFolder)
        assert data.event_shape == (2, 3)
        assert data.rows is None
        for _ in range(2):  # the second time, it is known
            assert data.read()[:, 0, 0].tolist() == [0, 3, 5, 7, 9]
            assert list(data.names()) == GOOD
            assert list(data.skipped) == [place + name]
        (said,) = data.skipped.values()
        assert said.startswith(str(folder))
        assert reason in said
        assert "\n" not in said
        assert "--" not in said  # nothing is left to do


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_names_go_with_the_chunks(folder: Path, size: int) -> None:
    for k in (1, 2, 4, 8):
        truncated(folder / f"{k:02}.png")
    (folder / "dog" / "06.png").write_text("x")
    data = ImageFolder(folder, SKIP)
    names = data.names()
    found: list[tuple[str, int]] = []
    for chunk in data.chunks(size):
        found += zip(islice(names, len(chunk)), chunk[:, 0, 0].tolist(), strict=True)
    assert found == list(zip(GOOD, [0, 3, 5, 7, 9], strict=True))
    assert next(names, None) is None
    assert sorted(data.skipped) == ["01.png", "02.png", "04.png", "08.png", "dog/06.png"]


def test_without_a_model_images_are_to_be_like_most(tmp_path: Path) -> None:
    for k, side in enumerate([2, 2, 5, 3, 3, 3]):
        write(tmp_path, f"{k}.png", grey(k, (side, side)))
    data = ImageFolder(tmp_path, SKIP)
    assert data.event_shape == (3, 3)
    np.testing.assert_array_equal(some_rows(data, 10, seed=0)[:, 0, 0], [3, 4, 5])
    assert list(data.skipped) == ["0.png", "1.png", "2.png"]
    wanted = FolderRules(skip_bad=True, wanted=ImageForm((2, 2), GREY))
    assert ImageFolder(tmp_path, wanted).read()[:, 0, 0].tolist() == [0, 1]


def test_where_fewer_than_half_are_alike_none_is_odd(tmp_path: Path) -> None:
    for k, side in enumerate([2, 5, 3, 3, 4]):
        write(tmp_path, f"{k}.png", grey(k, (side, side)))
    (tmp_path / "5.png").write_text("x")
    message = "mixes images: of 5 that can be read, 2 are 3 × 3 grey, and no other form has more"
    refused(tmp_path, f"{message}; make them alike, or fit with --resize", images=SKIP)
    like = FolderRules(skip_bad=True, wanted=ImageForm((4, 4), GREY))
    assert ImageFolder(tmp_path, like).read()[:, 0, 0].tolist() == [4]


def test_with_resizing_no_size_is_odd(tmp_path: Path) -> None:
    for k, side in enumerate([2, 5, 3]):
        write(tmp_path, f"{k}.png", grey(k, (side, 4)))
    write(tmp_path, "3.png", Image.new("RGB", (4, 4)))
    data = ImageFolder(tmp_path, FolderRules(resize=(4, 4), skip_bad=True))
    assert data.read()[:, 0, 0].tolist() == [0, 1, 2]
    assert list(data.skipped) == ["3.png"]


def test_nothing_left_is_an_error(folder: Path) -> None:
    message = f"has no image to go by; 5 skipped, the first: {folder / GOOD[0]} is "
    deep = FolderRules(skip_bad=True, wanted=ImageForm((2, 3), DEEP))
    refused(folder, f"{message}2 × 3 grey, not 2 × 3 16-bit grey", images=deep)
    for name in GOOD:
        (folder / name).write_text("x")
    refused(folder, f"{message}no whole image", images=SKIP)


def test_a_file_that_may_not_be_read_is_one_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    number, opened = errno.EACCES, Image.open

    def guarded(file: Path, **settings: object) -> object:
        if file.name == "03.png":
            raise OSError(number, "it is locked", str(file))
        return opened(file, **settings)  # type: ignore[arg-type]

    monkeypatch.setattr(Image, "open", guarded)
    refused(folder, "03.png may not be read: it is locked (fit, score")
    for rules in (SKIP, LIKE_A_MODEL):
        number = errno.EACCES
        assert len(ImageFolder(folder, rules).read()) == 4
        number = errno.EIO  # a disk that fails would skip all that is left
        with pytest.raises(OSError, match="it is locked"):
            ImageFolder(folder, rules).read()


def test_a_missing_package_is_no_bad_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    for rules in (SKIP, LIKE_A_MODEL):
        with pytest.raises(MissingExtraError):
            ImageFolder(folder, rules).read()


@pytest.mark.skipif(sys.platform != "linux", reason="names are bytes on Linux")
def test_names_that_are_not_utf_8_can_be_written(tmp_path: Path) -> None:
    write(tmp_path, "ü\udcff.png", grey(1))
    assert list(ImageFolder(tmp_path).names()) == ["ü\\udcff.png"]
