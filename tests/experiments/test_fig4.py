"""The demo: a preset of Fig. 4, as small as it is said to be."""

import json
from pathlib import Path

import pytest
import torch

from uspebm import load_snapshot
from uspebm.energies.rules import MLPRule
from uspebm.experiments import fig4
from uspebm.experiments.mixture import MIXTURE, kl_over_updates
from uspebm.recipes import train


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fig4, "DEMO", fig4.SMOKE)


def test_the_demo_is_as_small_as_it_says() -> None:
    ps_usp, srlmc = fig4.DEMO.recipes
    assert (ps_usp.name, srlmc.name) == ("ps_usp", "srlmc")
    assert ps_usp.energy == srlmc.energy == MLPRule(width=128)
    points = fig4.DEMO.partition
    assert (points.particles, points.spacing, points.rounds) == (2000, 0.08, 20)
    assert (points.active, points.nodes) == (500, 2000)
    assert ps_usp.schedule.learning_rate == 1e-3
    assert srlmc.schedule.learning_rate == 3e-4
    for recipe in fig4.DEMO.recipes:
        schedule = recipe.schedule
        assert (schedule.optimizer, schedule.updates, schedule.batch_size) == ("adam", 500, 1000)
        assert (schedule.average_decay, schedule.cooling) == (0.97, 0.0)
    assert srlmc.phase == fig4.PAPER.srlmc.phase


@pytest.mark.usefixtures("small")
def test_the_demo_trains_what_its_recipes_say(tmp_path: Path) -> None:
    fits = fig4.demo(tmp_path, updates=3, seed=7)
    for recipe in fig4.SMOKE.with_updates(3).recipes:
        wanted = train(recipe, MIXTURE, None, seed=7, show=False).energy
        found = recipe.energy.build(torch.zeros(1, 2), seed=0)
        load_snapshot(found, tmp_path / f"{recipe.name}.safetensors")
        for a, b in zip(wanted.parameters(), found.parameters(), strict=True):
            assert torch.equal(a, b)
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["srlmc"]["kl"] == fits["srlmc"].kl
    assert results["config"] == json.loads((tmp_path / "config.json").read_text())
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        *("config.json", "demo.png", "demo.svg", "metrics.jsonl", "ps_usp", "ps_usp.safetensors"),
        *("results.json", "srlmc", "srlmc.safetensors", "truth.npz"),
    ]
    for method in ("ps_usp", "srlmc"):
        left = sorted(path.name for path in (tmp_path / method).iterdir())
        assert left == ["frames", "log.jsonl", "record.jsonl", "run.json"]


@pytest.mark.usefixtures("small")
def test_kl_over_the_updates_ends_where_the_model_does(tmp_path: Path) -> None:
    """On the plane, whatever a frame shows: SRLMC's are half as large again, 0.4 in log Z."""
    fits = fig4.demo(tmp_path, updates=3, seed=7)
    for name, fit in fits.items():
        course = kl_over_updates(tmp_path / name)
        assert list(course) == [1, 2, 3]
        assert course[3] == pytest.approx(fit.kl, abs=0.05)  # cells cut by the edge: 1.5 % a side
        assert course[1] != course[3]


@pytest.mark.usefixtures("small")
def test_a_folder_of_the_users_is_left_alone(tmp_path: Path) -> None:
    kept = tmp_path / "srlmc" / "notes.txt"
    kept.parent.mkdir()
    kept.write_text("mine")
    fig4._drop_demo(tmp_path)
    assert kept.read_text() == "mine"


@pytest.mark.usefixtures("small")
def test_other_settings_are_refused_with_what_to_do(tmp_path: Path) -> None:
    fig4.demo(tmp_path, updates=2, seed=0)
    for updates, seed in ((3, 0), (2, 1)):
        with pytest.raises(ValueError, match=r"holds a run with other settings.*--fresh"):
            fig4.demo(tmp_path, updates, seed)
    fig4.demo(tmp_path, updates=3, seed=0, fresh=True)
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 6
