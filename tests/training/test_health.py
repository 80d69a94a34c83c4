"""What goes wrong in silence is said, once, when it has lasted; what is well is not."""

from typing import NamedTuple

import pytest
import torch

from uspebm import MLP, USP, Box, Record, TrainState, fit
from uspebm.report.diagnoses import diagnosed
from uspebm.training.health import FLAT, PATIENCE, Health


class Info(NamedTuple):
    violating: float


class Nothing(NamedTuple):
    pass


def record(
    step: int, ess: float = 50.0, norm: float = 1.0, violating: float | None = 0.4, nodes: int = 100
) -> Record:
    info = Nothing() if violating is None else Info(violating)
    return Record(
        step=step, loss=0.0, data_term=0.0, gradient_norm=norm, ess=ess, nodes=nodes,
        data_energy=0.0, node_energy=0.0, seconds=0.1, engine="torch", info=info,
    )  # fmt: skip


def said(*records: Record) -> list[str]:
    health = Health()
    return [text for one in records for text in health.look(one)]


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        ({"ess": 1.2}, "collapsed to 1.2 effective nodes"),
        ({"violating": 0.0}, "no point violates the spacing"),
        ({"norm": FLAT / 2}, "the energy is flat"),
    ],
)
def test_a_trouble_that_lasts_is_said_once(trouble: dict[str, float], words: str) -> None:
    (text,) = said(*(record(k, **trouble) for k in range(1, 100)))  # type: ignore[arg-type]
    assert words in text
    assert text.startswith(f"update {PATIENCE}:")
    assert "take" in text
    assert not said(*(record(k, **trouble) for k in range(1, PATIENCE)))  # type: ignore[arg-type]


def test_an_update_that_is_well_begins_the_count_anew() -> None:
    bad = [record(k, violating=0.0) for k in range(PATIENCE - 1)]
    assert not said(*bad, record(20), *bad)
    assert said(*bad, record(20), *bad, record(99, violating=0.0))


def test_what_is_well_or_has_no_such_number_is_not_said() -> None:
    assert not said(*(record(k) for k in range(50)))
    assert not said(*(record(k, violating=None) for k in range(50)))
    assert not said(*(record(k, ess=1.0, nodes=1) for k in range(50)))  # one node is all there is


def test_points_that_settled_are_not_taken_for_points_without_work() -> None:
    """USP goes on until no point violates the spacing: that is its aim, not a fault."""
    box = Box(0.0, 1.0, (2,))
    net, phase = MLP(2, 8), USP(domain=box, particles=4, spacing=0.05, rounds=200)
    state = TrainState.start(net, phase, torch.optim.SGD(net.parameters(), 1e-3))
    data = box.sample(20, torch.Generator())
    records = list(fit(state, phase, data, batch_size=10, steps=PATIENCE))  # warnings are errors
    assert records[-1].row()["unsettled"] == 0.0
    assert diagnosed([one.row() for one in records]) == []
