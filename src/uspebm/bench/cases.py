"""What is timed, at the settings of the paper's experiments."""

import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from ..domains import Box
from ..energies import MLP, Conv, GaussianMixture
from ..engine import Engine, available, energy_on
from ..gradient import energy_gradient
from ..native import NativeConv
from ..negative import Langevin, Particles, PersistentUSP, Replay, ReplayState
from ..randomness import generator
from ..types import Energy
from . import straightforward
from .timing import Timing, race

IMAGES = Box(-1.0, 1.0, shape=(1, 28, 28))
SQUARE = Box(-2.0, 2.0, shape=(2,))
MODES = tuple((math.cos(k * math.pi / 3), math.sin(k * math.pi / 3)) for k in range(6))
FASHION = PersistentUSP(
    domain=IMAGES,
    particles=10_000,
    spacing=10.0,
    active=125,
    nodes=625,
    rounds=100,
    ascent_size=1.0,
    repulsion_size=0.5,
)
MIXTURE = PersistentUSP(
    domain=SQUARE, particles=5_000, spacing=0.05, active=1_000, nodes=5_000, rounds=50
)
SRLMC = Langevin(IMAGES, chains=125, steps=20, step_size=2.0, noise_scale=0.01)


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
    """The module as the trainer would evaluate it."""
    engine: Engine = "native" if NativeConv.can_run(module) else "torch"
    return energy_on(available(engine, module), module)


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


def peak_flops(repeats: int) -> float:
    """Floating-point operations per second of a large matrix product."""
    a, b = torch.randn(2, 2048, 2048, generator=generator(0)).unbind()
    return 2 * 2048**3 / race({"mm": lambda: a @ b}, repeats)["mm"].median


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
        "ours": lambda: SRLMC.run(fast, start, generator(1)),
        "plain": lambda: straightforward.langevin(plain, start, SRLMC, generator(1)),
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
        Wrapped(), step_size=SRLMC.step_size / 2, noise_scale=(SRLMC.beta / SRLMC.step_size) ** 0.5
    )
    contestants["torchebm"] = lambda: peer.sample(x=start, n_steps=SRLMC.steps)
    return race(contestants, repeats)


def replay(repeats: int) -> dict[str, Timing]:
    """One SRLMC update with a replay buffer of 50,000."""
    net = network()
    plain, fast = straightforward.plain_copy(net), ours(net)
    phase = Replay(SRLMC, capacity=50_000, refresh=0.05)
    mine, theirs = ReplayState(images(50_000)), images(50_000)
    return race(
        {
            "ours": lambda: phase.step(fast, mine, generator(1)),
            "straightforward": lambda: straightforward.replay(plain, theirs, SRLMC, generator(1)),
        },
        repeats,
    )


def updates(
    phase: PersistentUSP, module: nn.Module, points: Tensor, repeats: int, rival: bool = True
) -> dict[str, Timing]:
    """One PS-USP update, a new Λ each time, the same for both."""
    plain, fast = straightforward.plain_copy(module), ours(module)
    mine, count = Particles(points.clone()), {"ours": 0, "straightforward": 0}

    def draws(who: str) -> torch.Generator:
        count[who] += 1
        return generator(0, "update", count[who])

    contestants: dict[str, Callable[[], object]] = {
        "ours": lambda: phase.step(fast, mine, draws("ours"))
    }
    if rival:
        theirs = points.clone()
        contestants["straightforward"] = lambda: straightforward.ps_usp(
            plain, theirs, phase, draws("straightforward")
        )
    return race(contestants, repeats)


def fashion(n: int, rounds: int, repeats: int, rival: bool = True) -> dict[str, Timing]:
    """PS-USP on images: every other point is checked."""
    phase = replace(FASHION, particles=n, rounds=rounds, nodes=min(n, FASHION.nodes))
    return updates(phase, network(), images(n), repeats, rival)


def mixture(repeats: int) -> dict[str, Timing]:
    """PS-USP on the 2-D mixture, with the paper's network, points spread as after training."""
    torch.manual_seed(0)
    points = GaussianMixture(MODES, 0.3).sample(MIXTURE.particles, generator(0))
    return updates(MIXTURE, MLP(2), SQUARE.project(points), repeats)


def growth_in_active(active: int, repeats: int) -> Timing:
    """Against |Λ|, at n = 10,000 and 20 rounds."""
    phase = replace(FASHION, active=active, rounds=20, nodes=max(625, active))
    return updates(phase, network(), images(10_000), repeats, rival=False)["ours"]


def growth_in_dimension(side: int, repeats: int) -> Timing:
    """Against the number of pixels, for an MLP of width 128, at n = 10,000 and 20 rounds."""
    torch.manual_seed(0)
    phase = replace(
        FASHION,
        domain=Box(-1.0, 1.0, shape=(1, side, side)),
        rounds=20,
        spacing=FASHION.spacing * side / 28,
    )
    net = MLP((1, side, side), width=128)
    return updates(phase, net, images(10_000, side), repeats, rival=False)["ours"]


def peak_memory(n: int) -> dict[str, float]:
    """MiB that an update at ``n`` needs beyond torch itself, in a process of its own (Linux)."""
    code = f"from uspebm.bench.cases import _measure_memory; _measure_memory({n})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, after = (float(word) for word in done.stdout.split())
    return {"points": n * IMAGES.dim * 4 / 2**20, "peak": after - before}


def _measure_memory(n: int) -> None:
    energy = ours(network())
    energy_gradient(energy, images(125))
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of importing torch
    before = _resident("VmRSS")
    phase = replace(FASHION, particles=n, rounds=5, nodes=625)
    # Made a part at a time, so that making the points does not count.
    state = Particles(torch.empty(n, *IMAGES.shape))
    some = images(10_000)
    for k, part in enumerate(state.points.split(len(some))):
        noise = torch.randn(part.shape, generator=generator(0, "noise", k))
        part.copy_((some[: len(part)] + 0.1 * noise).clamp_(-1.0, 1.0))
    for k in range(2):
        phase.step(energy, state, generator(k))
    sys.stdout.write(f"{before} {_resident('VmHWM')}\n")


def _resident(what: str) -> float:
    """MiB of this process in memory, as Linux tells: now (VmRSS) or at most so far (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(float(line.split()[1]) / 1024 for line in lines if line.startswith(what))
