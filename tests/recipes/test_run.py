"""A run in a folder: what it leaves, how it goes on, and when it is refused."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.recipes.common import mixture, small_images, small_table
from uspebm import (
    MLP,
    Box,
    DivergedError,
    GaussianMixture,
    Importance,
    Leveled,
    PersistentUSP,
    Recipe,
    load_snapshot,
    train,
)
from uspebm.energies.features import FeatureRule
from uspebm.energies.rules import ConvRule, GivenEnergy, MLPRule
from uspebm.negative import CrowdedUSP, RandomFields
from uspebm.recipes import AtData, Run, Schedule
from uspebm.recipes.recipe import Noisy
from uspebm.support.randomness import generator
from uspebm.training import Share
from uspebm.training.run_log import whole_rows

PLANE = Box(-2.0, 2.0, (2,))
LAW = GaussianMixture(((-1.0, 0.0), (1.0, 0.0)), std=0.1)
RECIPE = Recipe(
    "small",
    MLPRule(width=4),
    Importance(PLANE, nodes=10),
    Schedule(updates=8, batch_size=5, optimizer="sgd", learning_rate=0.1),
)
CROWDED = Recipe(
    "crowded",
    ConvRule((16, 16, 16), width=16),
    CrowdedUSP(
        phase=PersistentUSP(
            domain=Box(-1.0, 1.0, (1, 8, 8)),
            particles=50,
            spacing=4.0,
            active=10,
            nodes=20,
            rounds=2,
        ),
        restarts=0.5,
        fresh=RandomFields((1, 8, 8), (2, 4, 8)),
    ),
    Schedule(updates=8, batch_size=10, cooling=0.25, snapshot_every=3),
    objective=Leveled(10.0),
    start=AtData(afresh=0.2),
)


def scheduled(recipe: Recipe = RECIPE, **changes: Any) -> Recipe:
    return replace(recipe, schedule=replace(recipe.schedule, **changes))


def weights(run: Run) -> list[Tensor]:
    return [p.detach().clone() for p in run.energy.parameters()]


def test_the_learning_rate_falls_at_the_end(tmp_path: Path) -> None:
    run = Run(scheduled(cooling=0.5), LAW, tmp_path / "m", 0)
    (group,) = run.state.optimizer.param_groups
    rates = [group["lr"], *(group["lr"] for _ in run)]
    assert rates == pytest.approx([0.1, 0.1, 0.1, 0.1, 0.1, 0.075, 0.05, 0.025, 0.0])


def test_the_seed_and_the_recipe_decide_the_weights() -> None:
    first, again = (train(RECIPE, LAW, None, 0, show=False) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(weights(first), weights(again), strict=True))
    for other in (train(RECIPE, LAW, None, 1), train(scheduled(learning_rate=0.2), LAW, None, 0)):
        assert not all(
            torch.equal(a, b) for a, b in zip(weights(first), weights(other), strict=True)
        )


def test_the_network_is_that_of_the_seed_and_the_global_generator_is_left_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    run = Run(RECIPE, LAW, None, 7)
    assert torch.equal(torch.rand(3), expected)
    torch.manual_seed(7)
    for a, b in zip(MLP(2, width=4).parameters(), run.state.module.parameters(), strict=True):
        assert torch.equal(a, b)


def test_a_run_is_not_continued_with_other_settings(tmp_path: Path) -> None:
    data = LAW.sample(20, generator(0))
    train(RECIPE, data, tmp_path / "m", 0)
    assert Run(RECIPE, data, tmp_path / "m", 0).done
    for recipe, points, seed in (
        (replace(RECIPE, objective=Leveled(1.0)), data, 0),
        (replace(RECIPE, noise=0.1), data, 0),
        (RECIPE, data + 0.01, 0),
        (RECIPE, data, 1),
    ):
        with pytest.raises(ValueError, match="holds a run with other settings"):
            Run(recipe, points, tmp_path / "m", seed)
    (tmp_path / "m" / "run.json").unlink()
    with pytest.raises(ValueError, match="other settings"):
        Run(RECIPE, data, tmp_path / "m", 0)


@pytest.mark.parametrize("at", [1, 4, 7])
def test_an_interrupted_run_goes_on_and_ends_the_same(at: int, tmp_path: Path) -> None:
    images = small_images(30)
    whole = train(CROWDED, images, tmp_path / "whole", 0)
    interrupted = Run(CROWDED, images, tmp_path / "stopped", 0)
    for record in interrupted:
        if record.step == at:
            break
    resumed = train(CROWDED, images, tmp_path / "stopped", 0)
    assert all(torch.equal(a, b) for a, b in zip(weights(whole), weights(resumed), strict=True))
    assert [row["step"] for row in resumed.history] == list(range(1, 9))
    for kind in ("raw", "averaged"):
        assert list(resumed.snapshots(kind)) == [3, 6, 8]
        for a, b in zip(
            whole.snapshots(kind).values(), resumed.snapshots(kind).values(), strict=True
        ):
            assert a.read_bytes() == b.read_bytes()


def test_a_judged_run_goes_on_and_ends_the_same(tmp_path: Path) -> None:
    recipe, points = small_table(updates=150, rate=3e-3), mixture(300)
    whole = train(recipe, points, None, 0)
    for record in Run(recipe, points, tmp_path / "m", 0):
        if record.step == 120:
            break
    resumed = train(recipe, points, tmp_path / "m", 0)
    assert resumed.curve == whole.curve
    assert all(torch.equal(a, b) for a, b in zip(weights(whole), weights(resumed), strict=True))


def test_snapshots_hold_the_raw_and_the_averaged_weights(tmp_path: Path) -> None:
    run = train(CROWDED, small_images(30), tmp_path / "m", 0)
    for kind, module in (("raw", run.state.module), ("averaged", run.state.average.module)):
        network = CROWDED.energy.build(small_images(1), 1)
        load_snapshot(network, run.snapshots(kind)[8])
        for a, b in zip(network.parameters(), module.parameters(), strict=True):
            assert torch.equal(a, b)
    with pytest.raises(ValueError, match="crowded has no folder, and so no snapshots"):
        Run(CROWDED, small_images(30), None, 0).snapshots()


def test_the_log_tells_the_terms_apart(tmp_path: Path) -> None:
    run = train(CROWDED, small_images(30), tmp_path / "m", 0)
    for row in run.history:
        assert row["loss"] == pytest.approx(row["data_term"] - row["node_energy"], abs=1e-6)
        assert row["data_term"] > row["data_energy"]  # ten times a variance
        assert {"violating", "spacing", "ess", "gradient_norm"} <= row.keys()
    about = json.loads((tmp_path / "m" / "run.json").read_text())
    assert about["recipe"]["objective"] == {"kind": "Leveled", "weight": 10.0}
    assert run.seconds > 0


def test_a_run_whose_energies_run_away_is_stopped_and_stays_stopped(tmp_path: Path) -> None:
    recipe = scheduled(updates=1000, optimizer="adam", learning_rate=10.0)
    for _ in range(2):
        run = Run(recipe, LAW, tmp_path / "m", 0)
        with pytest.raises(DivergedError, match=r"update \d+: .* apart, and run away"):
            for _ in run:
                pass
        assert run.state.step < 100
        assert run.state.whole


@pytest.mark.filterwarnings("ignore:update")  # at rates like these, weights collapse as well
@pytest.mark.parametrize("kept", [False, True])
def test_a_divergence_is_gone_back_from_with_a_smaller_step(
    kept: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A rate at which it runs away, halved until it does not; and not more often than it may."""
    folder = tmp_path / "m" if kept else None
    wild = scheduled(updates=60, optimizer="adam", learning_rate=1000.0, snapshot_every=1)
    run = train(scheduled(wild, rollbacks=12), LAW, folder, 0)
    assert run.state.step == 60
    assert run.state.scheduler is not None
    assert run.state.scheduler.base_lrs[0] < 1000.0
    assert "of at most 12 times" in capsys.readouterr().out
    if folder is not None:
        assert [row["step"] for row in run.history] == list(range(1, 61))
        # What was learned on the way that was given up is gone: the first update has the weights of
        # the last rate that it was made with.
        rate = float(run.state.scheduler.base_lrs[0])
        calm = replace(wild.schedule, updates=1, learning_rate=rate)
        alike = train(replace(wild, schedule=calm), LAW, tmp_path / "calm", 0).snapshots("raw")[1]
        assert run.snapshots("raw")[1].read_bytes() == alike.read_bytes()
        record = whole_rows(folder / "rollbacks.jsonl")
        rates = [one["learning_rate"] for one in record]
        assert rates == [1000.0 / 2**k for k in range(1, len(rates) + 1)]
        assert all(one["back_to"] <= one["diverged_after"] for one in record)
    with pytest.raises(DivergedError, match="run away"):
        train(scheduled(wild, rollbacks=1), LAW, None, 0)


