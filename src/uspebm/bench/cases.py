"""What is timed, at the settings of the paper's experiments."""

import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from ..appendix import FASHION_PS_USP, FASHION_SRLMC, MIXTURE_PS_USP, MODES, PLANE
from ..domains import Box
from ..energies import MLP, Conv, GaussianMixture
from ..engine import available, energy_on
from ..gradient import energy_gradient
from ..native.library import library
from ..negative import Particles, PersistentUSP, ReplayState
from ..randomness import generator
from ..types import Energy
from . import straightforward
from .timing import Timing, race

PRODUCT = 2048
"""Side of the matrices whose product is taken for the machine's peak."""
LANGEVIN = replace(FASHION_SRLMC.sampler, domain=None)
"""Not projected, which the peer would not do."""


def images(n: int, side: int = 28) -> Tensor:
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


def network() -> Conv:
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


def against_peak(repeats: int) -> dict[str, Timing]:
    """The CNN's gradient in one race with a large matrix product, the machine's peak."""
    fast, x = ours(network()), images(125)
    a, b = torch.randn(2, PRODUCT, PRODUCT, generator=generator(0)).unbind()
    return race({"cnn": lambda: energy_gradient(fast, x), "product": lambda: a @ b}, repeats)


def compilation() -> float | None:
    """Seconds that compiled code takes to build anew; none where there is no compiler."""
    with TemporaryDirectory() as folder, _environment("XDG_CACHE_HOME", folder):
        started = time.perf_counter()
        engine = available("native", network(), FASHION_PS_USP)
        return time.perf_counter() - started if engine == "native" else None


def gradients(module: nn.Module, x: Tensor, repeats: int) -> dict[str, Timing]:
    """One gradient of the energy at each of the points."""
    plain, fast = straightforward.plain_copy(module), ours(module)
    return race(
        {
            "ours": lambda: energy_gradient(fast, x),
            "plain": lambda: straightforward.gradient(plain, x),
        },
        repeats,
    )


def chains(module: nn.Module, start: Tensor, repeats: int) -> dict[str, Timing]:
    """Short-run Langevin: chains of 20 steps from ``start``."""
    plain, fast = straightforward.plain_copy(module), ours(module)
    contestants: dict[str, Callable[[], object]] = {
        "ours": lambda: LANGEVIN.run(fast, start, generator(1)),
        "plain": lambda: straightforward.langevin(plain, start, LANGEVIN, generator(1)),
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
        step_size=LANGEVIN.step_size / 2,
        noise_scale=(LANGEVIN.beta / LANGEVIN.step_size) ** 0.5,
    )
    contestants["torchebm"] = lambda: peer.sample(x=start, n_steps=LANGEVIN.steps)
    return race(contestants, repeats)


def replay(repeats: int) -> dict[str, Timing]:
    """One SRLMC update with a replay buffer of 50,000."""
    net = network()
    plain, fast = straightforward.plain_copy(net), ours(net)
    phase = replace(FASHION_SRLMC, sampler=LANGEVIN)
    mine, theirs = ReplayState(images(50_000)), images(50_000)
    return race(
        {
            "ours": lambda: phase.step(fast, mine, generator(1)),
            "straightforward": lambda: straightforward.replay(
                plain, theirs, LANGEVIN, generator(1)
            ),
        },
        repeats,
    )


@dataclass(frozen=True)
class Problem:
    """One PS-USP update: its settings, its network, and the points that it moves."""

    phase: PersistentUSP
    module: nn.Module
    points: Tensor


def fashion(
    n: int = 10_000, rounds: int = 20, active: int = 125, side: int | None = None
) -> Problem:
    """PS-USP on images: every other point is checked. Images of another side get an MLP."""
    phase = replace(
        FASHION_PS_USP, particles=n, rounds=rounds, active=active, nodes=min(n, max(625, active))
    )
    if side is None:
        return Problem(phase, network(), images(n))
    torch.manual_seed(0)
    box = Box(-1.0, 1.0, shape=(1, side, side))
    phase = replace(phase, domain=box, spacing=FASHION_PS_USP.spacing * side / 28)
    return Problem(phase, MLP(box.shape, width=128), images(n, side))


def mixture() -> Problem:
    """PS-USP on the 2-D mixture, with the paper's network, points spread as after training."""
    torch.manual_seed(0)
    points = GaussianMixture(MODES, 0.3).sample(MIXTURE_PS_USP.particles, generator(0))
    return Problem(MIXTURE_PS_USP, MLP(2), PLANE.project(points))


def updates(problems: dict[str, Problem], repeats: int, rival: bool = False) -> dict[str, Timing]:
    """Updates of each problem in turns, a new Λ each time; a rival gets the same ones."""
    contestants: dict[str, Callable[[], object]] = {}
    for name, problem in problems.items():
        contestants[name] = _update(problem)
        if rival:
            contestants["straightforward"] = _straightforward_update(problem)
    return race(contestants, repeats)


def _update(problem: Problem) -> Callable[[], object]:
    fast, state = ours(problem.module), Particles(problem.points.clone())
    draws = _generators()
    return lambda: problem.phase.step(fast, state, next(draws))


def _straightforward_update(problem: Problem) -> Callable[[], object]:
    plain, points = straightforward.plain_copy(problem.module), problem.points.clone()
    draws = _generators()
    return lambda: straightforward.ps_usp(plain, points, problem.phase, next(draws))


def _generators() -> Iterator[torch.Generator]:
    return (generator(0, "update", k) for k in itertools.count())


def peak_memory(n: int = 10_000, active: int = 125, side: int = 28) -> dict[str, float]:
    """MiB that an update needs beyond torch itself, in a process of its own (Linux)."""
    code = f"from uspebm.bench.cases import _measure_memory; _measure_memory({n}, {active}, {side})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, after = (float(word) for word in done.stdout.split())
    return {"points": n * side**2 * 4 / 2**20, "peak": after - before}


def _measure_memory(n: int, active: int, side: int) -> None:
    some = min(n, 10_000)
    problem = fashion(some, rounds=5, active=active, side=None if side == 28 else side)
    energy = ours(problem.module)
    energy_gradient(energy, problem.points[:125])
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of importing torch
    before = _resident("VmRSS") - problem.points.nbytes / 2**20
    points = problem.points
    if n > some:  # made a part at a time, so that making the points does not count
        points = torch.empty(n, *problem.phase.domain.shape)
        for k, part in enumerate(points.split(some)):
            noise = torch.randn(part.shape, generator=generator(0, "noise", k))
            part.copy_((problem.points[: len(part)] + 0.1 * noise).clamp_(-1.0, 1.0))
        before += problem.points.nbytes / 2**20
    phase, state = replace(problem.phase, particles=n), Particles(points)
    for k in range(2):
        phase.step(energy, state, generator(k))
    sys.stdout.write(f"{before} {_resident('VmHWM')}\n")


def _resident(what: str) -> float:
    """MiB of this process in memory, as Linux tells: now (VmRSS) or at most so far (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) / 1024 for line in lines if line.startswith(what))


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
