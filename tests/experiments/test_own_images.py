"""Four image sets with kinds left out: what they hold, and that the experiment runs."""

import json
from pathlib import Path

import pytest
import torch

from uspebm.cli.main import main
from uspebm.experiments import own_images
from uspebm.support.randomness import generator


@pytest.mark.usefixtures("made_up")
def test_it_runs_and_compares_with_both_baselines(tmp_path: Path) -> None:
    command = ["reproduce", "own-images", "--preset", "smoke", "--out", str(tmp_path)]
    assert main(command) == 0
    results = json.loads((tmp_path / "smoke" / "own-images" / "results.json").read_text())
    assert set(results["figures"]) == set(own_images.SETS)
    for figures in results["figures"].values():
        assert set(figures) == {"ours", "nearest", "PCA"}
    assert len(results["claims"]) == len(own_images.SETS)


def test_shapes_are_what_they_are_called() -> None:
    kinds = torch.arange(len(own_images.SHAPES))
    images = own_images.draw_shapes(kinds, 64, generator(0))
    assert images.shape == (5, 3, 64, 64)
    assert images.abs().max() <= 1
    sets = own_images.shapes_without_rings(0, count=40)
    assert [len(part) for part in sets] == [40, 500, 500]
    assert not torch.equal(sets.inside, sets.outside)


def test_the_class_left_out_of_digits_is_whole_and_nowhere_else() -> None:
    sets = own_images.digits_without_one(3)
    assert len(sets.outside) == 183  # of the threes there are
    assert len(sets.train) + len(sets.inside) + len(sets.outside) == 1797
    both = torch.cat([sets.train, sets.inside]).flatten(1)
    assert torch.cdist(sets.outside.flatten(1), both).min() > 0