def test_particles_start_at_points_and_a_share_of_them_afresh() -> None:
    images, phase = small_images(60), CROWDED.phase
    assert isinstance(phase, CrowdedUSP)
    for fresh in (phase.fresh, None):
        state = AtData(0.2).state(replace(phase, fresh=fresh), images, 0)
        at_images = (state[0][:, None] == images).flatten(2).all(2).any(1)
        assert (len(state[0]), int(at_images.sum())) == (50, 40)
    # Of fewer points than particles, each is taken about as often.
    few = AtData().state(phase, images[:20], 0)[0]
    often = (few[:, None] == images[:20]).flatten(2).all(2).sum(0)
    assert set(often.tolist()) == {2, 3}
    with pytest.raises(ValueError, match=r"afresh=0.2: PersistentUSP has no fresh points"):
        AtData(0.2).state(phase.phase, images, 0)
    with pytest.raises(ValueError, match=r"start=AtData\(.*\): Importance has no particles"):
        train(replace(RECIPE, start=AtData()), torch.zeros(5, 2), None, 0)


def test_noise_has_the_deviation_it_is_said_to_have_and_stays_in_the_domain() -> None:
    box = Box(-1.0, 1.0, (1, 28, 28))
    noisy = Noisy(Share.of(torch.zeros(1, 1, 28, 28)), 0.1, box).sample(100, generator(0))
    # Of 78,400 draws the deviation is known to 0.1 / √(2 · 78,400) = 0.00025.
    assert noisy.std().item() == pytest.approx(0.1, abs=0.001)
    bright = Share.of(torch.full((1, 1, 28, 28), 0.9))
    wide = Noisy(bright, 1.0, box).sample(10, generator(0))
    assert (wide.min().item(), wide.max().item()) == (-1.0, 1.0)
    free = Noisy(bright, 1.0, None).sample(10, generator(0))
    assert free.max() > 1.0


