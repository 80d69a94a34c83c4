"""Everything between a user's numbers and a score, as one module: what is saved and exported."""

import torch
from torch import Tensor, nn

from ..energies.kernel import affordable
from ..energies.scaling import Scaling

SCORED = 256
"""Points scored at a time: their distances to a table's 2,000 centres fit a processor's cache."""
SCORED_NUMBERS = 500_000
"""In points scored at a time, of energies that take more of them."""
FARTHEST = 1e100
"""Scaled coordinates end there, where their squares are still numbers: beyond are outliers."""
FARTHEST_SINGLE = 1e4
"""And there, for networks of single precision: what they would say of points so far is chance."""


class Scorer(nn.Module):
    """Scores ``(N,)``, in float64, of points in the user's own units: higher is more like the data.

    Minus the energy, minus log Z in the user's units: a normalised log-density where log Z is
    known, and otherwise (log_normaliser zero) an energy score, which orders points and measures
    nothing. Where the energy is no number, the score is minus infinity: an outlier, whatever it is.

    Arguments:
        scaling: To the units of the energy.
        energy: On scaled points.
        log_normaliser: log Z in the user's units, or zero.
    """

    log_normaliser: Tensor

    def __init__(self, scaling: Scaling, energy: nn.Module, log_normaliser: float = 0.0) -> None:
        super().__init__()
        self.scaling = scaling
        self.energy = energy
        self.register_buffer("log_normaliser", torch.tensor(log_normaliser, dtype=torch.float64))
        weight = next(energy.parameters(), torch.empty(0, dtype=torch.float64))
        self._dtype: torch.dtype = getattr(energy, "takes", weight.dtype)

    def forward(self, x: Tensor) -> Tensor:
        end = FARTHEST if self._dtype == torch.float64 else FARTHEST_SINGLE
        z = self.scaling(x)
        near = z.abs() <= end  # not where it is NaN, as of infinite inputs
        if getattr(self.energy, "fills", False):
            gaps = x.isnan()
            inside = (near | gaps).all(1) & ~gaps.all(1)  # a row of gaps is no row
            z = torch.where(gaps, z, z.nan_to_num(end, end, -end)).clamp(-end, end)
        else:
            inside = near.flatten(1).all(1)
            z = z.nan_to_num(end, end, -end).clamp(-end, end)
        score: Tensor = -self.energy(z.to(self._dtype)).double() - self.log_normaliser
        if score.shape != x.shape[:1]:
            raise ValueError(
                f"the energy returned shape {tuple(score.shape)} for {len(x)} points; it must "
                f"return one number per point, shape ({len(x)},)"
            )
        # NaN equals nothing, itself least of all; and no point is infinitely like the data.
        return torch.where(inside & (score.abs() < torch.inf), score, -torch.inf)

    @torch.no_grad()
    def in_parts(self, x: Tensor) -> Tensor:
        """The same, for as many points as there are."""
        # Filled in place: small results kept between large temporaries would hold the memory.
        scores = torch.empty(len(x), dtype=torch.float64)
        size = self.together(x)
        for begin in range(0, len(x), size):
            scores[begin : begin + size] = self(x[begin : begin + size])
        return scores

    def together(self, x: Tensor) -> int:
        """How many points like these are scored together, at most."""
        at_once: int = getattr(self.energy, "at_once", SCORED)
        return affordable(at_once, x, max(SCORED * x[:1].numel(), SCORED_NUMBERS))


def calibration_scores(scorer: Scorer, x: Tensor) -> Tensor:
    """Of held-out points ``x``; an error in one line where the model has none for them."""
    try:
        scores = scorer.in_parts(x)
    except (RuntimeError, ValueError, TypeError, AttributeError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(
            f"energy={type(scorer.energy).__name__} does not fit points of shape "
            f"{tuple(x.shape[1:])}: {reason}"
        ) from error
    if bad := int((~scores.isfinite()).sum()):
        raise ValueError(
            f"the model has no finite score for {bad} of its {len(scores)} calibration points: it "
            "cannot tell what is usual; train it longer, or with other units"
        )
    return scores
