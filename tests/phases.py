"""One small instance of every negative phase, for tests that hold for all of them."""

from typing import Any

from uspebm import (
    USP,
    Box,
    CrowdedUSP,
    FixedNodes,
    Gaussian,
    Importance,
    Langevin,
    NegativePhase,
    PersistentUSP,
    Replay,
    RiemannGrid,
)
from uspebm.negative import TiltImportance
from uspebm.support.randomness import generator

BOX = Box((-2.0, -1.0), (2.0, 1.5))
START = Gaussian((0.5, 0.0), 0.2)

PHASES: dict[str, NegativePhase[Any]] = {
    "langevin": Langevin(START, chains=12, steps=3, step_size=0.01),
    "short-run": Langevin(BOX, chains=12, steps=3, step_size=0.01, noise_scale=0.001, domain=BOX),
    "replay": Replay(Langevin(START, chains=12, steps=3, step_size=0.01), capacity=30),
    "uniform importance": Importance(BOX, nodes=12),
    "importance": Importance(START, nodes=12),
    "tilt": TiltImportance(START, nodes=12),
    "grid": RiemannGrid(BOX, cells=4),
    "given": FixedNodes(BOX.sample(12, generator(0, "given"))),
    "usp": USP(domain=BOX, particles=12, spacing=0.3, rounds=5),
    "ps-usp": PersistentUSP(
        domain=BOX, particles=30, spacing=0.3, active=10, nodes=12, rounds=3, proposal=START
    ),
    "ps-usp sampled": PersistentUSP(
        domain=BOX, particles=30, spacing=0.3, active=10, nodes=12, rounds=3, others=8
    ),
    "crowded": CrowdedUSP(
        phase=PersistentUSP(
            domain=BOX, particles=30, spacing=0.3, active=10, nodes=12, rounds=3, proposal=START
        ),
        restarts=1.5,
    ),
    "ps-usp by rounds": PersistentUSP(
        domain=BOX,
        particles=30,
        spacing=0.3,
        active=10,
        nodes=12,
        rounds=3,
        proposal=START,
        redraw="round",
        choice="uniform",
        repulsion="plain",
    ),
    "ps-usp alternating": PersistentUSP(
        domain=BOX, particles=30, spacing=0.3, active=10, nodes=12, ascent_steps=2, rounds=2
    ),
}
