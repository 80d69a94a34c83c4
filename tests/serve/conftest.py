"""Models, fitted once."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from .common import serving, write_models


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of models."""
    folder = tmp_path_factory.mktemp("served")
    write_models(folder)
    return folder


@pytest.fixture
def table(served: Path) -> Iterator[TestClient]:
    with serving(served / "named") as client:
        yield client


@pytest.fixture
def images(served: Path) -> Iterator[TestClient]:
    with serving(served / "pixels") as client:
        yield client
