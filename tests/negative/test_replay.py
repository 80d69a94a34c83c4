import pytest
import torch

from uspebm import Box, Gaussian, Langevin, NonFiniteError, Replay
from uspebm.negative import ReplayState
from uspebm.support.randomness import generator

FAR = Box(4.0, 5.0, (1,))
SAMPLER = Langevin(FAR, chains=50, steps=1, step_size=1e-6, noise_scale=1e-6)
ENERGY = Gaussian((0.0,), 1.0)


def marked_buffer() -> torch.Tensor:
    return -torch.arange(1.0, 201.0).unsqueeze(1)


def test_ends_go_back_to_the_slots_they_came_from() -> None:
    before = marked_buffer()
    phase = Replay(SAMPLER, capacity=200, refresh=0.0)
    nodes, state, _ = phase.step(ENERGY, ReplayState(before.clone()), generator(0))
    changed = (state.buffer != before).flatten().nonzero().flatten()
    assert len(changed) == 50
    # The chains hardly move, so each end is recognisable as the slot's own.
    torch.testing.assert_close(state.buffer, before, atol=0.01, rtol=0)
    torch.testing.assert_close(state.buffer[changed].sort(0).values, nodes.x.sort(0).values)


def test_the_refresh_rate_is_the_share_restarted_at_the_proposal() -> None:
    phase = Replay(SAMPLER, capacity=200, refresh=0.2)
    restarted = 0
    for k in range(100):
        nodes, *_ = phase.step(ENERGY, ReplayState(marked_buffer()), generator(k))
        restarted += int((nodes.x > 0).sum())
    # Binomial(5000, 0.2): six standard deviations.
    assert abs(restarted - 1000) < 6 * (5000 * 0.2 * 0.8) ** 0.5


def test_every_slot_is_used_in_time() -> None:
    phase = Replay(SAMPLER, capacity=200, refresh=1.0)
    state = ReplayState(marked_buffer())
    for k in range(40):  # a slot is missed with probability (3/4)^40
        _, state, _ = phase.step(ENERGY, state, generator(k))
    assert (state.buffer > 0).all()


def test_a_failing_energy_leaves_the_buffer_as_it_was() -> None:
    state = ReplayState(marked_buffer())
    with pytest.raises(NonFiniteError):
        Replay(SAMPLER, 200).step(lambda x: x[:, 0] * float("nan"), state, generator(0))
    assert torch.equal(state.buffer, marked_buffer())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"capacity": 20}, "capacity=20 must be at least chains=50"),
        ({"capacity": 200, "refresh": 1.5}, "refresh=1.5"),
    ],
)
def test_bad_settings_are_refused(arguments: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Replay(SAMPLER, **arguments)  # type: ignore[arg-type]
