"""Proxies: a class that was left out of training, and changed images."""

from pathlib import Path

import numpy as np
import pytest
import torch

from uspebm import EnergyDetector, save_model
from uspebm.cli.main import main
from uspebm.experiments import left_out, table1
from uspebm.experiments.image_problem import FASHION_MNIST

from .common import small_problem


@pytest.mark.usefixtures("made_up")
def test_a_class_left_out_is_in_no_part_of_the_data_and_whole_in_the_rest() -> None:
    known, unknown = left_out.without(FASHION_MNIST, "bag")
    every, classes = FASHION_MNIST.split(), FASHION_MNIST.split_labels()
    assert classes is not None
    bags = [int((part == 8).sum()) for part in classes]
    assert [len(part) for part in known] == [5_500 - bags[0], 250 - bags[1], 250 - bags[2]]
    assert len(unknown) == bags[1] + bags[2]
    assert torch.equal(unknown[0], every.held_out[classes.held_out == 8][0])
    assert torch.equal(known.train[0], every.train[classes.train != 8][0])


def test_without_classes_none_is_left_out() -> None:
    with pytest.raises(ValueError, match="there is no class 'bag'"):
        left_out.without(small_problem(), "bag")


@pytest.mark.usefixtures("made_up")
def test_a_class_left_out_is_trained_without_and_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(table1, "FAST", table1.SMOKE)
    command = ["proxies", "--leave-out", "bag", "--updates", "3", "--out", str(tmp_path)]
    assert main(command) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "bag" in out
    assert "a class left out, 3 updates" in out
    assert (tmp_path / "without-bag-0" / "snapshots" / "averaged-000003.safetensors").exists()
    assert main(["proxies", "--leave-out", "coat", "--leave-out", "hat", "--out", "x"]) == 2
    assert "there is no class 'hat', but t-shirt, trouser" in capsys.readouterr().err
    assert main(["proxies"]) == 2
    assert "needs a model to judge, or --leave-out" in capsys.readouterr().err
    assert main(["proxies", "fashion-mnist", "--updates", "3"]) == 2
    assert "--updates 3 is for --leave-out" in capsys.readouterr().err


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
