"""What the README shows runs, and says what it claims."""

import re
from pathlib import Path

import pytest
import torch

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_the_fifteen_lines_run_and_tell_a_mode_from_nowhere(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, _ = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len([line for line in code.splitlines() if line.strip()]) <= 15
    torch.manual_seed(0)
    names: dict[str, object] = {}
    exec(code, names)
    at_mode, nowhere = names["state"].average.module(names["x"]).neg().tolist()  # type: ignore[attr-defined]
    assert at_mode > nowhere + 3
    assert "violating" in capsys.readouterr().out


def test_the_detector_s_lines_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, code = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(code.replace("random_state=0)", "random_state=0, max_updates=50)", 1), {})
    assert (tmp_path / "model" / "README.md").exists()


def test_every_piece_it_names_exists() -> None:
    import uspebm

    table = README.split("## Which piece")[1].split("## Results")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    names = [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]
    assert len(names) > 10
    assert all(hasattr(uspebm, name) for name in names)
