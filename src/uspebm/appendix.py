"""Settings of the paper's appendix, for whatever is trained or timed with them."""

import math

from .domains import Box
from .energies import Gaussian
from .negative import Langevin, PersistentUSP, Replay

PLANE = Box(-2.0, 2.0, shape=(2,))
MODES = tuple((math.cos(k * math.pi / 3), math.sin(k * math.pi / 3)) for k in range(6))
"""Centres of the six-mode mixture."""
RIGHTMOST = Gaussian(MODES[0], std=0.1)
MIXTURE_SRLMC = Replay(
    Langevin(RIGHTMOST, chains=1000, steps=40, step_size=1e-3, noise_scale=1e-4),
    capacity=50_000,
    refresh=0.05,
)
"""Chains that start where the partition points do."""
MIXTURE_PS_USP = PersistentUSP(
    domain=PLANE,
    particles=5000,
    spacing=0.05,
    proposal=RIGHTMOST,
    active=1000,
    nodes=5000,
    rounds=50,
)

IMAGES = Box(-1.0, 1.0, shape=(1, 28, 28))
FASHION_SRLMC = Replay(
    # Kept in the domain: the paper does not say so, but otherwise chains leave it and energies grow
    # without end (to 1e14 within 450 updates).
    Langevin(IMAGES, chains=125, steps=20, step_size=2.0, noise_scale=0.01, domain=IMAGES),
    capacity=50_000,
    refresh=0.05,
)
FASHION_PS_USP = PersistentUSP(
    domain=IMAGES,
    particles=10_000,
    spacing=10.0,
    active=125,
    nodes=625,
    rounds=100,
    # Not given in the paper; what was found to work.
    ascent_size=1.0,
    repulsion_size=0.5,
)
