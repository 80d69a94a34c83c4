"""Images: which pixels are read, how they are resized, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from uspebm.data.readers import FolderRules, open_source
from uspebm.data.readers.images import read_image

from .common import NUMBERS, refused

MODES: dict[str, tuple[Image.Image, str, list[Any]]] = {
    "1 bit": (Image.new("1", (2, 1), 1), "uint8", [[255, 255]]),
    "palette": (Image.new("RGB", (1, 1), (9, 8, 7)).convert("P"), "uint8", []),
    "16 bits": (Image.fromarray(np.array([[0, 65535]], np.uint16)), "float32", [[0, 65535]]),
}


@pytest.mark.parametrize("mode", MODES, ids=list(MODES))
def test_modes_of_images(tmp_path: Path, mode: str) -> None:
    image, dtype, values = MODES[mode]
    image.save(tmp_path / "x.png")
    expected = values or np.array(image.convert("RGB")).tolist()
    data = open_source(tmp_path).read()
    assert data.dtype == dtype
    assert data.tolist() == [expected]


def test_16_bit_pgm(tmp_path: Path) -> None:
    (tmp_path / "x.pgm").write_bytes(b"P5 2 1 65535\n" + bytes([1, 0, 255, 255]))
    assert open_source(tmp_path).read().tolist() == [[[256, 65535]]]


BAD_IMAGES: dict[str, tuple[Image.Image, str]] = {
    "rgba": (Image.new("RGBA", (5, 4)), "2.tif has transparency: save it without"),
    "grey with alpha": (Image.new("LA", (5, 4)), "2.tif has transparency"),
    "cmyk": (Image.new("CMYK", (5, 4)), "2.tif has pixels of mode CMYK: save it as 8-bit"),
    "size": (
        Image.new("L", (3, 2)),
        "mixes images: 1.png is 4 × 5 grey, 2.tif is 2 × 3 grey; make them of one size, or fit "
        "with --resize, which does",
    ),
    "colour": (
        Image.new("RGB", (5, 4)),
        "1.png is 4 × 5 grey, 2.tif is 4 × 5 RGB; save all of them as grey, or all as RGB",
    ),
    "depth": (Image.new("I;16", (5, 4)), "2.tif is 4 × 5 16-bit grey; save all of them as grey"),
}


@pytest.mark.parametrize("case", BAD_IMAGES, ids=list(BAD_IMAGES))
def test_images_that_are_refused(tmp_path: Path, case: str) -> None:
    image, message = BAD_IMAGES[case]
    Image.new("L", (5, 4)).save(tmp_path / "1.png")
    image.save(tmp_path / "2.tif")
    refused(tmp_path, message)
    refused(tmp_path, "leave such files out with --skip-bad)")


def weights(old: int, new: int) -> NDArray[np.float64]:
    """``(new, old)``: hats as wide as two new pixels, or two old ones if those are larger."""
    scale = old / new
    centres = (np.arange(new) + 0.5) * scale
    distance = np.abs(np.arange(old) + 0.5 - centres[:, None]) / max(scale, 1)
    hats = np.maximum(0, 1 - distance)
    return np.asarray(hats / hats.sum(1, keepdims=True))


@pytest.mark.parametrize("size", [(4, 9), (10, 6), (30, 50), (1, 1)], ids=str)
@pytest.mark.parametrize("kind", ["grey", "colour", "16 bits"])
def test_a_new_pixel_is_a_mean_of_all_around_it(
    tmp_path: Path, kind: str, size: tuple[int, int]
) -> None:
    """Against the formula. Bytes are rounded twice, after either direction."""
    values: NDArray[Any] = NUMBERS.integers(0, 256, (20, 31, 3), dtype=np.uint8)
    if kind != "colour":
        values = values[:, :, 0]
    if kind == "16 bits":
        values = values.astype(np.uint16) * 257
    Image.fromarray(values).save(tmp_path / "x.png")
    down, across = weights(20, size[0]), weights(31, size[1])
    expected = np.einsum("ih,hw...,jw->ij...", down, values.astype(np.float64), across)
    image, form = read_image(tmp_path / "x.png", size)
    assert form.size == (20, 31)
    assert image.dtype == (np.float32 if kind == "16 bits" else np.uint8)
    assert image.shape == expected.shape
    # Pillow rounds weights for bytes to 22 bits, and floats to 24.
    error = 65535 * 2**-20 if kind == "16 bits" else 1 + 255 * 2**-15
    assert np.abs(image - expected).max() <= error
    if size == (4, 9):  # what taking a few pixels would be off by
        few = values[2::5, 1::3][:4, :9].astype(np.float64)
        assert np.abs(few - expected).max() > 20 * error


def test_the_same_size_is_no_change(tmp_path: Path) -> None:
    for k, values in enumerate((NUMBERS.integers(0, 256, (5, 4, 3)), [[0, 65535], [77, 1]])):
        dtype = np.uint16 if k else np.uint8
        Image.fromarray(np.array(values, dtype)).save(tmp_path / f"{k}.png")
        plain, form = read_image(tmp_path / f"{k}.png")
        resized, _ = read_image(tmp_path / f"{k}.png", form.size)
        assert resized.dtype == plain.dtype
        np.testing.assert_array_equal(resized, plain)


def test_palettes_and_bits_are_resized_as_what_they_show(tmp_path: Path) -> None:
    bits = Image.new("1", (2, 2), 1)
    bits.putpixel((0, 0), 0)
    bits.save(tmp_path / "bits.png")
    # 127.5 is rounded up, and so is 191.5.
    assert read_image(tmp_path / "bits.png", (1, 1))[0].tolist() == [[192]]
    palette = Image.new("P", (2, 1))
    palette.putpalette([200, 0, 0, 0, 100, 50])
    palette.putpixel((1, 0), 1)
    palette.save(tmp_path / "palette.png")
    assert read_image(tmp_path / "palette.png", (1, 1))[0].tolist() == [[[100, 50, 25]]]


def test_images_of_all_sizes_are_brought_to_one(tmp_path: Path) -> None:
    for k, size in enumerate([(3, 9), (7, 7), (20, 2)]):
        Image.new("L", size, 50 * k).save(tmp_path / f"{k}.png")
    data = open_source(tmp_path, images=FolderRules(resize=(4, 5)))
    assert data.event_shape == (4, 5)
    assert data.rows == 3
    expected = np.broadcast_to(np.array([0, 50, 100])[:, None, None], (3, 4, 5))
    np.testing.assert_array_equal(data.read(), expected)
    Image.new("RGB", (4, 5)).save(tmp_path / "3.png")
    message = "0.png is 4 × 5 grey, 3.png is 5 × 4 RGB; save all of them as grey, or all as RGB"
    refused(tmp_path, message, images=FolderRules(resize=(4, 5)))


def test_animations_are_refused(tmp_path: Path) -> None:
    frame = Image.new("L", (2, 2))
    frame.save(tmp_path / "x.tif", save_all=True, append_images=[frame])
    refused(tmp_path, "x.tif holds several images: save each in a file of its own")


def test_other_things_in_a_folder_of_images(tmp_path: Path) -> None:
    Image.new("L", (2, 2)).save(tmp_path / "x.png")
    (tmp_path / "labels.txt").write_text("0\n")
    refused(tmp_path, "should hold images only (.png, .jpg, ")
    refused(tmp_path, "but has labels.txt")


@pytest.mark.filterwarnings("ignore:.*:UserWarning:PIL")
@pytest.mark.parametrize("ending", ["png", "jpg", "bmp", "tif", "webp", "ppm"])
def test_damaged_images_are_one_line(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"x.{ending}"
    Image.fromarray(NUMBERS.integers(0, 256, (40, 30, 3), dtype=np.uint8)).save(path)
    content = path.read_bytes()
    for length in [*range(100), *range(100, len(content) - 20, 97)]:
        path.write_bytes(content[:length])
        refused(tmp_path, f"x.{ending} is no whole image: ")
