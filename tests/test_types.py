"""The type checker, as one of the tests: so the other core has work meanwhile."""

import subprocess
import sys

from .pages import ROOT


def test_types_hold() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "mypy"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
