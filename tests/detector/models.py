"""Detectors of every kind that a folder can hold, fitted once."""

import copy
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import torch

from tests.detector.common import Own, OwnTilt, own_recipe, with_centres
from uspebm import MLP, Box, EnergyDetector, Importance, Recipe
from uspebm.energies.kernel import TiltedEnergy
from uspebm.energies.rules import MLPRule, ReconstructionRule
from uspebm.recipes import Schedule

NUMBERS = np.random.default_rng(0)
TABLE = NUMBERS.normal(size=(120, 3)) * [1.0, 1e6, 1e-6]
SCALED = TABLE / TABLE.std(0)
BYTES = NUMBERS.integers(0, 256, (80, 8, 8), dtype=np.uint8)
COLOUR = NUMBERS.integers(0, 256, (80, 8, 8, 3), dtype=np.uint8)
FRAME = pd.DataFrame(TABLE, columns=["α", "b, c", "d|e"])


def _tilted_by(network: torch.nn.Module) -> Recipe:
    usual = with_centres(5)
    return Recipe("mine", OwnTilt(network), usual.phase, usual.schedule)


def _alone(energy: Any) -> Recipe:
    return Recipe("alone", energy, Importance(Box(-9.0, 9.0, (3,)), nodes=20), Schedule(1, 10))


torch.manual_seed(0)
CASES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "table": (TABLE, with_centres(30), {"calibration": np.float64(0.3), "max_updates": 50}),
    "data frame": (FRAME, with_centres(30), {"max_updates": np.int64(50)}),
    "neighbours": (TABLE, "auto", {}),
    "reference alone": (TABLE, "tables-density", {"max_updates": 0, "false_alarm_rate": 0.1}),
    "chains": (TABLE, "tables-srlmc", {"max_updates": 1, "verbose": False}),
    "bytes": (BYTES, "auto", {}),
    "colour": (COLOUR, "auto", {}),
    "float images": (BYTES / 255, "pixels", {}),
    "images": (BYTES, "images", {"max_updates": 1}),
    "MLP": (SCALED, _alone(MLPRule(8, 2, 0.1)), {}),
    "reconstruction": (SCALED, _alone(ReconstructionRule(8, 2)), {}),
    "own energy": (
        SCALED,
        own_recipe(Own(), updates=1),
        {"random_state": np.random.RandomState(0)},
    ),
    "own tilt": (SCALED, _tilted_by(Own()), {"max_updates": 1}),
    "own rule": (SCALED, _tilted_by(MLP(3, 8, layers=2)), {"max_updates": 1}),
}
OWN_ENERGIES = {"own energy", "own tilt"}
"""Of these, a folder holds the weights alone."""
OWN_RECIPES = OWN_ENERGIES | {"own rule"}


@cache
def fresh(case: str) -> EnergyDetector:
    """As ``fit`` leaves it."""
    points, recipe, settings = CASES[case]
    return EnergyDetector(recipe, **{"random_state": 0} | settings).fit(points)


@cache
def made(case: str) -> EnergyDetector:
    """With numbers of its own wherever there are any: none is a default, or what a fit finds."""
    detector = copy.deepcopy(fresh(case))
    draws = torch.Generator().manual_seed(0)
    energy = detector.scorer_.energy
    changed: list[torch.Tensor] = [*energy.parameters(), detector.scorer_.log_normaliser]
    changed += [energy.strength] if isinstance(energy, TiltedEnergy) else []
    with torch.no_grad():
        for value in changed:
            value += 0.1 * torch.randn(value.shape, generator=draws).to(value.dtype)
    detector.dropped_columns_ = ("id", "größe")
    detector.resized_ = True
    return detector
