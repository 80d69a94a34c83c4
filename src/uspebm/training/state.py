"""All that training changes, and what it says of each update."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import nn
from torch.optim import LBFGS, Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from ..support.randomness import generator
from ..types import NegativePhase, NonFiniteError
from .engine import Engine
from .precision import Precision


@dataclass
class TrainState:
    """All that training changes, and so all that a checkpoint holds. Make one with ``start``.

    >>> import torch
    >>> from uspebm import MLP, Box, Importance
    >>> energy, phase = MLP(2, width=16), Importance(Box(-1.0, 1.0, (2,)), nodes=100)
    >>> state = TrainState.start(energy, phase, torch.optim.Adam(energy.parameters(), 1e-3))
    >>> state.clip_norm = 1.0  # settings may change between updates
    >>> x = torch.zeros(1, 2)
    >>> bool(state.average.module(x) == energy(x))  # before the first, the average is the weights
    True
    """

    module: nn.Module
    """The energy with its raw weights: what the optimiser and the particles follow."""
    average: AveragedModel
    """An exponential average of those weights: what scores. ``average.module`` is the energy."""
    optimizer: Optimizer
    """Of the module's weights."""
    scheduler: LRScheduler | None
    """Of its learning rate, after every update."""
    negative: tuple[Any, ...]
    """State of the negative phase."""
    seed: int
    """Of every draw, with what it is for and the step."""
    step: int = field(default=0, init=False)
    """Updates made so far."""
    engine: Engine | None = field(default=None, init=False)
    """Whether torch or compiled code moves the particles; ``fit`` chooses where it is left open:
    compiled code where there is some and the run is long enough to be worth it."""
    precision: Precision = field(default="full", init=False)
    """In how many digits gradients of the energy are computed (:mod:`.precision`)."""
    clip_norm: float | None = field(default=None, init=False)
    """Bound on the norm of the parameters' gradient."""
    whole: bool = field(default=True, init=False)
    """False in the midst of an update: particles have moved, weights have not. Not to be saved."""

    @classmethod
    def start(
        cls,
        module: nn.Module,
        phase: NegativePhase[Any],
        optimizer: Optimizer,
        *,
        scheduler: LRScheduler | None = None,
        average_decay: float = 0.99,
        seed: int = 0,
    ) -> "TrainState":
        """The state before the first update.

        Points are of the dtype and on the device of the module's weights, and start where
        ``phase.init`` puts them; set ``state.negative = phase.start_at(images)`` for another
        start. ``average_decay`` is the share of the old average that an update keeps: the last
        100 updates or so by default.
        """
        if not 0.0 <= average_decay < 1.0:
            raise ValueError(f"average_decay={average_decay} must be in [0, 1)")
        if isinstance(optimizer, LBFGS):
            raise ValueError(
                "optimizer=LBFGS evaluates its loss many times per update; this loss is random"
            )
        if isinstance(scheduler, ReduceLROnPlateau):
            raise ValueError(
                "scheduler=ReduceLROnPlateau follows the loss, which is no likelihood here; "
                "choose one that follows the step"
            )
        own = {id(p) for p in module.parameters()}
        if not own:
            raise ValueError(f"module={type(module).__name__} has no parameters to train")
        if any(id(p) not in own for group in optimizer.param_groups for p in group["params"]):
            raise ValueError("the optimizer holds parameters that are not the module's")
        weight = next(module.parameters())
        return cls(
            module=module,
            average=AveragedModel(module, multi_avg_fn=get_ema_multi_avg_fn(average_decay)),
            optimizer=optimizer,
            scheduler=scheduler,
            negative=phase.init(generator(seed, "init", device=weight.device), weight.dtype),
            seed=seed,
        )

    def learned(self) -> dict[str, Any]:
        """All but the negative phase's state: what an optimiser step changes."""
        return {
            "step": self.step,
            "module": self.module.state_dict(),
            "average": self.average.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": None if self.scheduler is None else self.scheduler.state_dict(),
        }

    def restore(self, learned: dict[str, Any]) -> None:
        """Put back what ``learned`` returned."""
        self.module.load_state_dict(learned["module"])
        self.average.load_state_dict(learned["average"])
        self.optimizer.load_state_dict(learned["optimizer"])
        if self.scheduler is not None:
            self.scheduler.load_state_dict(learned["scheduler"])
        self.step = learned["step"]


@dataclass(frozen=True)
class Record:
    """One update, in numbers.

    >>> class Chains(NamedTuple):
    ...     rho: float
    >>> numbers = {"data_term": 0.5, "gradient_norm": 2.0, "ess": 7.8, "nodes": 10, "seconds": 0.1}
    >>> numbers |= {"data_energy": 0.5, "node_energy": 0.2, "step": 1, "loss": 0.3}
    >>> record = Record(**numbers, engine="torch", info=Chains(rho=10.0))
    >>> record.summary(), record.row()["rho"]
    ('loss +0.300  nodes 8 effective  ρ 10', 10.0)
    """

    step: int
    """Updates made, this one included."""
    loss: float
    """``data_term`` minus ``node_energy``: no likelihood."""
    data_term: float
    """What the objective makes of the data's energies; their mean for maximum likelihood."""
    gradient_norm: float
    """Norm of the parameters' gradient, before clipping."""
    ess: float
    """Effective number of nodes."""
    nodes: int
    """Number of nodes."""
    data_energy: float
    """Mean over the batch."""
    node_energy: float
    """Weighted mean over the nodes; it equals ``data_energy`` where the model is at rest."""
    seconds: float
    """Time that this update took."""
    engine: Engine
    """What evaluated the energy for the particles."""
    info: NamedTuple
    """What the negative phase says of itself."""

    def row(self) -> dict[str, float | str]:
        """Flat, for a line of a log."""
        flat = {k: v for k, v in vars(self).items() if k != "info"}
        return flat | self.info._asdict()

    def summary(self) -> str:
        """The numbers that matter while training, for a line on a screen."""
        text = f"loss {self.loss:+.3f}  nodes {self.ess:.0f} effective"
        info = self.info._asdict()
        if "violating" in info:
            text += f"  violating {info['violating']:.0%}"
        if "rho" in info:
            text += f"  ρ {info['rho']:g}"
        return text


class DivergedError(NonFiniteError):
    """Training ran away, as far as to a number that is none. ``state`` is the last finite one.

    >>> import torch
    >>> from uspebm import MLP, Box, DivergedError, Gaussian, Importance, fit
    >>> law, phase, net = Gaussian((0.0,), 0.1), Importance(Box(-1.0, 1.0, (1,)), 50), MLP(1, 8)
    >>> state = TrainState.start(net, phase, torch.optim.SGD(net.parameters(), 1e9))
    >>> try:
    ...     for record in fit(state, phase, law, batch_size=50, steps=20):
    ...         pass
    ... except DivergedError as error:
    ...     print(error.state is state, all(p.isfinite().all() for p in net.parameters()))
    True True
    """

    def __init__(self, message: str, state: TrainState) -> None:
        super().__init__(message)
        self.state = state
