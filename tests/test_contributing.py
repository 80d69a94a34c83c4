"""The skeletons that CONTRIBUTING.md shows work as they stand."""

import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.test_objective import COUNTED, MASS, SEEN, assert_law, at_rest, exactly
from uspebm import (
    MLP,
    Box,
    EnergyDetector,
    Gaussian,
    Importance,
    NegativePhase,
    Recipe,
    TrainState,
    fit,
    load,
    save_model,
    train,
)
from uspebm.experiments.image_problem import PROBLEMS, ImageProblem, problem
from uspebm.recipes import Schedule
from uspebm.support.randomness import generator

PAGE = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text()
BOX = Box(-2.0, 2.0, (2,))
DATA = Gaussian((0.3, -0.2), 0.3).sample(100, generator(0, "data"))


@cache
def skeleton(kind: str) -> dict[str, Any]:
    """The names that the code below a heading defines."""
    (code,) = re.findall(r"```python\n(.*?)```", _section(kind), re.DOTALL)
    names: dict[str, Any] = {"__name__": f"contributed_{kind}"}
    exec(compile(code, f"CONTRIBUTING.md, {kind}", "exec"), names)
    return names


def _section(kind: str) -> str:
    return PAGE.split(f"\n## Adding {kind}\n")[1].split("\n## ")[0]


def two_updates(phase: NegativePhase[Any], **settings: Any) -> list[float]:
    """The losses of two updates, which move the weights."""
    torch.manual_seed(0)
    energy = MLP(2, width=16)
    before = [p.clone() for p in energy.parameters()]
    state = TrainState.start(energy, phase, torch.optim.Adam(energy.parameters(), 1e-2))
    losses = [r.loss for r in fit(state, phase, DATA, batch_size=20, steps=2, **settings)]
    moved = zip(before, energy.parameters(), strict=True)
    assert any(not torch.equal(a, b) for a, b in moved)
    return losses


def test_there_is_a_skeleton_of_every_kind_of_thing() -> None:
    headings = re.findall(r"^## Adding (.*)$", PAGE, re.MULTILINE)
    assert headings == ["a phase", "an energy", "an objective", "a recipe", "a problem"]


def test_the_phase_trains() -> None:
    phase = skeleton("a phase")["Metropolis"](BOX, chains=30, step_size=0.2)
    assert np.isfinite(two_updates(phase)).all()
    with pytest.raises(ValueError, match="chains=0 must be a whole number, at least 1"):
        replace(phase, chains=0)


@pytest.mark.parametrize("mutant", [False, True])
def test_the_phase_leaves_the_model_s_law_unchanged(mutant: bool) -> None:
    """Started at exact draws, the walkers stay such; if every move were accepted, they would not.

    The mean square of n coordinates has a standard error of σ² √(2/n): four of them are allowed.
    """
    names = skeleton("a phase")
    law = Gaussian((0.0, 0.0), 0.2)
    phase = names["Metropolis"](BOX, chains=2000, step_size=0.2)
    state = names["Walkers"](law.sample(phase.chains, generator(0)))
    for k in range(20):
        flat = (lambda x: torch.zeros(len(x))) if mutant else law
        nodes, state, info = phase.step(flat, state, generator(1, k))
    assert 0 < info.accepted <= 1
    off = abs(nodes.x.square().mean().item() - 0.04)
    assert (off > 4 * 0.04 * (2 / nodes.x.numel()) ** 0.5) is mutant


def test_the_energy_is_trained_by_a_recipe() -> None:
    rule = skeleton("an energy")["ConfinedRule"](width=16)
    recipe = Recipe("confined", rule, Importance(BOX, 50), Schedule(updates=2, batch_size=20))
    run = train(recipe, DATA, None, seed=0, show=False)
    untrained = rule.build(DATA, 0)
    assert torch.equal(untrained(DATA), rule.build(DATA, 0)(DATA))  # the seed decides
    assert run.energy(DATA).shape == (len(DATA),)
    assert not torch.equal(run.energy(DATA), untrained(DATA))
    far = 1e6 * torch.ones(1, 2)
    assert run.energy(far) > run.energy(DATA).max()


def test_the_objective_is_used_by_fit() -> None:
    anchored = skeleton("an objective")["Anchored"]
    phase = Importance(BOX, 50)
    losses = two_updates(phase, objective=anchored(0.5))
    assert losses[0] != two_updates(phase)[0]


def test_the_objective_comes_to_rest_where_it_says() -> None:
    objective = skeleton("an objective")["Anchored"](0.3)
    energy = at_rest(exactly(objective))
    assert (COUNTED * energy).sum().item() == pytest.approx(0.0, abs=1e-4)
    assert_law(energy, lambda e: COUNTED * (1 + 0.6 * e))
    with pytest.raises(AssertionError):
        assert_law(energy, lambda e: COUNTED * (1 + 0.3 * e))  # the 2 forgotten
    data_energy = energy.repeat_interleave((MASS * 200_000).round().long())
    log_p = objective.log_density(energy, data_energy, torch.logsumexp(-energy, 0).item())
    torch.testing.assert_close(log_p[SEEN].exp(), COUNTED[SEEN], rtol=0.01, atol=1e-6)


def test_the_recipe_trains_and_makes_a_detector(tmp_path: Path) -> None:
    recipe = skeleton("a recipe")["wide_recipe"]()
    short = replace(recipe, schedule=replace(recipe.schedule, updates=2))
    run = train(short, DATA, tmp_path / "run", seed=0, show=False)
    assert run.done
    assert len(run.history) == 2
    detector = EnergyDetector(recipe, max_updates=2, random_state=0).fit(DATA.numpy())
    assert detector.recipe_ == short
    assert detector.score_samples(DATA[:3].numpy()).shape == (3,)
    # A part of its maker's own is in no list: the model is kept, and says that it has one.
    save_model(detector, tmp_path / "model")
    kept = load(tmp_path / "model")
    assert np.allclose(kept.score_samples(DATA.numpy()), detector.score_samples(DATA.numpy()))
    with pytest.raises(ValueError, match="a recipe of its maker's own"):
        kept.fit(DATA.numpy())


def test_the_problem_is_a_value_that_table_1_runs_on(monkeypatch: pytest.MonkeyPatch) -> None:
    made = skeleton("a problem")["STRIPES"]
    assert isinstance(made, ImageProblem)
    monkeypatch.setitem(PROBLEMS, "stripes", made)
    assert problem("stripes") is made
    parts = made.split()
    assert [tuple(part.shape) for part in parts] == [(n, 1, 12, 12) for n in (440, 20, 20)]
    opened = made.opened(50)
    assert opened.inside.shape == (50, 1, 12, 12)
    assert opened.first == "lying"
    assert all(images.shape == (50, 1, 12, 12) for images in opened.outside.values())
    for images in (*parts, opened.inside, opened.outside["lying"]):
        assert images.is_contiguous()
        assert images.abs().max() <= 1
        assert images.unique(dim=0).shape == images.shape  # no image twice
    # What lies is what stands, turned.
    assert (opened.outside["lying"][..., 0] != opened.outside["lying"][..., 1]).sum() == 0
    assert (opened.inside[..., 0, :] != opened.inside[..., 1, :]).sum() == 0
