"""Images in other scales than the model's are scored as the library does, and doubts are told."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from uspebm import load
from uspebm.cli import user_data

from .common import IMAGES, run

SCALED: dict[str, NDArray[Any]] = {
    "bytes": IMAGES,
    "floats in [-1, 1]": IMAGES / 127.5 - 1,
    "with a channel": (IMAGES / 127.5 - 1).astype(np.float32)[:, None],
}


@pytest.mark.parametrize("case", SCALED, ids=list(SCALED))
def test_scores_do_not_depend_on_the_scale(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str
) -> None:
    np.save(tmp_path / "x.npy", SCALED[case])
    out = tmp_path / "s.npz"
    assert run("score", models / "pixels", tmp_path / "x.npy", "--out", out) == 0
    assert capsys.readouterr().err == ""
    found = np.load(out)["score"]
    detector = load(models / "pixels")
    np.testing.assert_array_equal(found, detector.score_samples(SCALED[case]))
    np.testing.assert_allclose(found, detector.score_samples(IMAGES), rtol=1e-5)


def test_a_doubtful_scale_is_one_line_however_many_chunks(
    models: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(user_data, "ROWS_AT_A_TIME", 10)
    first, second = tmp_path / "x.npy", tmp_path / "y.npy"
    np.save(first, IMAGES / 255)
    np.save(second, IMAGES[::-1] / 255)
    assert run("score", models / "pixels", first, "--out", tmp_path / "s.csv") == 0
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith(f"uspebm: {first}: the model takes floats scaled to [−1, 1], and X ")
    assert run("evaluate", models / "pixels", "--id", first, "--ood", f"y={second}", "--json") == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["rows"] == len(IMAGES)
    assert [line.split(": ")[1] for line in err.splitlines()] == [str(first), str(second)]


def test_a_late_chunk_in_another_scale_leaves_the_older_scores(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Callable[..., None]
) -> None:
    monkeypatch.setattr(user_data, "ROWS_AT_A_TIME", 10)
    mixed = IMAGES / 127.5 - 1
    mixed[100] = IMAGES[100]
    np.save(tmp_path / "x.npy", mixed)
    (tmp_path / "s.csv").write_text("older scores")
    message = [f"{tmp_path / 'x.npy'}: the model was fitted to bytes, but X has float64 values"]
    refused(message, "score", models / "pixels", tmp_path / "x.npy", "--out", tmp_path / "s.csv")


def test_a_table_without_names_is_scored_without_a_word(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its columns go by their order, which is what was asked for."""
    assert run("score", models / "named", models / "x.npy", "--out", tmp_path / "s.csv") == 0
    assert capsys.readouterr().err == ""
