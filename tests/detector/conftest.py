"""A model's folder, for tests to change."""

import shutil
from pathlib import Path

import pytest

from tests.detector.models import made
from uspebm import save_model


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "model"
    save_model(made("table"), folder)
    return folder


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    """A copy of its own for every test."""
    return Path(shutil.copytree(saved, tmp_path / "model"))
