"""Energy-based models of Fashion-MNIST (the paper's section 6.2), and how they are judged.

The 60,000 training images are split once: 55,000 to train on, 2,500 as in-distribution and 2,500
to make proxies of (:mod:`uspebm.proxies`). Development looks at these alone; the test images and
the OOD sets are opened by Table 1 and Fig. 5 only.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from ..appendix import IMAGES
from ..calibration import loosened, threshold
from ..checkpoint import load_snapshot, save_snapshot
from ..datasets import fashion_mnist, fashion_mnist_labels, scaled
from ..detector import EnergyDetector
from ..energies import Conv
from ..inputs import described
from ..metrics import Detection, detection
from ..modelfile import load
from ..negative import CrowdedUSP, PersistentUSP, Replay
from ..proxies import proxies
from ..randomness import generator
from ..reference import TiltedEnergy
from ..scaling import Scaling
from ..scorer import Scorer
from ..types import Energy
from .training import Recipe, Training

SNAPSHOTS = 5
"""Snapshots kept, spaced evenly over the last quarter of a run, the last one included."""


class Split(NamedTuple):
    """Scaled images, ``(N, 1, 28, 28)``, or their classes, ``(N,)``."""

    train: Tensor
    held_out: Tensor
    for_proxies: Tensor


def split() -> Split:
    """The training images, split the same way every time."""
    return _parts(scaled(fashion_mnist("train")))


def labels() -> Split:
    """The classes of the split's images, 0 to 9."""
    return _parts(fashion_mnist_labels())


def _parts(every: Tensor) -> Split:
    order = torch.randperm(len(every), generator=generator(0, "split"))
    return Split(*(part.contiguous() for part in every[order].split([55_000, 2_500, 2_500])))


@dataclass(frozen=True)
class NoisyImages:
    """Images with Gaussian noise of standard deviation ``std``, as SRLMC needs them.

    Projected on their domain, as the chains are: otherwise the energy learns to tell them apart by
    pixels blacker than black, where no chain can go.
    """

    images: Tensor
    std: float

    def sample(
        self, n: int, generator: torch.Generator, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """``n`` images, drawn with replacement."""
        chosen = self.images[torch.randint(len(self.images), (n,), generator=generator)]
        noise = torch.randn(chosen.shape, generator=generator, dtype=dtype)
        return IMAGES.project(chosen + self.std * noise)


@dataclass(frozen=True)
class Method:
    """One way to train: what stands in for the model, and how long."""

    phase: Replay | PersistentUSP | CrowdedUSP
    recipe: Recipe
    noise: float = 0.0
    """Standard deviation of the noise added to the data."""
    afresh: float = 0.0
    """Share of the particles that start where fresh ones do; the others start at images."""
    most_seeds: int | None = None
    """However many seeds are asked for, at most so many are trained: what takes long."""

    def __post_init__(self) -> None:
        if self.afresh and not isinstance(self.phase, CrowdedUSP):
            raise ValueError(f"afresh={self.afresh}: {type(self.phase).__name__} has no fresh ones")

    def seeds(self, wanted: int) -> range:
        """Those to train."""
        return range(min(wanted, self.most_seeds or wanted))

    @property
    def kind(self) -> Literal["srlmc", "ps-usp"]:
        """As the detector calls it."""
        return "srlmc" if isinstance(self.phase, Replay) else "ps-usp"


def train(name: str, method: Method, images: Tensor, folder: Path, seed: int) -> Training:
    """A trained model; snapshots of its averaged weights lie beside ``folder/name-seed``."""
    data: Any = NoisyImages(images, method.noise) if method.noise else images
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = Conv()
    training = Training(
        f"{name}-{seed}",
        network,
        method.phase,
        data,
        method.recipe,
        folder / f"{name}-{seed}",
        seed,
        negative=start(method, images, seed),
        noise=method.noise,
        afresh=method.afresh,
    )
    due = _snapshot_steps(method)

    def keep() -> None:
        if (step := training.state.step) in due:
            path = _snapshot(folder, name, seed, step)
            save_snapshot(training.state.average.module, path)

    keep()  # in case that the run was stopped between an update and this
    for _ in training:
        keep()
    return training


def start(method: Method, images: Tensor, seed: int) -> tuple[Any, ...]:
    """Particles at training images, some of them at fresh draws; a buffer of draws."""
    phase, draws = method.phase, generator(seed, "particles")
    if isinstance(phase, Replay):
        return phase.init(generator(seed, "init"))
    n = (phase.phase if isinstance(phase, CrowdedUSP) else phase).particles
    points = images[torch.randperm(len(images), generator=draws)[:n]]
    if isinstance(phase, CrowdedUSP):
        count = round(method.afresh * n)
        points = torch.cat([points[count:], phase.draw_fresh(count, draws, points.dtype)])
    return phase.start_at(points)


def _snapshot_steps(method: Method) -> list[int]:
    steps = method.recipe.steps
    return sorted({steps - k * steps // (4 * (SNAPSHOTS - 1)) for k in range(SNAPSHOTS)})


def _snapshot(folder: Path, name: str, seed: int, step: int) -> Path:
    return folder / f"{name}-{seed}-step-{step:06}.safetensors"


def snapshots(folder: Path, name: str, method: Method, seed: int) -> list[Path]:
    """Where the averaged weights of the last quarter are, in order."""
    return [_snapshot(folder, name, seed, step) for step in _snapshot_steps(method)]


def energy_of(path: Path) -> Conv:
    """The energy in a snapshot."""
    module = Conv()
    load_snapshot(module, path)
    return module


def energy_in(model: str) -> Energy:
    """The energy in a snapshot (``.safetensors``), a model's folder, or a model of the package."""
    if model.endswith(".safetensors"):
        return energy_of(Path(model))
    detector = load(model)
    if detector.event_shape_ != IMAGES.shape:
        raise ValueError(
            f"{model} is a model of {described(detector.event_shape_)}, not of Fashion-MNIST's "
            f"{described(IMAGES.shape)}"
        )

    def energy(images: Tensor) -> Tensor:
        return -torch.from_numpy(detector.score_samples(images.squeeze(1).numpy()))

    return energy


def scores(energy: Energy, images: Tensor) -> Tensor:
    """Log-densities up to a constant, ``(N,)``."""
    with torch.no_grad():
        return -torch.cat([energy(part) for part in images.split(1000)])


def against_proxies(energy: Energy, data: Split) -> dict[str, Detection]:
    """Detection of every proxy; what development may look at."""
    inside = scores(energy, data.held_out)
    return {
        name: detection(inside, scores(energy, images))
        for name, images in proxies(data.for_proxies).items()
    }


def as_detector(energy: Conv, held_out: Tensor, method: Method, seed: int) -> EnergyDetector:
    """A trained energy as a detector of bytes or of scaled images, calibrated on ``held_out``."""
    unscaled = Scaling(torch.zeros(IMAGES.shape), torch.ones(()))  # bytes are scaled on the way in
    detector = EnergyDetector(
        method.kind,
        max_updates=method.recipe.steps,
        learning_rate=method.recipe.learning_rate,
        batch_size=method.recipe.batch_size,
        random_state=seed,
    )
    detector.scorer_ = Scorer(unscaled, TiltedEnergy(energy, None)).eval()
    detector.calibration_scores_ = loosened(scores(energy, held_out).double().numpy())
    detector.offset_ = threshold(detector.calibration_scores_, 0.05)
    detector.event_shape_, detector.n_features_in_ = tuple(IMAGES.shape), 784
    detector.of_bytes_ = True
    detector.curve_ = []
    return detector
