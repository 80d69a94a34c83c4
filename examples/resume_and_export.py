"""A training that is stopped and goes on bit for bit, made a detector, exported to ONNX.

python examples/resume_and_export.py
"""

from itertools import islice
from pathlib import Path

import numpy as np
import torch

from uspebm import (
    MLP,
    Box,
    EnergyDetector,
    GaussianMixture,
    PersistentUSP,
    TrainState,
    checkpointed,
    fit,
    resume,
    save_model,
)
from uspebm.detector.onnx_export import to_onnx

LAW = GaussianMixture(means=((-0.6, 0.0), (0.6, 0.0)), std=0.2)
PHASE = PersistentUSP(
    domain=Box(-2.0, 2.0, (2,)), particles=300, spacing=0.2, active=60, nodes=300, rounds=10
)


def fresh() -> TrainState:
    torch.manual_seed(0)
    energy = MLP(2, width=64)
    return TrainState.start(energy, PHASE, torch.optim.Adam(energy.parameters(), 1e-3))


def main(out: Path = Path("runs/resumed"), updates: int = 100) -> np.ndarray:
    """Scores of two points."""
    whole = fresh()
    losses = [r.loss for r in fit(whole, PHASE, LAW, batch_size=250, steps=updates)]

    state = fresh()
    training = checkpointed(fit(state, PHASE, LAW, batch_size=250, steps=updates), state, out)
    first = [record.loss for record in islice(training, updates // 3)]
    training.close()  # as Ctrl-C would
    resume(state := fresh(), out)
    rest = [record.loss for record in fit(state, PHASE, LAW, batch_size=250, steps=updates)]
    assert first + rest == losses
    print(f"{len(first)} + {len(rest)} updates equal {len(losses)}, bit for bit")

    held_out = LAW.sample(300, torch.Generator().manual_seed(1)).numpy()
    detector = EnergyDetector.from_energy(state.average.module, held_out)
    save_model(detector, out / "model")
    to_onnx(detector, out / "model.onnx")
    return detector.score_samples([[0.6, 0.0], [0.0, 1.9]])


if __name__ == "__main__":
    print(main())
