"""The compiled energy against the module it stands for."""

import copy
import os
import subprocess
import sys

import pytest
import torch
from torch import Tensor, nn

from uspebm import MLP, Conv
from uspebm.energies.gradient import energy_gradient
from uspebm.native import BuildError, NativeConv, packing
from uspebm.native.reals import vector_bytes
from uspebm.support.randomness import generator

SHAPES = [
    ((1, 28, 28), (32, 64, 128), 128),
    ((3, 32, 32), (16, 32, 48), 64),
    ((1, 9, 13), (16, 16, 32), 16),  # pooling drops a row or column in every block
    ((2, 31, 15), (32, 16, 16), 32),
    ((1, 8, 8), (16, 16, 16), 16),
]


# The processor's own vectors, and two shapes with others, which the compiler takes long to split.
VECTORS = [
    (*case, vector)
    for vector in (32, 64)
    for case in (SHAPES if vector == vector_bytes() else SHAPES[1:3])
]


@pytest.mark.parametrize(("shape", "filters", "width", "vector"), VECTORS)
def test_energies_and_gradients_are_the_modules(
    shape: tuple[int, ...],
    filters: tuple[int, ...],
    width: int,
    vector: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever the processor's vectors: the compiler splits those that are too long for it."""
    monkeypatch.setattr(packing, "vector_bytes", lambda: vector)
    torch.manual_seed(0)
    module = Conv(shape, filters=filters, width=width).double()
    native = NativeConv(module)
    for n in (0, 1, 2, 5, 9, 33):
        x = torch.randn(n, *shape, generator=generator(n), dtype=torch.float64, requires_grad=True)
        expected = module(x)
        (gradient,) = torch.autograd.grad(expected.sum(), x)
        values, found = native.value_and_gradient(x)
        torch.testing.assert_close(values, expected.detach(), rtol=1e-10, atol=1e-14)
        torch.testing.assert_close(found, gradient, rtol=1e-9, atol=1e-15)
        torch.testing.assert_close(native(x).detach(), values)


@pytest.mark.parametrize(("shape", "filters", "width"), SHAPES)
@pytest.mark.parametrize("threads", [1, 2])
def test_gradients_of_the_parameters_are_the_modules(
    shape: tuple[int, ...], filters: tuple[int, ...], width: int, threads: int
) -> None:
    torch.manual_seed(0)
    module = Conv(shape, filters=filters, width=width).double()
    parameters = list(module.parameters())
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for n in (0, 1, 2, 5, 9, 33):
            x = torch.randn(n, *shape, generator=generator(n), dtype=torch.float64).requires_grad_()
            weight = torch.randn(n, generator=generator(n, "weight"), dtype=torch.float64)
            wanted = torch.autograd.grad(weight @ module(x), [x, *parameters])
            found = torch.autograd.grad(weight @ NativeConv(module)(x), [x, *parameters])
            for a, b in zip(wanted, found, strict=True):
                torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-13)
            again = torch.autograd.grad(weight @ NativeConv(module)(x), parameters)
            for a, b in zip(found[1:], again, strict=True):
                assert torch.equal(a, b)  # to the last digit, or resuming would not be exact
    finally:
        torch.set_num_threads(before)


