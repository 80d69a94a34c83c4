"""Training of a detector: from points in scaled units to an energy, without a setting to choose.

The held-out log-likelihood can be measured, since log Z = log E_r[exp(−f)] is a mean over draws
from the reference r. It says when to stop and which weights to keep; the reference alone, where
training begins, is among them.
"""

import copy
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import Adam

from .domains import Box
from .energies import MLP, Conv
from .gradient import energy_at
from .negative import CrowdedUSP, Importance, Langevin, PersistentUSP, Replay
from .objective import effective_sample_size
from .progress import shown
from .randomness import generator
from .reference import KernelReference, TiltedEnergy, distances_to_others, log_mean_exp
from .train import DivergedError, Record, TrainState, fit
from .types import NegativePhase

Method = Literal["importance", "ps-usp", "srlmc"]
EVERY = 50
"""Updates between looks at the held-out points."""
STOPPING = 0.1
"""Share of what is not calibration that decides when to stop."""
FEWEST = 50
"""Training points below which a network would learn nothing but them."""
DRAWS = 4096
"""From the reference, for log Z."""
ROWS = 1024
"""Points in a network at a time: bounds the memory."""
TRUSTED = 0.05
"""Share of the draws that must be effective for log Z to be believed."""


@dataclass(frozen=True)
class Recipe:
    """As the arguments of :class:`~uspebm.EnergyDetector`."""

    method: Method
    max_updates: int
    patience: int
    learning_rate: float
    batch_size: int


class Split(NamedTuple):
    """The data's three parts, none used for another's purpose."""

    train: Tensor
    stopping: Tensor
    calibration: Tensor


class Look(NamedTuple):
    """One look at the held-out points."""

    update: int
    log_likelihood: float


Curve = list[Look]


def split(x: Tensor, calibration: float, seed: int) -> Split:
    """At random; at least one point to train and one to calibrate, of few points none to stop."""
    order = torch.randperm(len(x), generator=generator(seed, "split"))
    kept = min(max(1, round(calibration * len(x))), len(x) - 1)
    stopping = round(STOPPING * (len(x) - kept))
    parts = order.split([len(x) - kept - stopping, stopping, kept])
    return Split(*(x[part] for part in parts))


def network_for(event_shape: tuple[int, ...], seed: int) -> nn.Module:
    """An MLP for tables and small images, a CNN for others, with an output of zero to begin with.

    So training begins at the reference.
    """
    poolings = int(math.log2(min(event_shape[1:], default=1))) - 1  # two pixels are left, or more
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(generator(seed, "network").initial_seed())
        network: nn.Module
        if len(event_shape) == 3 and poolings >= 2:
            network = Conv(event_shape, filters=(32, 64, 128)[:poolings])
        else:
            network = MLP(event_shape, width=128, layers=3)
    last = [m for m in network.modules() if isinstance(m, nn.Linear)][-1]
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    return network


