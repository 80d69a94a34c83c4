from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from uspebm import MLP, Importance
from uspebm.appendix import PLANE
from uspebm.experiments.mixture import MIXTURE
from uspebm.experiments.training import Recipe, Training
from uspebm.train import DivergedError


def trained(folder: Path, recipe: Recipe, **about: Any) -> Training:
    phase = Importance(PLANE, nodes=10)
    torch.manual_seed(0)
    return Training("m", MLP(2, width=4), phase, MIXTURE, recipe, folder / "m", seed=0, **about)


def test_the_learning_rate_falls_at_the_end(tmp_path: Path) -> None:
    training = trained(tmp_path, Recipe("sgd", 0.1, steps=8, batch_size=5, cool=0.5))
    (group,) = training.state.optimizer.param_groups
    rates = [group["lr"], *(group["lr"] for _ in training)]
    assert rates == pytest.approx([0.1, 0.1, 0.1, 0.1, 0.1, 0.075, 0.05, 0.025, 0.0])


def test_a_run_is_not_continued_with_other_settings(tmp_path: Path) -> None:
    recipe = Recipe("sgd", 0.1, steps=2, batch_size=5)
    trained(tmp_path, recipe, noise=0.1).finish()
    assert trained(tmp_path, recipe, noise=0.1).state.step == 2
    with pytest.raises(ValueError, match="other settings"):
        trained(tmp_path, recipe, noise=0.2)
    with pytest.raises(ValueError, match="other settings"):
        trained(tmp_path, replace(recipe, level=1.0), noise=0.1)
    (tmp_path / "m.settings.json").unlink()
    with pytest.raises(ValueError, match="other settings"):
        trained(tmp_path, recipe, noise=0.1)


def test_a_run_whose_energies_run_away_is_stopped_and_stays_stopped(tmp_path: Path) -> None:
    recipe = Recipe("adam", 10.0, steps=1000, batch_size=5)
    steps = []
    for _ in range(2):
        training = trained(tmp_path, recipe)
        with pytest.raises(DivergedError, match=r"update \d+: the loss is .*, energies run away"):
            training.finish()
        steps.append(training.state.step)
    assert steps[0] < steps[1] < 100
    # Also if it was the last update, and there is nothing left to do.
    last = tmp_path / "last"
    for _ in range(2):
        with pytest.raises(DivergedError, match="energies run away"):
            trained(last, replace(recipe, steps=steps[0])).finish()
