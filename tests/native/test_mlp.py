"""The compiled perceptrons against the modules they stand for."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from uspebm import MLP, Reconstruction
from uspebm.energies.gradient import energy_gradient
from uspebm.native import BuildError, NativeMLP, mlp
from uspebm.support.randomness import generator

KINDS: list[type[Any]] = [MLP, Reconstruction]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("vector", [32, 64])
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
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever the processor's vectors: the compiler splits those that are too long for it."""
    monkeypatch.setattr(mlp, "vector_bytes", lambda: vector)
    torch.manual_seed(0)
    module = kind(shape, **settings).double()
    native = NativeMLP(module)
    for n in (0, 1, 2, 47, 49, 200):
        x = torch.randn(n, *shape, generator=generator(n), dtype=torch.float64, requires_grad=True)
        expected = module(x)
        (gradient,) = torch.autograd.grad(expected.sum(), x)
        values, found = native.value_and_gradient(x)
        torch.testing.assert_close(values, expected.detach(), rtol=1e-10, atol=1e-13)
        torch.testing.assert_close(found, gradient, rtol=1e-9, atol=1e-13)


def test_gradients_of_the_parameters_are_the_modules() -> None:
    torch.manual_seed(0)
    module, x = MLP(2, width=16), torch.randn(9, 2, generator=generator(0))
    wanted = torch.autograd.grad(module(x).sum(), list(module.parameters()))
    found = torch.autograd.grad(NativeMLP(module)(x).sum(), list(module.parameters()))
    assert all(torch.equal(a, b) for a, b in zip(wanted, found, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_float32_is_as_good_as_autograds(kind: type[Any]) -> None:
    torch.manual_seed(0)
    module = kind(2, width=512)
    x = torch.randn(300, 2, generator=generator(0))
    exact = energy_gradient(copy.deepcopy(module).double(), x.double())

    def error(gradient: Tensor) -> float:
        return (gradient.double() - exact).norm(dim=1).median().item()

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


def watched() -> MLP:
    module = MLP(2, width=16)
    module.net[0].register_forward_hook(lambda *_: None)
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
        watched(),
    ],
    ids=[
        *("width", "inputs", "one layer", "slope", "half", "device", "wrapped", "subclass"),
        *("activation", "slopes", "bias", "layer", "hook"),
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
