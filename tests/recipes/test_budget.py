"""A budget in minutes: as many updates as fit, and what an interrupted run was begun with."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.recipes.common import small_images
from tests.recipes.test_run import CROWDED, scheduled
from uspebm import train
from uspebm.detector.choice import budgeted
from uspebm.recipes import Run, budget
from uspebm.recipes.budget import SLACK, within_minutes
from uspebm.recipes.images import pixel_recipe
from uspebm.recipes.signature import recipe_in
from uspebm.recipes.tables import density_recipe

IMAGES = small_images(60)


@pytest.mark.parametrize("minutes", [0.5, 2.0])
def test_as_many_updates_as_fit(minutes: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """With updates that claim to take a tenth of a second, and a clock that stands still."""
    real = Run.__iter__

    def slow(self: Run) -> Any:
        for record in real(self):
            yield replace(record, seconds=0.1)

    monkeypatch.setattr(Run, "__iter__", slow)
    monkeypatch.setattr(budget, "_used", lambda began: 0.0)
    found = within_minutes(scheduled(CROWDED, updates=100_000), IMAGES, minutes, 0)
    assert found.schedule.updates == pytest.approx(SLACK * 60 * minutes / 0.1, abs=1)
    assert replace(found, schedule=CROWDED.schedule) == CROWDED


def test_a_recipe_s_own_updates_are_the_most() -> None:
    found = within_minutes(CROWDED, IMAGES, 60.0, 0)
    assert found.schedule.updates == CROWDED.schedule.updates


@pytest.mark.filterwarnings("ignore:update")  # of random images there is nothing to learn
def test_a_run_keeps_its_time() -> None:
    """Within a tenth in the real thing; here updates are short, and a busy machine is forgiven."""
    recipe, began = scheduled(CROWDED, updates=100_000, snapshot_every=None), time.monotonic()
    found = within_minutes(recipe, IMAGES, 0.05, 0)
    run = train(found, IMAGES, None, 0, show=False)
    took = time.monotonic() - began
    assert run.state.step == found.schedule.updates > 10
    assert 1.0 < took < 30.0


@pytest.mark.parametrize("minutes", [0.0, -1.0, float("nan")])
def test_budgets_are_positive(minutes: float) -> None:
    with pytest.raises(ValueError, match="must be a positive number"):
        within_minutes(CROWDED, IMAGES, minutes, 0)


def test_an_interrupted_run_goes_on_with_the_updates_it_was_begun_with(tmp_path: Path) -> None:
    begun = scheduled(CROWDED, updates=5)
    for _ in Run(begun, IMAGES, tmp_path, 0, show=False):
        break
    assert recipe_in(tmp_path) == begun
    assert budgeted(CROWDED, IMAGES, 1.0, tmp_path, 0) == begun
    other = replace(CROWDED, noise=0.1)
    assert budgeted(other, IMAGES, 1.0, tmp_path, 0).noise == 0.1
    assert budgeted(CROWDED, IMAGES, None, tmp_path, 0) is CROWDED
    assert recipe_in(tmp_path / "nowhere") is None


def test_what_trains_nothing_needs_no_time() -> None:
    assert within_minutes(pixel_recipe(), IMAGES, 1.0, 0) == pixel_recipe()
    few = density_recipe()
    assert within_minutes(few, torch.zeros(12, 2), 1.0, 0) == few
