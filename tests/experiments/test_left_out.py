"""Proxies: kinds that were left out of training, and changed images."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from uspebm import EnergyDetector, save_model, train
from uspebm.cli.main import main
from uspebm.energies.features import FeatureRule
from uspebm.evaluation.metrics import detection
from uspebm.evaluation.proxies import proxies
from uspebm.experiments import left_out, table1
from uspebm.experiments.baselines import nearest_neighbour
from uspebm.experiments.image_models import Method, energy_scores
from uspebm.experiments.image_problem import FASHION_MNIST
from uspebm.recipes.images import crowded_recipe

from .common import small_problem


def short() -> Method:
    """The recipe's own kind, of few points."""
    return Method(crowded_recipe((1, 28, 28), 10.0, particles=50))


@pytest.mark.usefixtures("made_up")
def test_kinds_left_out_are_in_no_part_of_the_data_and_whole_in_the_rest() -> None:
    known, unknown = left_out.without(FASHION_MNIST, ("bag", "coat"))
    every, classes = FASHION_MNIST.split(), FASHION_MNIST.split_labels()
    assert classes is not None
    sizes = {k: [int((part == k).sum()) for part in classes] for k in (4, 8)}
    gone = [sizes[4][part] + sizes[8][part] for part in range(3)]
    assert [len(part) for part in known] == [1_100 - gone[0], 50 - gone[1], 50 - gone[2]]
    assert list(unknown) == ["bag", "coat"]
    assert len(unknown["bag"]) == sum(sizes[8])
    assert torch.equal(unknown["bag"][0], every.train[classes.train == 8][0])
    assert torch.equal(unknown["bag"][-1], every.for_proxies[classes.for_proxies == 8][-1])
    kept = (classes.train != 8) & (classes.train != 4)
    assert torch.equal(known.train, every.train[kept])


def test_groups_are_of_classes_that_there_are() -> None:
    for name, kinds in left_out.GROUPS.items():
        assert left_out.kinds_in(FASHION_MNIST, name) == kinds
    assert left_out.kinds_in(FASHION_MNIST, "bag") == ("bag",)
    with pytest.raises(ValueError, match="there is no class 'hat', but t-shirt, trouser"):
        left_out.kinds_in(FASHION_MNIST, "hat")


def test_without_classes_none_is_left_out() -> None:
    with pytest.raises(ValueError, match="there is no class 'bag'"):
        left_out.without(small_problem(), ("bag",))


@pytest.mark.usefixtures("made_up")
@pytest.mark.parametrize("seed", [0, 3])
def test_scores_are_those_of_the_parts_they_name(seed: int, tmp_path: Path) -> None:
    judged = left_out.judged_without(FASHION_MNIST, "tops", short(), tmp_path, 2, seed)
    assert judged.span == 0.0  # of one snapshot
    found = judged.scores
    assert {"features", "energy", "random features", "nearest neighbour"} < found.keys()
    known, unknown = left_out.without(FASHION_MNIST, left_out.GROUPS["tops"])
    recipe = short().given(known.train)
    recipe = replace(recipe, schedule=replace(recipe.schedule, updates=2))
    energy = train(recipe, known.train, None, seed, show=False).energy
    scores: dict[str, Callable[[Tensor], Any]] = {
        "energy": partial(energy_scores, energy),
        "features": partial(energy_scores, FeatureRule().over(energy, known.train, seed)),
        "nearest neighbour": nearest_neighbour(known.train),
    }
    changed = proxies(known.for_proxies)
    held_out = torch.cat([known.held_out, known.for_proxies])
    for name, score in scores.items():
        for kind, images in unknown.items():
            assert found[name].kinds[kind] == detection(score(held_out), score(images))
        assert found[name].changed.keys() == changed.keys()
        blurred = detection(score(known.held_out), score(changed["blurred"]))
        assert found[name].changed["blurred"] == blurred


@pytest.mark.usefixtures("made_up")
def test_kinds_left_out_are_trained_without_and_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        table1, "FAST", replace(table1.SMOKE, methods={"crowded-features": short()})
    )
    command = ["proxies", "--leave-out", "shoes-and-bags", "--updates", "3", "--out", str(tmp_path)]
    assert main(command) == 0
    out = " ".join(capsys.readouterr().out.split())
    for word in (
        "sandal",
        "boot",
        "kinds left out: shoes-and-bags",
        "random",
        "outlined",
        "PCA",
        "spans 0.0",
    ):
        assert word in out
    folder = tmp_path / "without-shoes-and-bags-0"
    assert (folder / "snapshots" / "averaged-000003.safetensors").exists()
    assert main([*command, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)["left_out"]["shoes-and-bags"]["scores"]
    assert said["features"]["kinds"].keys() == {"sandal", "sneaker", "bag", "boot"}
    assert 0 <= said["energy"]["changed"]["blurred"]["fpr95"] <= 1
    assert main(["proxies", "--leave-out", "coat", "--leave-out", "hat", "--out", "x"]) == 2
    assert "there is no class 'hat', but t-shirt, trouser" in capsys.readouterr().err
    assert main(["proxies"]) == 2
    assert "needs a model to judge, or --leave-out" in capsys.readouterr().err
    assert main(["proxies", "fashion-mnist", "--updates", "3"]) == 2
    assert "--updates 3 is for --leave-out" in capsys.readouterr().err
    assert main(["proxies", "fashion-mnist", "--seed", "3"]) == 2
    assert "--seed 3 is for --leave-out" in capsys.readouterr().err


@pytest.mark.usefixtures("made_up")
def test_proxies_refuse_a_model_of_something_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = np.random.default_rng(0).normal(size=(100, 3))
    detector = EnergyDetector(max_updates=0, random_state=0).fit(table)
    save_model(detector, tmp_path / "m")
    assert main(["proxies", str(tmp_path / "m")]) == 2
    wanted = "m is a model of 3 columns, not of images of 28 × 28 pixels"
    assert wanted in capsys.readouterr().err