def check_network(network: nn.Module, x: Tensor) -> None:
    """Refuse a network that does not map points like ``x`` to one number each."""
    try:
        with torch.no_grad():
            energy_at(copy.deepcopy(network).eval(), x[:2])
    except (RuntimeError, ValueError, TypeError, AttributeError, ArithmeticError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(
            f"network={type(network).__name__} does not fit points of shape {tuple(x.shape[1:])}: "
            f"{reason}"
        ) from error
    if not any(parameter.requires_grad for parameter in network.parameters()):
        raise ValueError(f"network={type(network).__name__} has no parameters to train")


def learn(energy: TiltedEnergy, data: Split, recipe: Recipe, seed: int, verbose: bool) -> Curve:
    """Train ``energy`` in place, and leave the weights that were best on held-out points.

    With fewer than :data:`FEWEST` training points, the reference stays as it is.
    """
    assert energy.reference is not None
    look = _held_out(energy.reference, data.stopping, seed)
    curve = [Look(0, look(None))]
    best, weights = curve[0], copy.deepcopy(energy.network.state_dict())
    if recipe.max_updates and len(data.train) >= FEWEST:
        state, records = _updates(energy, data.train, recipe, seed)

        def figures(record: Record) -> str:
            last = curve[-1].log_likelihood
            return f"held-out log-likelihood {last:.3f}, best {best.log_likelihood:.3f}"

        if verbose:
            records = shown(records, recipe.max_updates, recipe.method, figures)
        try:
            with closing(records):  # type: ignore[type-var]
                for record in records:
                    if record.step % EVERY and record.step < recipe.max_updates:
                        continue
                    average = state.average.module.eval()
                    network = average.network if isinstance(average, TiltedEnergy) else average
                    curve.append(Look(record.step, look(network)))
                    if curve[-1].log_likelihood > best.log_likelihood:
                        best, weights = curve[-1], copy.deepcopy(network.state_dict())
                    if record.step - best.update >= recipe.patience * EVERY:
                        break
        except DivergedError as error:
            warnings.warn(
                f"training ended early, with what was best at update {best.update}: {error}",
                stacklevel=3,
            )
    energy.network.load_state_dict(weights)
    energy.strength.fill_(float(best.update > 0))
    return curve


def _updates(
    energy: TiltedEnergy, train: Tensor, recipe: Recipe, seed: int
) -> tuple[TrainState, Iterator[Record]]:
    assert energy.reference is not None
    phase, negative = _phase(recipe.method, energy.reference, train, seed)
    # Relative to the reference, the tilt is all of the energy.
    module: nn.Module = energy.network if recipe.method == "importance" else energy
    state = TrainState.start(
        module.train(),
        phase,
        Adam(energy.network.parameters(), lr=recipe.learning_rate),
        negative=negative,
        average_decay=0.98,
        seed=seed,
        engine="torch",
    )
    return state, fit(
        state,
        phase,
        _smoothed(train, energy.reference, generator(seed, "smoothing", "train")),
        batch_size=min(recipe.batch_size, len(train)),
        steps=recipe.max_updates,
    )


def _held_out(
    reference: KernelReference, points: Tensor, seed: int
) -> Callable[[nn.Module | None], float]:
    """The mean log-density of ``points`` under the reference, tilted by a network if there is one.

    Minus infinity where hardly a draw counts: nobody knows log Z there. NaN without points.
    """
    draws = reference.sample(DRAWS, generator(seed, "stopping")).split(ROWS)
    points = _smoothed(points, reference, generator(seed, "smoothing", "stopping"))
    plain = torch.cat([reference.log_prob(part) for part in points.split(ROWS)]).mean().item()

    @torch.no_grad()
    def look(network: nn.Module | None) -> float:
        if network is None:
            return plain
        log_weight = -torch.cat([network(part) for part in draws]).double()
        tilt = torch.cat([network(part) for part in points.split(ROWS)]).double()
        if not effective_sample_size(log_weight) >= TRUSTED * DRAWS:
            return -math.inf
        return plain - tilt.mean().item() - log_mean_exp(log_weight)

    return look


def _smoothed(x: Tensor, reference: KernelReference, draws: torch.Generator) -> Tensor:
    """Images with noise of the reference's own bandwidth; tables as they are.

    Pixels are whole numbers, many of them equal in all images: no density is sharp enough for them,
    and weights of draws that have noise in them collapse within a few updates.
    """
    if x.dim() == 2:
        return x
    noise = torch.randn(x.shape, generator=draws, dtype=x.dtype)
    return x + reference.bandwidth.to(x.dtype) * noise


def _phase(
    method: Method, reference: KernelReference, train: Tensor, seed: int
) -> tuple[NegativePhase[Any], tuple[Any, ...] | None]:
    """What stands for the model, in units of the reference's bandwidth."""
    if method == "importance":
        return Importance(reference, nodes=1000), None
    width = reference.bandwidth.item()
    low, high = train.min().item(), train.max().item()
    margin = 0.25 * (high - low) + 3 * width
    domain = Box(low - margin, high + margin, tuple(train.shape[1:]))
    if method == "srlmc":
        chains = Langevin(reference, chains=250, steps=40, step_size=0.2 * width**2, domain=domain)
        return Replay(chains, capacity=10_000), None
    n = min(max(2 * len(train), 200), 5000)
    nearest = distances_to_others(train[:ROWS], train).min(1).values
    spacing = (
        nearest[nearest < math.inf].mean().sqrt().item() if nearest.isfinite().any() else width
    )
    phase = CrowdedUSP(
        phase=PersistentUSP(
            domain=domain,
            particles=n,
            spacing=spacing,
            active=min(200, n),
            nodes=min(1000, n),
            rounds=10,
            ascent_size=0.1 * width**2,
            repulsion_size=0.1 * spacing,
        )
    )
    return phase, phase.start_at(reference.sample(n, generator(seed, "particles"), train.dtype))
