"""Gradients and chains against their rivals, at the settings of the paper's experiments."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from tempfile import TemporaryDirectory

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from ..energies import Conv
from ..energies.gradient import energy_gradient
from ..negative import ReplayState
from ..recipes.paper import FASHION_PS_USP, FASHION_SRLMC
from ..support.compiled import library
from ..support.randomness import generator
from ..training.engine import available, energy_on
from ..types import Energy
from . import straightforward
from .timing import Timing, race

PRODUCT = 2048
"""Side of the matrices whose product is taken for the machine's peak."""
LANGEVIN = replace(FASHION_SRLMC.sampler, domain=None)
"""Not projected, which the peer would not do."""


def synthetic_images(n: int, side: int = 28) -> Tensor:
    """Synthetic images whose distances are about those of Fashion-MNIST.

    Ten classes of smooth fields with eight ways to vary, some classes more than others. The
    nearest of 50,000 is at about 8 (Fashion-MNIST: 7.0), and half a hundredth of all pairs are
    closer than 10 (0.6 %).
    """
    draws = generator(0, "images")
    classes, ways = 10, 8
    coarse = torch.randn(classes * (ways + 1), 1, 6, 6, generator=draws)
    fields = interpolate(coarse, size=(side, side), mode="bicubic").view(classes, ways + 1, -1)
    kind = torch.randint(classes, (n,), generator=draws)
    x = torch.empty(n, side * side)
    for k, spread in enumerate(torch.linspace(0.1, 0.3, classes)):
        ways_of = torch.randn(int((kind == k).sum()), ways, generator=draws)
        x[kind == k] = 0.8 * fields[k, 0] - 0.5 + spread * (ways_of @ fields[k, 1:])
    x.mul_(2.0).tanh_()
    for part in x.split(10_000):
        part.add_(torch.randn(part.shape, generator=draws), alpha=0.2).clamp_(-1.0, 1.0)
    return x.view(n, 1, side, side)


def paper_network() -> Conv:
    """The paper's CNN, scaled so that its gradients are as long as a trained one's."""
    torch.manual_seed(0)
    net = Conv()
    last = net.net[-1]
    assert isinstance(last, nn.Linear)
    with torch.no_grad():
        last.weight.mul_(100.0)
    return net


def ours(module: nn.Module) -> Energy:
    """The module as the trainer would evaluate it for PS-USP."""
    return energy_on(available("native", module, FASHION_PS_USP), module)


def multiplications(module: nn.Module, event_shape: tuple[int, ...]) -> int:
    """Multiply-adds of one forward pass and of the backward pass to the input, for one point.

    Counted as the layers define them, whatever an implementation saves.
    """
    count = 0

    def add(layer: nn.Module, inputs: tuple[Tensor], output: Tensor) -> None:
        nonlocal count
        if isinstance(layer, nn.Conv2d):
            count += layer.weight.numel() * output[0, 0].numel()
        elif isinstance(layer, nn.Linear):
            count += layer.weight.numel()

    handles = [layer.register_forward_hook(add) for layer in module.modules()]
    with torch.no_grad():
        module(torch.zeros(1, *event_shape))
    for handle in handles:
        handle.remove()
    return 2 * count


def race_peak(repeats: int) -> dict[str, Timing]:
    """The CNN's gradient in one race with a large matrix product, the machine's peak."""
    fast, x = ours(paper_network()), synthetic_images(125)
    a, b = torch.randn(2, PRODUCT, PRODUCT, generator=generator(0)).unbind()
    return race({"cnn": lambda: energy_gradient(fast, x), "product": lambda: a @ b}, repeats)


def compilation_seconds() -> float | None:
    """Seconds that compiled code takes to build anew; none where there is no compiler."""
    with TemporaryDirectory() as folder, _environment("XDG_CACHE_HOME", folder):
        started = time.perf_counter()
        engine = available("native", paper_network(), FASHION_PS_USP)
        return time.perf_counter() - started if engine == "native" else None


def race_gradients(module: nn.Module, x: Tensor, repeats: int) -> dict[str, Timing]:
    """One gradient of the energy at each of the points."""
    plain, fast = straightforward.plain_copy(module), ours(module)
    return race(
        {
            "ours": lambda: energy_gradient(fast, x),
            "plain": lambda: straightforward.gradient(plain, x),
        },
        repeats,
    )


def race_chains(module: nn.Module, start: Tensor, steps: int, repeats: int) -> dict[str, Timing]:
    """Short-run Langevin: chains of so many ``steps`` from ``start``."""
    plain, fast = straightforward.plain_copy(module), ours(module)
    chains = replace(LANGEVIN, steps=steps)
    contestants: dict[str, Callable[[], object]] = {
        "ours": lambda: chains.run(fast, start, generator(1)),
        "plain": lambda: straightforward.langevin(plain, start, chains, generator(1)),
    }
    try:
        from torchebm.core import BaseModel
        from torchebm.samplers import LangevinDynamics
    except ImportError:
        return race(contestants, repeats)

    class Wrapped(BaseModel):
        def __init__(self) -> None:
            super().__init__()
            self.net = plain

        def forward(self, x: Tensor) -> Tensor:
            energy: Tensor = self.net(x)
            return energy

    # Its update is x - η ∇E + noise_scale sqrt(2η) z.
    peer = LangevinDynamics(
        Wrapped(),
        step_size=chains.step_size / 2,
        noise_scale=(chains.beta / chains.step_size) ** 0.5,
    )
    contestants["torchebm"] = lambda: peer.sample(x=start, n_steps=steps)
    return race(contestants, repeats)


def race_replay(capacity: int, steps: int, repeats: int) -> dict[str, Timing]:
    """One SRLMC update with a replay buffer of so many points."""
    net = paper_network()
    plain, fast = straightforward.plain_copy(net), ours(net)
    chains = replace(LANGEVIN, steps=steps)
    phase = replace(FASHION_SRLMC, sampler=chains, capacity=capacity)
    mine, theirs = ReplayState(synthetic_images(capacity)), synthetic_images(capacity)
    return race(
        {
            "ours": lambda: phase.step(fast, mine, generator(1)),
            "straightforward": lambda: straightforward.replay_chains(
                plain, theirs, chains, generator(1)
            ),
        },
        repeats,
    )


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    """The variable set to ``value`` for a while, and compiled code forgotten."""
    before = os.environ.get(name)
    os.environ[name] = value
    library.cache_clear()
    try:
        yield
    finally:
        library.cache_clear()
        del os.environ[name]
        if before is not None:
            os.environ[name] = before