def test_noise_reaches_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    sample = Noisy.sample

    def spy(self: Noisy, *arguments: Any) -> Tensor:
        seen.append(self.std)
        return sample(self, *arguments)

    monkeypatch.setattr(Noisy, "sample", spy)
    train(replace(RECIPE, noise=0.1), LAW.sample(20, generator(0)), None, 0, show=False)
    assert set(seen) == {0.1}


def test_a_law_gives_as_many_points_as_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(replace(scheduled(batch_size=5000, updates=1), noise=0.1), LAW, None, 0, show=False)
    sizes = []
    sample = Noisy.sample

    def spy(self: Noisy, *arguments: Any) -> Tensor:
        drawn = sample(self, *arguments)
        sizes.append(len(drawn.unique(dim=0)))
        assert self.points is LAW  # and not a thousand draws of it
        return drawn

    monkeypatch.setattr(Noisy, "sample", spy)
    list(run)
    assert set(sizes) == {5000}


def test_noise_is_on_fresh_draws_of_a_law() -> None:
    noisy = Noisy(GaussianMixture(((0.0, 0.0),), std=0.3), 0.4, None).sample(40_000, generator(0))
    # √(0.3² + 0.4²); of 80,000 numbers the deviation is known to 0.5 / √160,000 = 0.00125.
    assert noisy.std().item() == pytest.approx(0.5, abs=0.005)


