"""The compiled perceptrons against the modules they stand for."""

import copy
import os
import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from uspebm import MLP, Box, Gaussian, Langevin, Reconstruction, TrainState, fit
from uspebm.energies.gradient import energy_gradient
from uspebm.native import BuildError, NativeMLP, packing
from uspebm.support.randomness import generator
from uspebm.training.engine import Engine

KINDS: list[type[Any]] = [MLP, Reconstruction]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("vector", [32, 64])
@pytest.mark.parametrize(
    ("dtype", "error"), [(torch.float64, 1e-12), (torch.float32, 1e-5)], ids=["double", "single"]
)
@pytest.mark.parametrize(
    ("shape", "settings"),
    [
        ((1,), {"width": 16}),
        ((2,), {"width": 48, "slope": 0.0}),
        ((5,), {"width": 64, "layers": 2}),
        ((2, 4, 8), {"width": 16, "layers": 6, "slope": 0.5}),
    ],
)
def test_energies_and_gradients_are_the_modules(
    kind: type[Any],
    shape: tuple[int, ...],
    settings: dict[str, Any],
    vector: int,
    dtype: torch.dtype,
    error: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever the processor's vectors: the compiler splits those that are too long for it."""
    monkeypatch.setattr(packing, "vector_bytes", lambda: vector)
    torch.manual_seed(0)
    module = kind(shape, **settings).to(dtype)
    native = NativeMLP(module)
    for n in (0, 1, 2, 47, 49, 200):
        x = torch.randn(n, *shape, generator=generator(n), dtype=dtype, requires_grad=True)
        expected = module(x)
        (gradient,) = torch.autograd.grad(expected.sum(), x)
        values, found = native.value_and_gradient(x)
        torch.testing.assert_close(values, expected.detach(), rtol=error, atol=error)
        torch.testing.assert_close(found, gradient, rtol=error, atol=error)


@pytest.mark.parametrize("kind", KINDS)
def test_an_update_is_the_same_on_either_engine(kind: type[Any]) -> None:
    box = Box(-1.0, 1.0, (2,))
    phase = Langevin(box, chains=60, steps=5, step_size=0.1, noise_scale=0.01)
    weights = []
    engines: tuple[Engine, ...] = ("torch", "native")
    for engine in engines:
        torch.manual_seed(0)
        module = kind(2, width=16).double()
        state = TrainState.start(module, phase, torch.optim.SGD(module.parameters(), 0.1))
        state.engine = engine
        for _ in fit(state, phase, Gaussian((0.2, 0.1), 0.1), batch_size=40, steps=3):
            pass
        assert state.engine == engine
        weights.append(list(module.parameters()))
    for a, b in zip(*weights, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)


def test_fewer_threads_than_asked_for_lose_no_point() -> None:
    """OpenMP may give fewer; every point must still be written."""
    code = (
        "import torch; from uspebm import MLP; from uspebm.native import NativeMLP\n"
        "from uspebm.energies.gradient import energy_gradient\n"
        "torch.set_num_threads(2); torch.manual_seed(0)\n"
        "net, x = MLP(2, width=16).double(), torch.randn(500, 2, dtype=torch.float64)\n"
        "found = NativeMLP(net).value_and_gradient(x)[1]\n"
        "torch.testing.assert_close(found, energy_gradient(net, x))"
    )
    environment = {**os.environ, "OMP_THREAD_LIMIT": "1"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


def test_another_default_device_is_of_no_account() -> None:
    module, x = MLP(2, width=16), torch.randn(9, 2, generator=generator(0))
    with torch.device("meta"):
        found = NativeMLP(module).value_and_gradient(x)[1]
    torch.testing.assert_close(found, energy_gradient(module, x))


@pytest.mark.parametrize("kind", KINDS)
def test_float32_is_as_good_as_autograds(kind: type[Any]) -> None:
    torch.manual_seed(0)
    module = kind(2, width=512)
    x = torch.randn(300, 2, generator=generator(0))
    exact = energy_gradient(copy.deepcopy(module).double(), x.double())

    def error(gradient: Tensor) -> float:
        return float((gradient.double() - exact).norm(dim=1).median())

    assert error(NativeMLP(module).value_and_gradient(x)[1]) < 2 * error(energy_gradient(module, x))


def test_slopes_are_of_the_moment_it_was_made() -> None:
    torch.manual_seed(0)
    module, x = MLP(2, width=16), torch.randn(9, 2, generator=generator(0))
    native = NativeMLP(module)
    before = native.value_and_gradient(x)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(1.1)
    assert all(torch.equal(a, b) for a, b in zip(before, native.value_and_gradient(x), strict=True))
    assert not torch.equal(before[1], NativeMLP(module).value_and_gradient(x)[1])


def test_any_number_of_threads_gives_the_same() -> None:
    torch.manual_seed(0)
    native = NativeMLP(Reconstruction(2, width=64))
    x = torch.randn(517, 2, generator=generator(0))
    threads = torch.get_num_threads()
    try:
        results = []
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            results.append(native.value_and_gradient(x)[1])
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


def test_points_in_columns_are_read_too() -> None:
    torch.manual_seed(0)
    module, x = MLP(2, width=16), torch.randn(2, 50, generator=generator(0)).T
    torch.testing.assert_close(
        NativeMLP(module).value_and_gradient(x)[1], energy_gradient(module, x)
    )


def test_nan_is_passed_on() -> None:
    x = torch.zeros(3, 2)
    x[1, 0] = float("nan")
    values, _ = NativeMLP(MLP(2, width=16)).value_and_gradient(x)
    assert values.isfinite().tolist() == [True, False, True]


class Tilted(MLP):
    """Another energy, built on the same layers."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + 0.5 * x.square().sum(1)


def changed(layer: int, by: nn.Module) -> MLP:
    module = MLP(2, width=16)
    module.net[layer] = by
    return module


def watched(how: str) -> MLP:
    module = MLP(2, width=16)
    getattr(module.net[0], f"register_{how}_hook")(lambda *_: None)
    return module


def longer(module: MLP) -> MLP:
    module.net.append(nn.LeakyReLU(0.2))
    return module


def other_outputs() -> Reconstruction:
    """Which torch would spread over the inputs."""
    module = Reconstruction(2, width=16)
    module.net[6] = nn.Linear(16, 1)
    return module


@pytest.mark.parametrize(
    "module",
    [
        MLP(2, width=20),
        MLP(65, width=16),
        MLP(2, width=16, layers=1),
        MLP(2, width=16, slope=-0.1),
        MLP(2, width=16).half(),
        MLP(2, width=16).to("meta"),
        nn.Sequential(MLP(2, width=16)),
        Tilted(2, width=16),
        changed(1, nn.SiLU()),
        changed(3, nn.LeakyReLU(0.1)),
        changed(2, nn.Linear(16, 16, bias=False)),
        changed(2, nn.Identity()),
        changed(0, nn.Linear(3, 16)),
        changed(6, nn.Linear(16, 40)),
        longer(MLP(2, width=16)),
        other_outputs(),
        watched("forward"),
        watched("full_backward"),
    ],
    ids=[
        *("width", "inputs", "one layer", "slope", "half", "device", "wrapped", "subclass"),
        *("activation", "slopes", "bias", "layer", "first", "last", "longer", "outputs"),
        *("hook", "backward hook"),
    ],
)
def test_what_it_is_not_made_for_is_refused(module: nn.Module) -> None:
    assert not NativeMLP.can_run(module)
    with pytest.raises(BuildError, match="no compiled code for"):
        NativeMLP(module)


def test_points_of_another_kind_are_refused() -> None:
    native = NativeMLP(MLP(2, width=16))
    with pytest.raises(ValueError, match=r"MLP takes points of shape \(N, 2\)"):
        native.value_and_gradient(torch.zeros(2, 3))
    with pytest.raises(ValueError, match=r"torch\.float64"):
        native.value_and_gradient(torch.zeros(2, 2, dtype=torch.float64))
