"""Models of images: found again, with their snapshots, and judged on proxies."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from uspebm.experiments import table1
from uspebm.experiments.image_models import (
    Method,
    against_proxies,
    energy_in,
    energy_scores,
    image_run,
    last_quarter,
)
from uspebm.recipes import snapshots
from uspebm.training import save_snapshot

from .common import brightness, fields, small_problem

IMAGES = fields(60, 0)
RECIPE = table1.SMOKE.methods["crowded-PS-USP"].given(IMAGES)


def test_a_method_gives_what_images_call_for() -> None:
    assert Method(RECIPE).given(IMAGES) is RECIPE
    assert Method(lambda images: RECIPE).given(IMAGES) is RECIPE
    assert list(Method(RECIPE, most_seeds=1).seeds(3)) == [0]
    assert list(Method(RECIPE).seeds(3)) == [0, 1, 2]


def test_the_last_quarters_snapshots_end_with_the_model_itself(tmp_path: Path) -> None:
    run = image_run("m", RECIPE, IMAGES, tmp_path, 0)
    assert run is not None
    assert list(run.snapshots()) == [2, 4, 6, 8]
    energies = last_quarter(run)
    assert len(energies) == 2
    six, eight = (energy_scores(energy, IMAGES) for energy in energies)
    assert torch.equal(eight, energy_scores(run.energy, IMAGES))
    assert not torch.equal(six, eight)
    # The command that judges models finds it by its snapshot, too.
    snapshot = energy_in(str(run.snapshots()[6]), tuple(IMAGES.shape[1:]))
    assert torch.equal(energy_scores(snapshot, IMAGES), six)


def test_a_run_stopped_before_a_snapshot_makes_it_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = image_run("m", RECIPE, IMAGES, tmp_path / "whole", 0)
    assert whole is not None

    def stop(module: nn.Module, path: Path, **about: Any) -> None:
        if path.stem.endswith("6"):
            raise KeyboardInterrupt
        save_snapshot(module, path, **about)

    monkeypatch.setattr(snapshots, "save_snapshot", stop)
    with pytest.raises(KeyboardInterrupt):
        image_run("m", RECIPE, IMAGES, tmp_path / "stopped", 0)
    monkeypatch.undo()
    stopped = image_run("m", RECIPE, IMAGES, tmp_path / "stopped", 0)
    assert stopped is not None
    assert list(stopped.snapshots()) == [2, 4, 6, 8]
    for update, path in whole.snapshots().items():
        a, b = load_file(path), load_file(stopped.snapshots()[update])
        assert all(torch.equal(a[name], b[name]) for name in a)


def test_proxies_are_judged_against_what_was_held_out() -> None:
    data = small_problem().split()
    dark = data._replace(held_out=data.held_out - 5, for_proxies=-data.for_proxies.abs() - 0.01)
    found = against_proxies(brightness(), dark)
    assert found["inverted"].fpr95 == 0.0  # all brighter than what was held out
    assert len(found) == 8
