"""Image sets that need no files, and figures that are soon drawn."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from uspebm.data import image_sets
from uspebm.evaluation.uniform_bound import least_bits_per_dimension
from uspebm.experiments import table1
from uspebm.support import plots
from uspebm.support.randomness import generator


@pytest.fixture
def quick_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """As PNG alone. To write SVG takes as long, and test_experiments.py looks at both."""
    write = plots._write

    def once(figure: Any, path: Path) -> None:
        if path.suffix != ".svg":
            write(figure, path)

    monkeypatch.setattr(plots, "_write", once)


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every set is noise of its own, a fiftieth as large as the real one, and so are bounds."""

    def image_set(key: str) -> Tensor:
        draws = generator(0, key)
        size = 1_200 if "/train" in key else 200
        if key.endswith("labels"):
            return torch.randint(10, (size,), generator=draws)
        return torch.randint(256, (size, 28, 28), dtype=torch.uint8, generator=draws)

    monkeypatch.setattr(image_sets, "image_set", image_set)
    monkeypatch.setattr(image_sets, "TEST_SIZE", 200)
    few = partial(least_bits_per_dimension, draws=100)
    monkeypatch.setattr(table1, "least_bits_per_dimension", few)
