"""What tests of several modules of evaluation share."""

import numpy as np

from uspebm.evaluation.anomaly_problems import AnomalyProblem


def easy(seed: int, shape: tuple[int, ...] = (6,)) -> AnomalyProblem:
    """Anomalies eight standard deviations off in every coordinate."""
    chance = np.random.default_rng(seed)
    train, inside = (np.abs(chance.normal(20, 1, (n, *shape))) for n in (200, 60))
    return AnomalyProblem("easy", "easy", train, inside, chance.normal(28, 1, (20, *shape)))
