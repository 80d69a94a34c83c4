"""Everything between a user's numbers and a score, as one module: what is saved and exported."""

import torch
from torch import Tensor, nn

from .reference import TiltedEnergy
from .scaling import Scaling

ROWS = 256
"""Points scored at a time: their distances to 2,000 centres fit a processor's cache."""
FAR = 1e100
"""Scaled coordinates end there: their squares are still numbers."""


class Scorer(nn.Module):
    """Log-densities ``(N,)``, in float64, of points in the user's own units.

    Arguments:
        scaling: To the units of the energy.
        energy: On scaled points.
        log_normaliser: log Z in the user's units; zero where nobody knows it, and then the
            log-densities are right up to a constant.
    """

    log_normaliser: Tensor

    def __init__(self, scaling: Scaling, energy: TiltedEnergy, log_normaliser: float = 0.0) -> None:
        super().__init__()
        self.scaling = scaling
        self.energy = energy
        self.register_buffer("log_normaliser", torch.tensor(log_normaliser, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        z = self.scaling(x).nan_to_num(FAR, FAR, -FAR).clamp(-FAR, FAR)
        score: Tensor = -self.energy(z).double() - self.log_normaliser
        return score

    @torch.no_grad()
    def in_parts(self, x: Tensor) -> Tensor:
        """The same, for as many points as there are."""
        # Filled in place: small results kept between large temporaries would hold the memory.
        scores = torch.empty(len(x), dtype=torch.float64)
        for begin in range(0, len(x), ROWS):
            scores[begin : begin + ROWS] = self(x[begin : begin + ROWS])
        return scores
