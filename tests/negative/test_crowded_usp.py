"""A spacing that follows the crowd, and points that start afresh."""

from dataclasses import replace

import pytest
import torch

from uspebm import Box, CrowdedUSP, Gaussian, PersistentUSP
from uspebm.negative import whole
from uspebm.neighbours.sketch import Sketch, sketch_of
from uspebm.support.randomness import generator
from uspebm.types import Workspace

BOX = Box(-2.0, 2.0, (2,))
BOWL = Gaussian((0.0, 0.0), 0.3)
PHASE = CrowdedUSP(
    phase=PersistentUSP(
        domain=BOX, particles=200, spacing=0.02, proposal=BOWL, active=50, nodes=50, rounds=5
    ),
    rate=0.1,
)


def flat(x: torch.Tensor) -> torch.Tensor:
    return 0.0 * x.sum(1)


@pytest.mark.parametrize("share", [0.3, 0.7])
@pytest.mark.parametrize("first", [0.05, 0.6])
def test_the_wanted_share_violates_whatever_the_first_spacing(share: float, first: float) -> None:
    phase = replace(PHASE, violating=share, phase=replace(PHASE.phase, spacing=first))
    state = phase.init(generator(0))
    shares = []
    for k in range(200):
        _, state, info = phase.step(flat, state, generator(0, k))
        shares.append(info.violating)
    # Over the last 100 updates log ε moves by rate · Σ (share − v): if ε has settled to within a
    # factor of e, their mean is within 1 / (0.1 · 100) of the wanted one.
    assert abs(sum(shares[100:]) / 100 - share) < 0.1


def test_without_adapting_the_share_is_another() -> None:
    phase = PHASE.phase
    state = phase.init(generator(0))
    for k in range(50):
        _, state, info = phase.step(flat, state, generator(0, k))
    assert info.violating < 0.1


def test_at_a_rate_of_zero_the_spacing_stays() -> None:
    phase = replace(PHASE, rate=0.0)
    state = phase.init(generator(0))
    for k in range(3):
        _, state, info = phase.step(flat, state, generator(0, k))
    assert state.spacing.item() == info.spacing == torch.tensor(PHASE.phase.spacing).item()


def test_restarts_reach_what_points_at_the_data_do_not() -> None:
    """A flat energy, points in a corner: only fresh points get far away."""

    def far(restarts: float) -> float:
        phase = replace(
            PHASE,
            restarts=restarts,
            phase=replace(PHASE.phase, proposal=Gaussian((-1.5, -1.5), 0.05)),
        )
        state = phase.init(generator(0))
        for k in range(40):
            _, state, _ = phase.step(flat, state, generator(0, k))
        return (state.points > 0).any(1).double().mean().item()

    assert far(0.0) == 0.0
    # 100 restarts, three quarters of them above zero in some coordinate, some restarted again.
    assert 0.2 < far(2.5) < 0.5


def test_points_are_sketched_only_for_a_search_among_all(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    sketch = sketch_of

    def counted(points: torch.Tensor, workspace: Workspace) -> Sketch:
        asked.append(len(points))
        return sketch(points, workspace)

    monkeypatch.setattr(whole, "sketch_of", counted)
    for others, times in ((None, 2), (100, 0)):  # after moves, and after restarts
        asked.clear()
        phase = replace(PHASE, restarts=3, phase=replace(PHASE.phase, others=others))
        phase.step(flat, phase.init(generator(0)), generator(0))
        assert len(asked) == times


def test_a_fraction_is_a_chance() -> None:
    phase = replace(PHASE, restarts=0.25, fresh=Gaussian((1.9, 1.9), 1e-3))
    state = phase.init(generator(0))
    moved = 0
    for k in range(200):
        before = state.points.clone()
        phase._restart(state.points, generator(0, k), Workspace())
        moved += int((state.points != before).any(1).sum())
    # Binomial(200, 1/4): 50 ± 6.1.
    assert 26 <= moved <= 74


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"violating": 1.0}, "violating=1.0 must lie between 0 and 1"),
        ({"rate": -0.1}, "rate=-0.1 must be a number, not below 0"),
        ({"restarts": 300.0}, "restarts=300.0 must lie between 0 and particles=200"),
    ],
)
def test_bad_settings_are_refused(change: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(PHASE, **change)  # type: ignore[arg-type]