def test_what_is_returned_draws_nothing() -> None:
    """Dropout is for training: the energy of a point is one number."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(2, 16), nn.Dropout(0.5), nn.Linear(16, 1), nn.Flatten(0))
    run = train(replace(RECIPE, energy=GivenEnergy(network)), LAW, None, 0, show=False)
    x = torch.ones(50, 2)
    assert torch.equal(run.energy(x), run.energy(x))
    assert not torch.equal(run.state.module(x), run.state.module(x))  # these are still trained


class OwnLaw:
    """One without words of its own."""

    def __init__(self, std: float, shape: Any = None) -> None:
        self.std, self.parts = std, {"mean": np.zeros(2), "shape": shape}

    def sample(self, n: int, generator: torch.Generator, dtype: torch.dtype) -> Tensor:
        return self.std * torch.randn(n, 2, generator=generator, dtype=dtype)


def test_a_law_of_ones_own_is_known_again(tmp_path: Path) -> None:
    for record in Run(RECIPE, OwnLaw(0.1), tmp_path / "m", 0, show=False):
        if record.step == 3:
            break
    another = OwnLaw(0.1)
    another.parts["mean"][0] = 1e-9
    for law in (OwnLaw(0.2), another):
        with pytest.raises(ValueError, match="holds a run with other settings"):
            Run(RECIPE, law, tmp_path / "m", 0, show=False)
    assert train(RECIPE, OwnLaw(0.1), tmp_path / "m", 0, show=False).state.step == 8


def test_a_law_that_could_not_be_known_again_is_refused_before_it_is_trained_on(
    tmp_path: Path,
) -> None:
    scale = 2.0
    law = OwnLaw(0.1, shape=lambda x: scale * x)
    with pytest.raises(ValueError, match=r"told only by where it lies in memory"):
        Run(RECIPE, law, tmp_path / "m", 0, show=False)
    assert not (tmp_path / "m").exists()
    assert train(RECIPE, law, None, 0, show=False).done


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"updates": -1}, "updates=-1"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"optimizer": "lbfgs"}, "optimizer='lbfgs' must be one of 'adam', 'sgd'"),
        ({"learning_rate": math.nan}, "learning_rate=nan"),
        ({"cooling": 1.5}, "cooling=1.5 must lie between 0 and 1"),
        ({"snapshot_every": 0}, "snapshot_every=0"),
    ],
)
def test_bad_schedules_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        scheduled(**change)


@pytest.mark.parametrize("device", ["cuda:99", "nowhere", "meta"])
def test_a_device_that_is_not_at_hand_is_named(device: str) -> None:
    with pytest.raises(ValueError, match=f"device='{device}' is not at hand: "):
        Run(CROWDED, small_images(20), None, 0, show=False, device=device)


def test_tables_train_on_the_cpu() -> None:
    with pytest.raises(ValueError, match="needs the cpu; leave it out"):
        Run(small_table(), mixture(100), None, 0, show=False, device="cuda")


def test_a_network_without_features_is_refused_before_it_is_trained() -> None:
    recipe = replace(CROWDED, energy=MLPRule(), score=FeatureRule())
    with pytest.raises(ValueError, match="MLP has no method features"):
        Run(recipe, small_images(20), None, 0, show=False)
