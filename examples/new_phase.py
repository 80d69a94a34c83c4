"""A negative phase of one's own, in one file: a lattice that is shifted anew for every update.

python examples/new_phase.py
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch

from uspebm import MLP, Box, Energy, GaussianMixture, Nodes, TrainState, fit, grid_density
from uspebm.evaluation.grid_density import kl
from uspebm.negative.quadrature import QuadratureInfo
from uspebm.types import Workspace


class Shifted(NamedTuple):
    """The lattice in the unit cube, ``(nodes, dim)``: what the next step needs, and no more."""

    lattice: torch.Tensor


@dataclass(frozen=True)
class ShiftedLattice:
    """Kronecker's lattice with a random shift: a Riemann sum without a grid's fixed cells."""

    domain: Box
    nodes: int

    def init(self, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Shifted:
        steps = torch.tensor([2.0, 3.0, 5.0, 7.0][: self.domain.dim]).sqrt()
        return Shifted((torch.arange(self.nodes).unsqueeze(1) * steps).frac().to(dtype))

    def step(
        self,
        energy: Energy,
        state: Shifted,
        generator: torch.Generator,
        workspace: Workspace | None = None,
    ) -> tuple[Nodes, Shifted, QuadratureInfo]:
        shift = torch.rand(self.domain.dim, generator=generator, dtype=state.lattice.dtype)
        unit = (state.lattice + shift).frac()
        x = self.domain.low + (self.domain.high - self.domain.low) * unit
        return Nodes(x, -energy(x).detach()), state, QuadratureInfo()


def main(updates: int = 400) -> float:
    """KL(p‖q) after training."""
    torch.manual_seed(0)
    law, domain = GaussianMixture(((-0.5, 0.0), (0.5, 0.0)), 0.2), Box(-2.0, 2.0, (2,))
    energy, phase = MLP(2, width=64), ShiftedLattice(domain, nodes=1000)
    state = TrainState.start(energy, phase, torch.optim.Adam(energy.parameters(), 2e-3))
    *_, last = fit(state, phase, law, batch_size=500, steps=updates)
    p, q = (grid_density(e, domain, cells=150) for e in (law, state.average.module))
    print(f"{last.summary()}  KL {kl(p, q):.3f}")
    return kl(p, q)


if __name__ == "__main__":
    main()
