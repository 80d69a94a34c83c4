"""Saving that does not come to its end leaves the model that was there."""

import signal
import sys
from pathlib import Path

import pytest

from tests.detector.models import made
from tests.detector.test_folder import content
from tests.fresh import fresh
from uspebm import save_model


def test_an_error_while_saving_leaves_the_former_model(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = content(folder.parent)

    def broken(*_: object) -> str:
        raise RuntimeError("no card")

    monkeypatch.setattr("uspebm.detector.folder.card", broken)
    with pytest.raises(RuntimeError, match="no card"):
        save_model(made("reference alone"), folder)
    assert content(folder.parent) == before


KILLED = """
import os, signal, sys
from uspebm.detector import folder

detector = folder.load(sys.argv[1])
detector.offset_ = 0.0
def killed(*_): os.kill(os.getpid(), signal.SIGKILL)
folder.card = killed
folder.save_model(detector, sys.argv[1])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no such signal")
def test_being_killed_while_saving_leaves_the_former_model(folder: Path) -> None:
    before = content(folder)
    assert fresh(KILLED, folder).returncode == -signal.SIGKILL
    assert content(folder) == before
    assert len(list(folder.parent.iterdir())) == 2  # what was unfinished ...
    save_model(made("table"), folder)
    assert list(folder.parent.iterdir()) == [folder]  # ... is cleared away by the next
