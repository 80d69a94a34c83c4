"""The same energy and the same data with other nodes: what overestimation comes from.

SRLMC's samples look like the data and score nearly like them, so training is content whatever the
density does elsewhere. Whether that is up to the nodes, or to the network or the data, shows when
only the nodes are exchanged.
"""

from copy import deepcopy
from typing import Any, cast

from torch import Tensor
from torch.optim import Adam

from ..energies import Conv
from ..negative import Importance
from ..train import TrainState, fit
from ..types import NegativePhase
from .fashion import Method, NoisyImages

UPDATES = 200
RATE = 1e-4
"""A tenth of the training's: the weights are at rest and the optimiser is new."""


def with_own_nodes(
    energy: Conv, method: Method, negative: tuple[Any, ...], images: Tensor, seed: int
) -> Conv:
    """A copy of ``energy`` trained on by its own method, from its state ``negative``."""
    return _trained_on(energy, method, method.phase, negative, images, seed)


def with_points(energy: Conv, method: Method, points: Tensor, images: Tensor, seed: int) -> Conv:
    """The same with ``points``, which stay where they are, for quadrature nodes."""
    phase = Importance(NoisyImages(points, std=0.0), nodes=method.recipe.batch_size)
    return _trained_on(energy, method, phase, None, images, seed)


def _trained_on(
    energy: Conv,
    method: Method,
    phase: NegativePhase[Any],
    negative: tuple[Any, ...] | None,
    images: Tensor,
    seed: int,
) -> Conv:
    """Averaged weights after ``UPDATES``, or after as many as the method's whole training has."""
    network = deepcopy(energy)
    state = TrainState.start(
        network,
        phase,
        Adam(network.parameters(), RATE),
        negative=deepcopy(negative),
        seed=seed,
        engine="native",
    )
    data, recipe = NoisyImages(images, method.noise), method.recipe
    for _ in fit(
        state, phase, data, batch_size=recipe.batch_size, steps=min(UPDATES, recipe.steps)
    ):
        pass
    return cast(Conv, state.average.module)
