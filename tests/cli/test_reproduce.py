"""What ``reproduce`` passes on to an experiment."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from .common import run


@dataclass(frozen=True)
class Settings:
    """As an experiment on images has them."""

    name: str = "fashion-mnist"
    methods: tuple[str, ...] = ("all",)

    def inside(self, name: str) -> "Settings":
        return replace(self, name=name)

    def only(self, names: Sequence[str]) -> "Settings":
        return replace(self, methods=tuple(names))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the experiment was asked for."""
    calls: list[Any] = []

    def note(out: Path, config: Settings, seeds: int) -> list[Any]:
        calls.append((out, config, seeds))
        return []

    experiment: Any = ModuleType("table1")
    experiment.SMOKE, experiment.run = Settings(), note
    monkeypatch.setitem(sys.modules, "uspebm.experiments.table1", experiment)
    return calls


def test_the_inside_and_the_methods_are_passed_on(
    tmp_path: Path, asked: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    images = tmp_path / "photos"
    command = ("reproduce", "table1", "--preset", "smoke", "--out", tmp_path)
    assert run(*command, "--seeds", "2") == 0
    assert run(*command, "--inside", "mnist", "--only", "SRLMC", "--only", "PS-USP") == 0
    assert run(*command, "--inside", f"{images}/") == 0
    folder = tmp_path / "smoke"
    assert asked == [
        (folder / "table1", Settings(), 2),
        (folder / "table1-mnist", Settings("mnist", ("SRLMC", "PS-USP")), 1),
        (folder / "table1-photos", Settings(f"{images}/"), 1),
    ]
    assert f"Figure and claims: {folder / 'table1-mnist'}/" in capsys.readouterr().out


@pytest.mark.parametrize("figure", ["fig4", "all"])
def test_what_is_for_images_is_refused_elsewhere(
    tmp_path: Path, refused: Callable[..., None], figure: str
) -> None:
    command = ("reproduce", figure, "--out", tmp_path / "new")
    refused("--inside mnist is for table1 and fig5", *command, "--inside", "mnist")
    refused("--only SRLMC is for table1 and fig5", *command, "--only", "SRLMC")
    refused("--seeds 0 must be at least 1", *command, "--seeds", "0")
