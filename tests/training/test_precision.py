"""Gradients in bfloat16: what has fewer digits, what has all of them, and where it is refused."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.phases import BOX
from uspebm import (
    MLP,
    CheckpointError,
    Conv,
    EnergyDetector,
    Importance,
    Langevin,
    PersistentUSP,
    Recipe,
    TrainState,
    fit,
    resume,
    save,
)
from uspebm.cli.making import arguments_again, place_of
from uspebm.energies.gradient import energy_at, energy_gradient
from uspebm.energies.networks import Reconstruction
from uspebm.energies.rules import MLPRule
from uspebm.recipes import Run, Schedule
from uspebm.recipes.record import read_record
from uspebm.recipes.repeat import repeated
from uspebm.recipes.tables import density_recipe
from uspebm.support.randomness import generator
from uspebm.training.precision import HalfEnergy, computing_in

POINTS = BOX.sample(64, generator(0, "data"))
PHASE = PersistentUSP(domain=BOX, particles=30, spacing=0.3, active=10, nodes=12, rounds=3)
BF16 = 2.0**-8
"""The relative rounding of a bfloat16 is at most this."""


class Spied(MLP):
    """Notes in which dtype its first layer computes, and whether a gradient is wanted."""

    def __init__(self) -> None:
        super().__init__(2, width=16)
        self.seen: set[tuple[torch.dtype, bool]] = set()
        first = next(m for m in self.modules() if isinstance(m, nn.Linear))
        first.register_forward_hook(self._note)

    def _note(self, layer: nn.Module, inputs: Any, output: Tensor) -> None:
        self.seen.add((output.dtype, torch.is_grad_enabled()))


def started(precision: Any, module: nn.Module | None = None, seed: int = 0) -> TrainState:
    torch.manual_seed(0)
    net = module or MLP(2, width=16)
    state = TrainState.start(net, PHASE, torch.optim.Adam(net.parameters(), 1e-2), seed=seed)
    state.precision = precision
    return state


def losses(state: TrainState, steps: int = 4) -> list[float]:
    return [r.loss for r in fit(state, PHASE, POINTS, batch_size=16, steps=steps)]


def test_gradients_are_in_half_and_weights_of_nodes_are_not() -> None:
    net = Spied()
    state = started("bf16", net)
    losses(state)
    assert net.seen == {(torch.bfloat16, True), (torch.float32, False)}
    # Nothing that lasts has become any shorter.
    kept = [*state.module.parameters(), *state.average.module.parameters(), *state.negative]
    kept += [v for one in state.optimizer.state.values() for v in one.values()]
    assert {x.dtype for x in kept} == {torch.float32}
    whole = Spied()
    losses(started("full", whole))
    assert whole.seen == {(torch.float32, True), (torch.float32, False)}


def test_a_gradient_is_that_of_all_digits_but_for_rounding() -> None:
    torch.manual_seed(0)
    net, x = MLP(2, width=64), POINTS
    half = HalfEnergy(net)
    assert torch.equal(energy_at(half, x), energy_at(net, x))
    with computing_in("bf16", x.device):
        exact, found = energy_gradient(net, x), energy_gradient(half, x)
    assert found.dtype == torch.float32
    off = (found - exact).norm() / exact.norm()
    # Four layers forth and four back, each rounding what it gets, gives, and its weights.
    assert 0 < off < 4 * 2 * 3 * BF16


def test_so_is_the_gradient_that_weights_follow() -> None:
    full, half = started("full"), started("bf16")
    for state in (full, half):
        losses(state, 1)
    exact, found = (
        torch.cat([p.grad.flatten() for p in state.module.parameters() if p.grad is not None])
        for state in (full, half)
    )
    assert found.dtype == torch.float32
    assert 0 < (found - exact).norm() / exact.norm() < 4 * 2 * 3 * BF16


def test_a_run_goes_on_in_its_precision(tmp_path: Path) -> None:
    state = started("bf16")
    losses(state, 2)
    save(state, tmp_path)
    again = started("bf16")
    assert resume(again, tmp_path)
    assert losses(again, 4) == losses(started("bf16"), 4)[2:]
    with pytest.raises(CheckpointError, match="was made with precision='bf16', not 'full'"):
        resume(started("full"), tmp_path)


def test_a_checkpoint_that_says_nothing_is_of_all_digits(tmp_path: Path) -> None:
    from uspebm.training import checkpoint

    state = started("full")
    content = dict(checkpoint._read(save(state, tmp_path)))
    del content["precision"]
    checkpoint._restore(state, content, tmp_path)
    with pytest.raises(CheckpointError, match="precision='full', not 'bf16'"):
        checkpoint._restore(started("bf16"), content, tmp_path)


RECIPE = Recipe("small", MLPRule(8), PHASE, Schedule(updates=4, batch_size=16))


def test_the_record_says_so_and_the_run_is_repeated(tmp_path: Path) -> None:
    run = Run(RECIPE, POINTS, tmp_path / "run", 0, show=False, device="cpu+bf16")
    list(run)
    assert read_record(tmp_path / "run").environments[-1]["device"] == "cpu+bf16"
    again = repeated(tmp_path / "run", tmp_path / "again", POINTS, show=False)
    assert (again.difference, again.changed, again.updates) == (None, [], 4)
    whole = Run(RECIPE, POINTS, None, 0, show=False)
    assert [r.loss for r in whole] != [row["loss"] for row in run.history]


def native() -> TrainState:
    state = started("bf16")
    state.engine = "native"
    return state


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (lambda: losses(started("bf16", MLP(2).double())), "for weights of float32, not torch.f"),
        (lambda: losses(started("bfloat16")), "precision='bfloat16' must be one of 'full', 'bf16'"),
        (lambda: losses(native()), "engine='native' has all digits: leave one of them out"),
        (lambda: Run(RECIPE, POINTS, None, 0, False, "cpu+fp8"), "'cpu.fp8': what may follow"),
        (lambda: Run(density_recipe(), POINTS, None, 0, False, "cpu+bf16"), "needs all digits"),
        (lambda: EnergyDetector().fit(POINTS.numpy(), device="cpu+bf16"), "tables trains nothing"),
    ],
    ids=["doubles", "misspelt", "compiled", "unknown", "held out", "untrained"],
)
def test_where_it_is_not_to_be_had_it_is_refused(work: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        work()


def test_the_command_hands_it_on_and_repeats_it() -> None:
    arguments = arguments_again({"precision": "bf16", "device": "cuda"}, Path("x"), Path("y"))
    assert place_of(arguments) == "cuda+bf16"
    assert place_of(arguments_again({"device": "cuda"}, Path("x"), Path("y"))) == "cuda"


@pytest.mark.parametrize(
    ("network", "shape"),
    [
        (MLP(3, width=16), (3,)),
        (Reconstruction(3, width=16), (3,)),
        (Conv((1, 28, 28)), (1, 28, 28)),
        (Conv((3, 128, 96), filters=(16, 16, 16, 16)), (3, 128, 96)),
    ],
    ids=["mlp", "reconstruction", "conv", "large conv"],
)
@pytest.mark.parametrize("count", [0, 1, 1000])
def test_shapes_by_the_device_that_has_nothing_else(
    network: nn.Module, shape: tuple[int, ...], count: int
) -> None:
    x = torch.empty(count, *shape, device="meta", requires_grad=True)
    energy = network.to("meta")(x)
    (gradient,) = torch.autograd.grad(energy.sum(), x)
    assert (energy.shape, gradient.shape) == ((count,), x.shape)
    assert {energy.device.type, gradient.device.type} == {"meta"}


def test_other_phases_keep_their_digits_too() -> None:
    for phase in (Importance(BOX, nodes=12), Langevin(BOX, chains=12, steps=3, step_size=0.01)):
        net = Spied()
        state = TrainState.start(net, phase, torch.optim.SGD(net.parameters(), 1e-2))
        state.precision = "bf16"
        for record in fit(state, phase, POINTS, batch_size=16, steps=2):
            assert record.nodes == 12
        assert (torch.bfloat16, False) not in net.seen
        assert (torch.bfloat16, True) in net.seen
