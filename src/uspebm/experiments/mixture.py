"""The six-mode mixture in the plane (the paper's section 6.1), and how a model of it is judged."""

from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from ..domains import Box
from ..energies import GaussianMixture
from ..evaluation.grid_density import (
    GridDensity,
    grid_density,
    kl,
    mass_by_nearest,
    ood_share,
    region,
)
from ..recipes.frames import density_frame, read_frames, write_frame
from ..recipes.paper import MODES, PLANE
from ..report.run_page import TRUTH
from ..support.plots import Extent
from ..types import Energy

MIXTURE = GaussianMixture(MODES, std=0.1)
PLANE_CELLS = 200
"""Grid cells per axis: a fifth of the modes' width, so that sums over the grid are exact."""


class MixtureFit(NamedTuple):
    """How well a model has learned the mixture."""

    kl: float
    mode_mass: list[float]
    ood_share: float
    seconds: float


def true_mixture() -> GridDensity:
    """The mixture on the grid."""
    return grid_density(MIXTURE, PLANE, PLANE_CELLS)


def save_truth(out: Path) -> None:
    """The mixture's density, for reports on runs below ``out``."""
    write_frame(density_frame(MIXTURE, PLANE), out / TRUTH)


def plane_extent() -> Extent:
    """The plane's edges, for pictures of it."""
    far = torch.full((1, 2), torch.inf)
    (left, bottom), (right, top) = PLANE.project(torch.cat([-far, far])).tolist()
    return left, right, bottom, top


def mixture_fit(energy: Energy, seconds: float) -> tuple[GridDensity, MixtureFit]:
    """The model's density on the grid, and how it compares with the truth."""
    p, q = true_mixture(), grid_density(energy, PLANE, PLANE_CELLS)
    masses = mass_by_nearest(q, torch.tensor(MODES))
    return q, MixtureFit(kl(p, q), masses, ood_share(p, q), seconds)


def kl_over_updates(run: Path) -> dict[int, float]:
    """KL(p‖q) after each update of which ``run`` keeps a frame, both normalised over the plane.

    A frame's cells are half as wide as a mode, at which sums over smooth densities are exact to
    three digits; a frame that shows more than the plane cuts cells at its edge.
    """
    found = {}
    for frame in read_frames(run / "frames"):
        low, high = (tuple(corner) for corner in frame.box.tolist())
        x = Box(low, high, shape=(2,)).grid(len(frame.log_q), torch.float64)
        inside = PLANE.contains(x)
        log_q = torch.from_numpy(frame.log_q).double().flatten()[inside].log_softmax(0)
        log_p = (-MIXTURE(x[inside])).log_softmax(0)
        found[frame.step] = (log_p.exp() * (log_p - log_q)).sum().item()
    return found


def denser_than_rightmost(q: GridDensity) -> float:
    """Share of the OOD region where q exceeds its peak over the rightmost mode."""
    p = true_mixture()
    right = (q.x - torch.tensor(MODES[0])).norm(dim=1) < 0.2
    outside = ~region(p, 0.999)
    return (q.log_q[outside] > q.log_q[right].max()).double().mean().item()


def evenness(points: Tensor, spacing: float) -> dict[str, float]:
    """How evenly the points lie, and whether they cover the support of p.

    ``unevenness`` is the range from the 10 % to the 90 % quantile of nearest distances, over their
    median; for points thrown at random in the plane it is 1.43.
    """
    support = true_mixture().x[region(true_mixture(), 0.99)]
    between = torch.cdist(points, points).fill_diagonal_(torch.inf).min(1).values
    to_support = torch.cdist(support, points).min(1).values
    inside = torch.cdist(points, support).min(1).values < 4.0 / 200
    return {
        "nearest_over_spacing": (between.median() / spacing).item(),
        "unevenness": ((between.quantile(0.9) - between.quantile(0.1)) / between.median()).item(),
        "violating": (between < 0.99 * spacing).double().mean().item(),
        "covering_radius_over_spacing": (to_support.max() / spacing).item(),
        "share_in_support": inside.double().mean().item(),
    }
