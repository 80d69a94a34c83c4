"""Models to work with, and how a refusal looks."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from .common import FILES, QUICK, content, run


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of a table with names, one without, one of bytes."""
    folder = tmp_path_factory.mktemp("models")
    for name, file in (("named", "x.csv"), ("nameless", "x.npy"), ("pixels", "x-idx3-ubyte")):
        FILES[file](folder / file)
        assert run("fit", folder / file, "--out", folder / name, *QUICK) == 0
    return folder


@pytest.fixture(autouse=True)
def elsewhere(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders of results that are not named lie where the command was given."""
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))


@pytest.fixture
def model(models: Path, tmp_path: Path) -> Path:
    """A copy of a model, to be changed."""
    return Path(shutil.copytree(models / "named", tmp_path / "model"))


@pytest.fixture
def refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., None]:
    """Whether a command ends with one line that has the messages, and changes nothing."""

    def check(messages: str | list[str], *arguments: object) -> None:
        before = content(tmp_path)
        capsys.readouterr()
        assert run(*arguments) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("uspebm: "), err
        assert err.count("\n") == 1, err
        for message in [messages] if isinstance(messages, str) else messages:
            assert message in err
        assert content(tmp_path) == before

    return check
