"""Runs, small and planted, to make pages of."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from uspebm import EnergyDetector, save_model
from uspebm.experiments import fig4
from uspebm.recipes.frames import Frame, write_frame
from uspebm.report.evidence import Evidence, keep_evidence
from uspebm.report.looking import looked_at
from uspebm.training.run_log import write_rows

HOSTILE = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
"""A name that a page must show and not obey."""
Row = dict[str, Any]


def row(step: int, **changes: Any) -> Row:
    """An update of a training that goes well."""
    return {
        "step": step,
        "loss": 0.1,
        "data_term": 1.0,
        "gradient_norm": 1.0 / step,
        "ess": 100.0,
        "nodes": 200,
        "data_energy": 1.0,
        "node_energy": 0.9,
        "seconds": 0.01,
        "engine": "torch",
        "violating": 0.5,
        "nearest": 0.1,
        "spacing": 0.2,
    } | changes


def rows(count: int, fault: Callable[[int], Row] = lambda step: {}) -> list[Row]:
    """A log, with a fault planted in some updates."""
    return [row(step, **fault(step)) for step in range(1, count + 1)]


def write_run(folder: Path, log: list[Row], **about: Any) -> Path:
    """A run's folder, with one frame of the plane."""
    folder.mkdir(parents=True, exist_ok=True)
    recipe = {"name": folder.name, "schedule": {"updates": max(100, len(log))}}
    said = {"recipe": recipe, "seed": 0, "data": "points"} | about
    (folder / "run.json").write_text(json.dumps(said))
    write_rows(folder / "log.jsonl", log)
    x = np.linspace(-2, 2, 20)
    log_q = (-(x[:, None] ** 2) - x[None, :] ** 2).astype(np.float32)
    points = np.array([[0.0, 0.5], [1.0, -1.0]], np.float32)
    box = np.array([[-2.0, -2.0], [2.0, 2.0]])
    for step in (1, 5, 9):
        write_frame(
            Frame(step, points, log_q / np.float32(step), box), folder / "frames" / f"{step:06}.npz"
        )
    return folder


def short_demo(folder: Path) -> Path:
    """The demo with small models; what it leaves is as after the large ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fig4, "DEMO", fig4.SMOKE)
        fig4.demo(folder, updates=6, seed=0)
    keep_evidence(folder, Evidence(("uspebm", "demo"), 1.0))
    return folder


def table_model(folder: Path, column: str = "b") -> Path:
    """A model of a table, and what was looked at when it was fitted."""
    X = np.random.default_rng(0).normal(size=(200, 3))
    X[17] = [9.0, 0.0, 0.0]
    detector = EnergyDetector(random_state=0).fit(X)
    detector.feature_names_in_ = np.array(["a", column, "c"], dtype=object)
    save_model(detector, folder, title=f"Model of {column}", data="200 rows")
    seen = looked_at(detector, X, folder / "none", 0)
    keep_evidence(folder, Evidence(("uspebm", "fit", "x.csv", "--out", "model"), 1.5, seen))
    return folder


def image_model(folder: Path) -> Path:
    """A model of small images, by their pixels."""
    X = np.random.default_rng(0).integers(0, 256, (60, 8, 8), dtype=np.uint8)
    detector = EnergyDetector("pixels", random_state=0).fit(X)
    save_model(detector, folder, title="Model of images", data="60 images")
    seen = looked_at(detector, X, folder / "none", 0)
    keep_evidence(folder, Evidence(("uspebm", "fit", "images"), 2.0, seen))
    return folder
