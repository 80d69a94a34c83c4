"""Fig. 5's measures, on energies that are known."""

import pytest
import torch

from uspebm.experiments import fig5, table1
from uspebm.experiments.image_problem import OpenedSets

from .common import brightness


def test_only_points_that_moved_are_looked_at() -> None:
    before = torch.zeros(6, 1, 2, 2)
    after = before.clone()
    after[[1, 4], 0, 1, 1] = torch.tensor([0.5, 0.7])
    moved = fig5.moved_points(after, before, 0)
    assert sorted(moved[:, 0, 1, 1].tolist()) == pytest.approx([0.5, 0.7])


def test_a_look_measures_what_it_says() -> None:
    known = torch.linspace(-1, 1, 101).view(-1, 1, 1, 1).expand(-1, 1, 28, 28)
    sets = OpenedSets(known, {"first": known[[0, 60, 70, 80]], "second": known})
    recipe = table1.SMOKE.methods["SRLMC"].given(known)
    model = fig5.ImageModel(recipe, brightness(), (), torch.full((4, 1, 28, 28), 0.5))
    look = fig5.points_look(model, known, sets, 0, None)
    assert look.closer == pytest.approx(0.0, abs=1e-3)
    assert look.gap == pytest.approx(-0.5 / known[:, 0, 0, 0].std().item(), rel=1e-3)
    assert look.overestimated == 25.0  # the black one; scores are minus brightness
    black = (known[:, 0, 0, 0] < fig5.BLACK).float()
    expected = torch.stack([-known[:, 0, 0, 0], black]).corrcoef()[0, 1].item()
    assert look.darkness == pytest.approx(expected, rel=1e-3)


def test_nothing_is_claimed_of_blackness_where_all_are_as_black() -> None:
    look = fig5.PointsLook(0.5, 0.0, 0.0, 0.2)
    assert len(fig5._darkness_claims("m", [look], chains=False)) == 1
    assert fig5._darkness_claims("m", [look._replace(darkness=float("nan"))], chains=False) == []