def test_fewer_threads_than_asked_for_lose_no_image() -> None:
    """OpenMP may give fewer; every image must still count."""
    code = (
        "import torch; from uspebm import Conv; from uspebm.native import NativeConv\n"
        "torch.set_num_threads(2); torch.manual_seed(0)\n"
        "net = Conv((1, 8, 8), filters=(16, 16, 16), width=16).double()\n"
        "x = torch.randn(20, 1, 8, 8, dtype=torch.float64)\n"
        "a = torch.autograd.grad(net(x).sum(), list(net.parameters()))\n"
        "b = torch.autograd.grad(NativeConv(net)(x).sum(), list(net.parameters()))\n"
        "[torch.testing.assert_close(p, q) for p, q in zip(a, b)]"
    )
    environment = {**os.environ, "OMP_THREAD_LIMIT": "1"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


def test_another_default_device_is_of_no_account() -> None:
    torch.manual_seed(0)
    module = Conv((1, 8, 8), filters=(16, 16, 16), width=16)
    x = torch.randn(3, 1, 8, 8, generator=generator(0))
    with torch.device("meta"):
        found = NativeConv(module).value_and_gradient(x)[1]
        weights = torch.autograd.grad(NativeConv(module)(x).sum(), list(module.parameters()))
    torch.testing.assert_close(found, energy_gradient(module, x))
    wanted = torch.autograd.grad(module(x).sum(), list(module.parameters()))
    for a, b in zip(wanted, weights, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_without_autograd_energies_have_no_graph() -> None:
    module = Conv((1, 8, 8), filters=(16, 16, 16), width=16)
    native = NativeConv(module)
    assert native(torch.zeros(2, 1, 8, 8)).requires_grad
    with torch.no_grad():
        assert not native(torch.zeros(2, 1, 8, 8)).requires_grad


def test_float32_is_as_good_as_autograds() -> None:
    torch.manual_seed(0)
    module = Conv()
    x = torch.rand(64, 1, 28, 28, generator=generator(0)) * 2 - 1
    exact = energy_gradient(copy.deepcopy(module).double(), x.double())

    def error(gradient: Tensor) -> Tensor:
        distance: Tensor = (gradient.double() - exact).flatten(1).norm(dim=1)
        return distance

    ours, autograds = (
        error(NativeConv(module).value_and_gradient(x)[1]),
        error(energy_gradient(module, x)),
    )
    assert ours.median() < 2 * autograds.median()


def test_weights_are_those_of_the_moment_it_was_made() -> None:
    torch.manual_seed(0)
    module = Conv((1, 8, 8), filters=(16, 16, 16), width=16)
    x = torch.randn(3, 1, 8, 8, generator=generator(0))
    before = NativeConv(module)
    values = before(x).clone()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(1.1)
    assert torch.equal(before(x), values)
    torch.testing.assert_close(NativeConv(module)(x), module(x).detach())


def test_any_number_of_threads_gives_the_same() -> None:
    torch.manual_seed(0)
    native = NativeConv(Conv())
    x = torch.randn(37, 1, 28, 28, generator=generator(0))
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


def test_nan_is_passed_on() -> None:
    native = NativeConv(Conv((1, 8, 8), filters=(16, 16, 16), width=16))
    x = torch.zeros(3, 1, 8, 8)
    x[1, 0, 4, 4] = float("nan")
    assert native(x).isfinite().tolist() == [True, False, True]


class Tilted(Conv):
    """Another energy, built on the same layers."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + 0.5 * x.flatten(1).square().sum(1)


def changed(layer: int, by: nn.Module) -> Conv:
    module = Conv()
    module.net[layer] = by
    return module


@pytest.mark.parametrize(
    "module",
    [
        MLP(2),
        Conv(filters=(32, 64)),
        Conv(filters=(20, 64, 128)),
        Conv().half(),
        nn.Sequential(Conv()),
        Tilted(),
        changed(1, nn.SiLU()),
        changed(4, nn.LeakyReLU(0.1)),
        changed(3, nn.Conv2d(32, 64, 3, padding=1, padding_mode="reflect")),
        changed(3, nn.Conv2d(32, 64, 3, padding=2, dilation=2)),
        changed(3, nn.Conv2d(32, 64, 5, padding=2)),
        changed(3, nn.Conv2d(32, 64, 3, padding=1, bias=False)),
        changed(2, nn.AvgPool2d(3, stride=2, padding=1)),
    ],
    ids=[
        *("mlp", "blocks", "filters", "half", "wrapped", "subclass", "activation", "slopes"),
        *("padding", "dilation", "kernel", "bias", "pooling"),
    ],
)
def test_what_it_is_not_made_for_is_refused(module: nn.Module) -> None:
    assert not NativeConv.can_run(module)
    with pytest.raises(BuildError, match="no compiled code for"):
        NativeConv(module)


def test_points_of_another_kind_are_refused() -> None:
    native = NativeConv(Conv())
    with pytest.raises(ValueError, match=r"Conv takes points of shape \(N, 1, 28, 28\)"):
        native(torch.zeros(2, 3, 28, 28))
    with pytest.raises(ValueError, match=r"torch\.float64"):
        native(torch.zeros(2, 1, 28, 28, dtype=torch.float64))
