"""Recipes survive JSON; what no file can hold is named."""

import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tests.recipes.test_run import CROWDED, RECIPE
from uspebm import MLP, Gaussian, Recipe, Tempered
from uspebm.energies.rules import GivenEnergy
from uspebm.experiments import two_modes
from uspebm.recipes import paper
from uspebm.recipes.images import crowded_recipe, pixel_recipe
from uspebm.recipes.plain import (
    OwnPartError,
    as_plain,
    fingerprint,
    from_plain,
    refuse_addresses,
)
from uspebm.recipes.tables import density_recipe, table_recipe

RECIPES = {
    "images": crowded_recipe((3, 32, 32), 7.5, 3000),
    "tables": table_recipe(),
    "tables-density": density_recipe(),
    "tables-ps-usp": density_recipe("ps-usp"),
    "tables-srlmc": density_recipe("srlmc"),
    "pixels": pixel_recipe(),
    "srlmc": paper.srlmc_recipe(),
    "ps-usp": paper.ps_usp_recipe(reading="text"),
    "mixture": paper.mixture_recipe("m", paper.MIXTURE_PS_USP, 10),
    "line": paper.line_recipe("m", paper.MIXTURE_SRLMC),
    "line, interpolated": two_modes.PAPER.recipe("m", two_modes.LINE_SRLMC),
    "small": RECIPE,
    "crowded": replace(CROWDED, objective=Tempered(2.0)),
}


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_recipes_survive_json(recipe: Recipe) -> None:
    again = from_plain(json.loads(json.dumps(as_plain(recipe))))
    assert again == recipe
    assert hash(again) == hash(recipe)


def test_settings_are_checked_again() -> None:
    plain = as_plain(RECIPE)
    plain["schedule"]["batch_size"] = 0
    with pytest.raises(ValueError, match="batch_size=0"):
        from_plain(plain)
    plain["schedule"]["surprise"] = 1
    with pytest.raises(TypeError, match="surprise"):
        from_plain(plain)


@pytest.mark.parametrize("kind", ["GivenEnergy", "os.system", "Path", None])
def test_only_known_parts_are_made(kind: Any) -> None:
    with pytest.raises(OwnPartError, match=f"{kind} is no part of a recipe"):
        from_plain(as_plain(RECIPE) | {"energy": {"kind": kind, "module": {}}})


def test_a_part_called_like_one_of_ours_is_not_taken_for_it() -> None:
    @dataclass(frozen=True)
    class ConvRule:
        width: int = 3

    plain = as_plain(ConvRule())
    assert plain["kind"].endswith("ConvRule")
    with pytest.raises(OwnPartError, match="ConvRule is no part"):
        from_plain(plain)


def test_own_energies_are_told_apart_by_their_weights() -> None:
    torch.manual_seed(0)
    module = MLP(2, width=4)
    first = as_plain(GivenEnergy(module))
    assert first == as_plain(GivenEnergy(module))
    with torch.no_grad():
        next(module.parameters()).add_(1e-6)
    assert as_plain(GivenEnergy(module)) != first
    assert as_plain(GivenEnergy(nn.Linear(2, 1))) != first


def test_fingerprints_tell_tensors_apart() -> None:
    x = torch.zeros(3, 2)
    assert fingerprint(x) == fingerprint(x.clone())
    y = x.clone()
    y[2, 1] = 1e-30
    assert fingerprint(y) != fingerprint(x)


def test_numbers_and_names_stay_what_they_are() -> None:
    plain = as_plain(Gaussian((0.0, 1.0), std=0.5))
    assert plain == {"kind": "Gaussian", "mean": [0.0, 1.0], "std": 0.5}


class Wordless:
    def __init__(self, **has: Any) -> None:
        vars(self).update(has)


def test_parts_without_words_are_told_by_what_they_have() -> None:
    """Not by where they lie, which is elsewhere each time."""
    many = np.arange(2000.0)
    has = {"std": 0.5, "table": many, "of": fingerprint, "more": {"x": torch.ones(3)}}
    first = as_plain(Wordless(**has))
    assert as_plain(Wordless(**(has | {"table": many.copy()}))) == first
    assert json.loads(json.dumps(first))["kind"] == "tests.recipes.test_plain.Wordless"
    dotted = many + 1e-12 * (many == 1000)  # where words would have dots
    for change in ({"table": dotted}, {"of": as_plain}, {"more": {"x": torch.ones(2)}}):
        assert as_plain(Wordless(**(has | change))) != first


def test_a_function_that_knows_more_than_its_name_is_not_told_by_it() -> None:
    def made(scale: float) -> Any:
        return lambda x: scale * x

    one, other = made(1.0), made(2.0)
    assert as_plain(one) != as_plain(other)
    with pytest.raises(ValueError, match="where it lies in memory"):
        refuse_addresses({"recipe": as_plain(one)})
    refuse_addresses({"recipe": as_plain(fingerprint)})
