from pathlib import Path

import pytest

from uspebm import MLP, Importance
from uspebm.appendix import PLANE
from uspebm.experiments.mixture import MIXTURE
from uspebm.experiments.training import Recipe, Training


@pytest.mark.parametrize(
    ("cycles", "expected"),
    [
        (1, [1, 1, 1, 1, 1, 0.75, 0.5, 0.25]),
        (2, [1, 1, 1, 0.5, 1, 1, 1, 0.5]),
    ],
)
def test_the_learning_rate_cools_once_in_every_cycle(
    tmp_path: Path, cycles: int, expected: list[float]
) -> None:
    recipe = Recipe("sgd", 0.1, steps=8, batch_size=5, cool=0.5, cycles=cycles)
    phase = Importance(PLANE, nodes=10)
    training = Training("m", MLP(2, width=4), phase, MIXTURE, recipe, tmp_path / "m", seed=0)
    (group,) = training.state.optimizer.param_groups
    rates = [group["lr"], *(group["lr"] for _ in training)]
    assert rates[:-1] == pytest.approx([0.1 * rate for rate in expected])
