"""A planted fault is named, with when it was and what to do; a healthy log is silent."""

import math
from collections.abc import Callable

import pytest

from uspebm.report.diagnoses import Moment, diagnosed
from uspebm.training.health import PATIENCE

from .common import Row, rows

FAULTS: dict[str, Callable[[int], Row]] = {
    "Collapsed weights": lambda step: {"ess": 1.2} if 20 <= step < 50 else {},
    "Flat energies": lambda step: {"gradient_norm": 1e-9} if 20 <= step < 50 else {},
    "No crowding": lambda step: {"violating": 0.0} if 20 <= step < 50 else {},
    "Runaway energies": lambda step: {"data_energy": 5e4} if 20 <= step < 50 else {},
    "Sampling temperature far from one": lambda step: {"rho": 10.0 if 20 <= step < 50 else 1.0},
}


def found(fault: Callable[[int], Row], count: int = 100) -> list[Moment]:
    return diagnosed(rows(count, fault))


def test_a_healthy_log_is_silent() -> None:
    assert diagnosed(rows(200)) == []
    assert diagnosed([]) == []


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_named_where_it_is(name: str) -> None:
    (moment,) = found(FAULTS[name])
    assert moment.name == name
    assert (moment.first, moment.last) == (20, 49)
    assert moment.when == "updates 20 to 49"
    assert moment.what.endswith(".")
    assert moment.advice.endswith(".")
    assert moment.curve in rows(1)[0] | {"rho": 1.0}


@pytest.mark.parametrize("name", sorted(set(FAULTS) - {"Runaway energies"}))
def test_what_does_not_last_is_chance(name: str) -> None:
    """One update less than the patience is silent, and with it the fault is named."""
    fault = FAULTS[name]
    short = range(20, 20 + PATIENCE - 1)
    usual: Row = {"rho": 1.0} if name.startswith("Sampling") else {}
    assert found(lambda step: fault(step) if step in short else usual) == []
    long = range(20, 20 + PATIENCE)
    assert len(found(lambda step: fault(step) if step in long else usual)) == 1


def test_a_single_number_that_is_none_is_a_runaway() -> None:
    (moment,) = found(lambda step: {"data_energy": math.nan} if step == 100 else {})
    assert (moment.name, moment.when) == ("Runaway energies", "after update 100")


def test_gradients_that_grow_and_stay_are_named() -> None:
    grown = found(lambda step: {"gradient_norm": 500.0 if step > 70 else 1.0})
    assert [(m.name, m.first) for m in grown] == [("Growing gradients", 71)]
    assert found(lambda step: {"gradient_norm": 50.0 if step > 70 else 1.0}) == []


def test_a_blunter_temperature_is_said_to_be_one() -> None:
    (moment,) = found(lambda step: {"rho": 0.1})
    assert "blunter" in moment.what
    assert found(lambda step: {"rho": 1.2}) == []


def test_few_nodes_cannot_collapse() -> None:
    assert found(lambda step: {"nodes": 3, "ess": 1.0}) == []


def test_moments_come_in_the_order_of_time() -> None:
    both = found(lambda step: FAULTS["No crowding"](step) | ({"ess": 1.0} if step > 60 else {}))
    assert [moment.name for moment in both] == ["No crowding", "Collapsed weights"]
