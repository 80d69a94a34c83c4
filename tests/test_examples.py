"""The programs in examples/ run, are short, and do what they say."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .pages import ROOT

FOLDER = ROOT / "examples"
LONGEST = 60
"""Lines."""


def program(name: str) -> Callable[..., Any]:
    """Its ``main``."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Callable[..., Any] = module.main
    return found


def test_there_are_five_and_they_are_short() -> None:
    lengths = {file.stem: len(file.read_text().splitlines()) for file in FOLDER.glob("*.py")}
    assert len(lengths) == 5
    assert {name: n for name, n in lengths.items() if n > LONGEST} == {}


@pytest.mark.parametrize("name", ["density_from_one_mode", "new_phase"])
def test_a_density_is_learned(name: str) -> None:
    """Ten updates are not enough: it is the training that does it."""
    learned, hardly = program(name)(), program(name)(updates=10)
    assert learned < 0.1 < hardly


def test_squares_are_found_among_discs(tmp_path: Path) -> None:
    assert program("own_images")(tmp_path, updates=20) > 0.7
    assert (tmp_path / "model" / "README.md").exists()


def test_a_table_is_scored_with_reasons_and_has_a_report(tmp_path: Path) -> None:
    rows = program("table_with_report")(tmp_path)
    named = [value for row in rows for key, value in row.items() if key.startswith("why")]
    assert any("power" in str(value) for value in named)
    assert "power" in (tmp_path / "model" / "report.html").read_text()


def test_a_resumed_training_is_exported(tmp_path: Path) -> None:
    scores = program("resume_and_export")(tmp_path, updates=60)
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(tmp_path / "model.onnx")
    points = np.array([[0.6, 0.0], [0.0, 1.9]], np.float32)
    kind = np.float32 if "float" in session.get_inputs()[0].type else np.float64
    (exported, *_) = session.run(None, {session.get_inputs()[0].name: points.astype(kind)})
    np.testing.assert_allclose(exported, scores, rtol=1e-4)
    assert scores[0] > scores[1]
