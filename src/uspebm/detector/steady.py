"""Scores of rows whose bits do not depend on which rows they come with.

A product of matrices may be rounded otherwise for one row than for a hundred, and so may a vector's
last few entries: the same row then has scores that differ in their last bits, as 1e-7 of a network
in single precision. Who scores a table in pieces, on several machines or after a failure anew,
wants the same bits. So rows are scored in groups of one size, whatever pieces they come in: the
last group of a piece is filled up with copies of its first row, which are then forgotten.

Not guaranteed: the same bits by another number of threads, on another kind of processor, by other
versions of torch, or with compiled code on one machine and none on the other.
"""

import numpy as np
import torch
from numpy.typing import NDArray

from .energy_detector import EnergyDetector


def steady_scores(detector: EnergyDetector, X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scores of rows ``(N, d)`` of numbers, as :meth:`EnergyDetector.score_samples` takes them."""
    more = -len(X) % group_size(detector)
    filled_up = np.concatenate([X, np.broadcast_to(X[:1], (more, *X.shape[1:]))])
    return detector.score_samples(filled_up)[: len(X)]


def group_size(detector: EnergyDetector) -> int:
    """Rows of a group: pieces of a multiple of them, or of very many, waste least."""
    return detector.scorer_.together(torch.empty(1, *detector.event_shape_))
