"""A 2-D density with every point started in one of its modes: PS-USP finds the others.

python examples/density_from_one_mode.py
"""

import torch

from uspebm import (
    MLP,
    Box,
    Gaussian,
    GaussianMixture,
    PersistentUSP,
    TrainState,
    fit,
    grid_density,
)
from uspebm.evaluation.grid_density import kl, mass_by_nearest

MODES = ((-0.7, 0.0), (0.7, 0.0), (0.0, 0.9))


def main(updates: int = 400) -> float:
    """KL(p‖q) after training."""
    law = GaussianMixture(means=MODES, std=0.15)
    domain = Box(-2.0, 2.0, shape=(2,))
    phase = PersistentUSP(
        domain=domain,
        particles=800,
        spacing=0.12,
        active=200,
        nodes=800,
        proposal=Gaussian(MODES[0], 0.05),  # everything starts here
    )
    torch.manual_seed(0)
    energy = MLP(2, width=64)
    state = TrainState.start(energy, phase, torch.optim.Adam(energy.parameters(), 2e-3))
    for record in fit(state, phase, law, batch_size=500, steps=updates):
        if record.step % 100 == 0:
            print(record.step, record.summary())

    # In two dimensions a grid normalises both, and nothing is left to be guessed.
    p, q = (grid_density(e, domain, cells=150) for e in (law, state.average.module))
    masses = mass_by_nearest(q, torch.tensor(MODES))
    print(f"KL {kl(p, q):.3f}; masses", *(f"{mass:.3f}" for mass in masses), "(each 0.333)")
    return kl(p, q)


if __name__ == "__main__":
    main()
