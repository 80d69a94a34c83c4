"""A package that only some work needs is asked for when the work is, in one line."""

import sys
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from pathlib import Path

import pytest

from .common import FILES, QUICK, run

EXTRAS = ("pyarrow", "PIL", "matplotlib", "onnx", "onnxscript", "pyod", "pandas")
MISSING = {
    "x.csv": ("pyarrow", "needs pyarrow, which is not installed: pip install 'uspebm[tables]'"),
    "x.parquet": ("pyarrow", "pip install 'uspebm[tables]'"),
    "images": ("PIL", "needs pillow, which is not installed: pip install 'uspebm[images]'"),
}


class Absent(MetaPathFinder):
    """Finds that packages are not installed."""

    def __init__(self, *packages: str) -> None:
        self.packages = packages

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname in self.packages:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


def take_away(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    """As if they were not installed, what was imported of them before included."""
    for name in [name for name in sys.modules if name.partition(".")[0] in packages]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Absent(*packages), *sys.meta_path])


@pytest.mark.parametrize("name", MISSING, ids=list(MISSING))
def test_what_reading_needs_is_named(
    models: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    refused: Callable[..., None],
    name: str,
) -> None:
    package, message = MISSING[name]
    FILES[name](tmp_path / name)
    take_away(monkeypatch, package)
    refused(message, "fit", tmp_path / name, "--out", tmp_path / "new", *QUICK)
    model = models / ("pixels" if name == "images" else "named")
    refused(message, "score", model, tmp_path / name, "--out", tmp_path / "s.npz")


def test_what_writing_needs_is_named_before_any_work(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: Callable[..., None]
) -> None:
    take_away(monkeypatch, "pyarrow")
    command = ("score", tmp_path / "no model", models / "x.npy", "--out", tmp_path / "s.parquet")
    refused("pip install 'uspebm[tables]'", *command)


def test_arrays_need_neither_tables_nor_images_nor_plots(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_away(monkeypatch, *EXTRAS)
    settings = ("--max-updates", "50")  # so that there would be a curve to draw
    assert run("fit", models / "x.npy", "--out", tmp_path / "m", *settings) == 0
    assert run("score", tmp_path / "m", models / "x.npy", "--out", tmp_path / "s.csv") == 0
    assert run("info", tmp_path / "m") == 0
