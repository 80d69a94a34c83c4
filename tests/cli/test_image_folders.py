"""Folders of images of one's own: folders in them, sizes, bad files, and names in the scores."""

import csv
import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from PIL import Image

from uspebm import load
from uspebm.cli import user_data
from uspebm.data.readers import FolderRules, open_source
from uspebm.evaluation import metrics

from .common import IMAGES, QUICK, ROWS, model_content, run, write_images

SIZES = [(4, 5), (8, 10), (3, 3), (9, 4)]


@pytest.fixture(autouse=True)
def _quick_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "intervals", partial(metrics.intervals, resamples=5))


@pytest.fixture
def answer(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """What a command says in JSON, and the lines on stderr that are its own."""

    def ask(*arguments: object) -> Any:
        capsys.readouterr()
        assert run(*arguments, "--json") == 0
        out, err = capsys.readouterr()
        return json.loads(out), [k for k in err.splitlines() if k.startswith("uspebm: ")]

    return ask


def of_sizes(folder: Path, seed: int = 0) -> Path:
    """Grey images of four sizes, each in a folder of its own."""
    draws = np.random.default_rng(seed)
    for k in range(ROWS):
        size = SIZES[k % 4]
        file = folder / f"{size[0]} by {size[1]}" / f"{k:03}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(draws.integers(0, 256, size, dtype=np.uint8)).save(file)
    return folder


def spoil(folder: Path, count: int) -> list[str]:
    """The names of so many images that are not whole any more."""
    spoilt = sorted(folder.rglob("*.png"))[7:][:count]
    for file in spoilt:
        file.write_bytes(file.read_bytes()[:-30])  # into its pixels
    return [file.relative_to(folder).as_posix() for file in spoilt]


def resized(folder: Path, size: tuple[int, int]) -> NDArray[Any]:
    return open_source(folder, images=FolderRules(resize=size)).read()


def test_a_model_of_resized_images_resizes_what_it_scores(
    tmp_path: Path, answer: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    data, other = of_sizes(tmp_path / "data"), of_sizes(tmp_path / "other", seed=1)
    model, out = tmp_path / "model", tmp_path / "s.parquet"
    fitted, _ = answer("fit", data, "--out", model, "--resize", "6x7", *QUICK)
    assert fitted["rows"] == ROWS
    assert fitted["skipped"] == 0
    detector = load(model)
    assert detector.resized_
    assert detector.event_shape_ == (1, 6, 7)
    assert answer("info", model)[0]["resized"] is True
    assert "6 × 7 pixels; images of other sizes were resized" in (model / "README.md").read_text()
    again = load(model).fit(resized(data, (6, 7)))
    np.testing.assert_array_equal(again.calibration_scores_, detector.calibration_scores_)
    assert not again.resized_  # nothing is known of arrays

    assert answer("score", model, other, "--out", out)[0]["rows"] == ROWS
    found = pq.read_table(out).to_pydict()
    assert found["file"] == sorted(p.relative_to(other).as_posix() for p in other.rglob("*.png"))
    assert found["score"] == detector.score_samples(resized(other, (6, 7))).tolist()
    figures, _ = answer("evaluate", model, "--id", data, "--ood", f"other={other}")
    assert figures["against"]["other"]["rows"] == ROWS
    np.save(tmp_path / "x.npy", IMAGES)
    capsys.readouterr()
    assert run("score", model, tmp_path / "x.npy", "--out", out) == 2  # only folders are resized
    assert "4 × 5 pixels, but the model is of points of 6 × 7 pixels\n" in capsys.readouterr().err


def test_one_number_is_a_square(tmp_path: Path, answer: Callable[..., Any]) -> None:
    data = write_images(tmp_path / "data")
    answer("fit", data, "--out", tmp_path / "m", "--resize", "6", *QUICK)
    assert load(tmp_path / "m").event_shape_ == (1, 6, 6)
    answer("fit", data, "--out", tmp_path / "n", *QUICK)
    assert not load(tmp_path / "n").resized_
    assert not load("fashion-mnist").resized_  # of which its folder says nothing
    assert "resized" not in (tmp_path / "n" / "README.md").read_text()


def test_a_file_of_settings_may_resize_and_skip(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], refused: Callable[..., None]
) -> None:
    data, config = of_sizes(tmp_path / "data"), tmp_path / "fit.toml"
    spoil(data, 2)
    command = ("fit", data, *QUICK, "--out")
    assert run(*command, tmp_path / "one", "--resize", "6", "--skip-bad") == 0
    for k, size in enumerate(("6", "'6'", "'6x6'", "'6×6'")):
        config.write_text(f"resize = {size}\nskip-bad = true\n")
        assert run(*command, tmp_path / f"{k}", "--config", config) == 0
        assert model_content(tmp_path / f"{k}") == model_content(tmp_path / "one")
    config.write_text("resize = 0.5\n")
    refused("resize = 0.5 should be ", *command, tmp_path / "new", "--config", config)


SIZE_MISTAKES = {
    "zero": ("0", "--resize: 0 must have sides between 1 and 4096"),
    "one side": ("0x28", "0x28 must have sides between 1 and 4096"),
    "huge": ("28x4097", "28x4097 must have sides between 1 and 4096"),
    "three": ("28x28x3", "28x28x3 must be a height and a width, such as 32x48, or one number"),
    "half": ("28x", "28x must be a height"),
    "fraction": ("2.5", "2.5 must be a height"),
    "negative": ("-3x4", "-3x4 must be a height"),
    "words": ("small", "small must be a height"),
    "other digits": ("²8", "²8 must be a height"),
}


@pytest.mark.parametrize("case", SIZE_MISTAKES, ids=list(SIZE_MISTAKES))
def test_sizes_that_are_refused(
    tmp_path: Path, models: Path, refused: Callable[..., None], case: str
) -> None:
    text, message = SIZE_MISTAKES[case]
    refused(message, "fit", models / "x.csv", "--out", tmp_path / "m", f"--resize={text}")


def test_flags_for_folders_are_refused_for_files(
    tmp_path: Path, models: Path, refused: Callable[..., None], answer: Callable[..., Any]
) -> None:
    file, out = models / "x-idx3-ubyte", tmp_path / "m"
    message = f"is for folders of images, and {file} is a file"
    refused(f"--resize {message}", "fit", file, "--out", out, "--resize", "28")
    refused(f"--skip-bad {message}", "fit", file, "--out", out, "--skip-bad")
    refused(
        f"--skip-bad {message}",
        *("score", models / "pixels", file, "--out", tmp_path / "s.csv", "--skip-bad"),
    )
    both = ("evaluate", models / "pixels", "--id", file, "--ood", f"far={file}", "--skip-bad")
    refused(f"--skip-bad {message}", *both)
    refused("nowhere does not exist", "fit", tmp_path / "nowhere", "--out", out, "--skip-bad")
    folder = write_images(tmp_path / "images")
    figures, _ = answer(*both, "--ood", f"near={folder}")
    assert figures["against"]["near"]["rows"] == ROWS


def test_other_sizes_are_refused_with_what_to_do(
    tmp_path: Path, models: Path, refused: Callable[..., None]
) -> None:
    data = of_sizes(tmp_path / "data")
    flags = ["3 by 3/002.png is 3 × 3 grey, 4 by 5/000.png is 4 × 5 grey", "--resize", "--skip-bad"]
    refused(flags, "fit", data, "--out", tmp_path / "m", *QUICK)
    larger = write_images(tmp_path / "larger", np.zeros((3, 8, 9), np.uint8))
    hint = "; resize them, or fit the model with --resize, and they will be"
    command = ("score", models / "pixels", larger, "--out", tmp_path / "s.csv")
    refused(f"the model is of points of 4 × 5 pixels{hint}\n", *command)
    refused("8 × 9 grey, not 4 × 5 grey", *command, "--skip-bad")
    shutil.rmtree(larger)
    write_images(larger, np.zeros((3, 4, 5, 3), np.uint8))
    refused("the model is of points of 4 × 5 pixels\n", *command)
    refused("4 × 5 RGB, not 4 × 5 grey", *command, "--skip-bad")


def read_scores(path: Path) -> dict[str, list[Any]]:
    if path.suffix == ".parquet":
        return dict(pq.read_table(path).to_pydict())
    if path.suffix == ".npz":
        with np.load(path) as archive:
            return {name: archive[name].tolist() for name in archive.files}
    with path.open(newline="", encoding="utf-8") as file:
        records: list[Any] = (
            list(csv.DictReader(file)) if path.suffix == ".csv" else list(map(json.loads, file))
        )
    return {name: [record[name] for record in records] for name in records[0]}


@pytest.mark.parametrize("ending", ["csv", "jsonl", "npz", "parquet"])
def test_scores_name_the_files(
    tmp_path: Path, models: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    monkeypatch.setattr(user_data, "ROWS_AT_A_TIME", 50)  # names of other lengths in each chunk
    data = write_images(tmp_path / "data")
    (data / "größer, und").mkdir()
    for k in range(80, ROWS):
        (data / f"{k:03}.png").rename(data / "größer, und" / f"a {k}.png")
    out = tmp_path / f"s.{ending}"
    assert run("score", models / "pixels", data, "--out", out) == 0
    found = read_scores(out)
    assert list(found) == ["file", "score", "p_value", "outlier"]
    later = sorted(f"größer, und/a {k}.png" for k in range(80, ROWS))
    assert found["file"] == [*(f"{k:03}.png" for k in range(80)), *later]
    order = [*range(80), *(int(name[-7:-4].strip(" a")) for name in later)]
    expected = load(models / "pixels").score_samples(IMAGES[order])
    np.testing.assert_allclose(np.array(found["score"], np.float64), expected, rtol=1e-5)
    assert run("score", models / "pixels", models / "x-idx3-ubyte", "--out", out) == 0
    assert list(read_scores(out)) == ["score", "p_value", "outlier"]


def test_bad_images_are_skipped_and_named(
    tmp_path: Path, models: Path, answer: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    data, out, model = write_images(tmp_path / "data"), tmp_path / "s.npz", tmp_path / "model"
    bad = spoil(data, 12)
    (data / "00.png").write_text("the first of all")
    lost = ["00.png", *bad]
    kept = [k for k in range(ROWS) if f"{k:03}.png" not in lost]

    def check_named(lines: list[str]) -> None:
        assert len(lines) == 11
        assert sorted(line.split(" is no whole image: ")[0] for line in lines[:10]) == [
            f"uspebm: skipped: {data / name}" for name in lost[:10]
        ]
        assert lines[10] == f"uspebm: skipped: 3 more files of {data}"

    fitted, lines = answer("fit", data, "--out", model, "--skip-bad", *QUICK)
    assert (fitted["rows"], fitted["skipped"]) == (ROWS - 12, 13)
    check_named(lines)
    same = load(model).fit(IMAGES[kept])
    np.testing.assert_array_equal(same.calibration_scores_, load(model).calibration_scores_)

    scored, lines = answer("score", models / "pixels", data, "--out", out, "--skip-bad")
    assert (scored["rows"], scored["skipped"]) == (ROWS - 12, 13)
    check_named(lines)
    detector = load(models / "pixels")
    found = read_scores(out)
    assert found["file"] == [f"{k:03}.png" for k in kept]
    assert found["score"] == detector.score_samples(IMAGES[kept]).tolist()

    sets = ("--id", data, "--ood", f"same={data}", "--skip-bad")
    figures, lines = answer("evaluate", models / "pixels", *sets)
    assert (figures["rows"], figures["skipped"]) == (ROWS - 12, 26)
    check_named(lines[:11])
    check_named(lines[11:])

    for command in (
        ("fit", data, "--out", model, *QUICK),
        ("score", models / "pixels", data, "--out", out),
        ("evaluate", models / "pixels", *sets[:-1]),
    ):
        assert run(*command) == 2
        err = capsys.readouterr().err
        assert "leave such files out with --skip-bad" in err
        words = " (26 files skipped)" if command[0] == "evaluate" else " (13 files skipped)"
        assert run(*command, "--skip-bad") == 0
        assert words in " ".join(capsys.readouterr().out.split())


def test_a_model_knows_which_images_are_odd(
    tmp_path: Path, models: Path, answer: Callable[..., Any]
) -> None:
    """Most are of another size, and so is the first."""
    data = write_images(tmp_path / "data", np.zeros((9, 7, 7), np.uint8))
    for k in range(3):
        Image.fromarray(IMAGES[k]).save(data / f"mine {k}.png")
    command = ("score", models / "pixels", data, "--out", tmp_path / "s.csv", "--skip-bad")
    scored, lines = answer(*command)
    assert (scored["rows"], scored["skipped"]) == (3, 9)
    assert all("is 7 × 7 grey, not 4 × 5 grey" in line for line in lines)
    assert read_scores(tmp_path / "s.csv")["file"] == [f"mine {k}.png" for k in range(3)]


def test_too_few_images_that_are_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = write_images(tmp_path / "data")
    spoil(data, 102)
    assert run("fit", data, "--out", tmp_path / "m", "--skip-bad", *QUICK) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 12
    assert lines[10] == f"uspebm: skipped: 92 more files of {data}"
    assert lines[11].startswith(f"uspebm: {data}: 18 images, but a false-alarm rate of 0.05 needs")
    assert not (tmp_path / "m").exists()


def test_results_do_not_go_among_the_images(
    tmp_path: Path, models: Path, refused: Callable[..., None]
) -> None:
    data = write_images(tmp_path / "data")
    (tmp_path / "link").symlink_to(data)
    for place in (data / "new", data / "a" / "b", tmp_path / "link" / "new"):
        message = f"--out {place} lies in the folder of images {data}: choose a place outside"
        refused(message, "fit", data, "--out", place, *QUICK)
    out = data / "s.csv"
    message = f"--out {out} lies in the folder of images"
    refused(message, "score", models / "pixels", data, "--out", out)
    assert run("fit", data, "--out", tmp_path / "data of mine", *QUICK) == 0
