"""One class inside at a time: what is compared, and that classes that are done are kept."""

import json
from pathlib import Path

import pytest
import torch

from uspebm.cli.main import main
from uspebm.experiments import one_class
from uspebm.experiments.image_problem import MNIST

pytestmark = pytest.mark.usefixtures("made_up")


def test_it_runs_and_keeps_what_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ["reproduce", "one-class", "--preset", "smoke", "--out", str(tmp_path)]
    assert main(command) == 0
    out = tmp_path / "smoke" / "one-class"
    results = json.loads((out / "results.json").read_text())
    assert [len(kinds) for kinds in results["auroc"].values()] == [2, 2]
    for kinds in results["auroc"].values():
        for found in kinds.values():
            assert set(found) == set(one_class.WHO)
    monkeypatch.setattr(one_class, "_scores", None)  # would fail, if anything were done again
    assert main(command) == 0
    assert json.loads((out / "results.json").read_text()) == results


def test_a_class_is_told_from_all_others_by_images_that_are_new() -> None:
    known, same, other = one_class._parts(MNIST, "3", None)
    assert MNIST.labels is not None
    assert MNIST.test_labels is not None
    assert len(known) == int((MNIST.labels() == 3).sum())
    assert len(same) == int((MNIST.test_labels() == 3).sum())
    assert len(same) + len(other) == len(MNIST.test())
    assert torch.cdist(known.flatten(1), same.flatten(1)).min() > 0
