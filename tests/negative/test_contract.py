"""What every negative phase promises, whatever it does inside."""

import dataclasses
import io
import json
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.phases import BOX, PHASES
from uspebm import MLP, FixedNodes, NegativePhase, NonFiniteError, RiemannGrid
from uspebm.recipes.plain import as_plain
from uspebm.support.randomness import generator

pytestmark = pytest.mark.parametrize("phase", PHASES.values(), ids=PHASES.keys())
Phase = NegativePhase[Any]


def energy(dtype: torch.dtype = torch.float32) -> MLP:
    torch.manual_seed(0)
    return MLP(2, width=16).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_shapes_and_dtypes(phase: Phase, dtype: torch.dtype) -> None:
    state = phase.init(generator(0), dtype)
    nodes, state, info = phase.step(energy(dtype), state, generator(1))
    assert nodes.x.shape[1:] == BOX.shape
    assert nodes.log_weight.shape == nodes.x.shape[:1]
    for tensor in (*nodes, *state):
        assert tensor.dtype == dtype
    assert all(isinstance(value, int | float) for value in info)


def test_devices_come_with_the_generator(phase: Phase) -> None:
    """With another default device, whatever is made without naming one lands there and fails."""
    net = energy()
    with torch.device("meta"):
        nodes, state, _ = phase.step(net, phase.init(generator(0, device="cpu")), generator(1))
    assert all(tensor.device.type == "cpu" for tensor in (*nodes, *state))


def test_the_seed_decides_everything(phase: Phase) -> None:
    net = energy()

    def run(seed: int, global_seed: int) -> list[Tensor]:
        torch.manual_seed(global_seed)  # the global generator has no say
        state = phase.init(generator(seed, "init"))
        for k in range(3):
            nodes, state, _ = phase.step(net, state, generator(seed, k))
        return [*nodes, *state]

    def same(a: list[Tensor], b: list[Tensor]) -> bool:
        return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))

    assert same(run(0, global_seed=1), run(0, global_seed=2))
    assert same(run(0, global_seed=1), run(1, global_seed=1)) == isinstance(
        phase, RiemannGrid | FixedNodes
    )


def test_no_graph_is_kept(phase: Phase) -> None:
    nodes, state, _ = phase.step(energy(), phase.init(generator(0)), generator(1))
    assert not any(tensor.requires_grad for tensor in (*nodes, *state))


def test_the_energy_is_left_alone(phase: Phase) -> None:
    net = energy()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    phase.step(net, phase.init(generator(0)), generator(1))
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())
    assert all(p.grad is None for p in net.parameters())


def test_state_survives_save_and_load(phase: Phase) -> None:
    state = phase.init(generator(0))
    _, state, _ = phase.step(energy(), state, generator(1))
    file = io.BytesIO()
    torch.save(state._asdict(), file)
    file.seek(0)
    restored = type(state)(**torch.load(file, weights_only=True))
    a, *_ = phase.step(energy(), state, generator(2))
    b, *_ = phase.step(energy(), restored, generator(2))
    assert all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def test_settings_compare_print_and_go_to_json(phase: Phase) -> None:
    assert dataclasses.replace(phase) == phase  # type: ignore[type-var]
    assert type(phase).__name__ in repr(phase)
    json.dumps(as_plain(phase))
    with pytest.raises(dataclasses.FrozenInstanceError):
        phase.domain = None  # type: ignore[misc]


def test_a_bad_energy_is_named_and_the_state_stays_good(phase: Phase) -> None:
    def fresh() -> Any:
        return phase.init(generator(0))

    state = fresh()
    with pytest.raises(NonFiniteError, match="energies are not finite"):
        phase.step(lambda x: x[:, 0] * float("nan"), state, generator(1))
    with pytest.raises(ValueError, match="must return one number per point"):
        phase.step(lambda x: x, state, generator(1))
    assert all(torch.equal(a, b) for a, b in zip(state, fresh(), strict=True))
