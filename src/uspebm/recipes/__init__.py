"""What a training is, as a value: the paper's, ours for images, ours for tables; and ``train``.

May know: evaluation, training and all below. Knows no detector and no data set.
"""

from .recipe import AtData, Recipe, Schedule
from .run import Run, train

__all__ = ["AtData", "Recipe", "Run", "Schedule", "train"]
