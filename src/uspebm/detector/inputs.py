"""A user's arrays as points of a detector: checked once, the same way for fitting and scoring."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data
from torch import Tensor

from ..data.points import as_bytes, as_floats, described, points


class InputMixin:
    """What a detector takes for points: tables by scikit-learn's rules, images by ours."""

    event_shape_: tuple[int, ...]
    of_bytes_: bool
    resized_: bool
    n_features_in_: int
    feature_names_in_: NDArray[Any]

    def _points(self, X: ArrayLike, *, reset: bool, fewest: int = 2) -> Tensor:
        if isinstance(X, Tensor):
            X = X.detach().cpu().numpy()
        needed = fewest if reset else 1
        if np.asarray(X).ndim > 2:
            array = check_array(X, allow_nd=True, ensure_min_samples=needed, input_name="X")
            if not reset:
                array = as_bytes(array) if self.of_bytes_ else as_floats(array)
        elif not reset and len(self.event_shape_) == 3:
            raise ValueError(
                f"X has shape {np.shape(X)}, but this detector was fitted to images of "
                f"{described(self.event_shape_)}: give them as (N, height, width), one as X[None]"
            )
        else:
            array = validate_data(self, X, reset=reset, dtype=np.float64, ensure_min_samples=needed)
        x = points(array)
        event = tuple(x.shape[1:])
        if reset:
            if len(event) == 3 and hasattr(self, "feature_names_in_"):
                del self.feature_names_in_  # of a table that it was fitted to before
            self._set_event(event, len(event) == 3 and array.dtype == np.uint8)
        elif event != self.event_shape_:
            raise ValueError(
                f"X has points of {described(event)}, but this detector was fitted to points of "
                f"{described(self.event_shape_)}"
            )
        return x

    def _set_event(self, event_shape: tuple[int, ...], of_bytes: bool) -> None:
        self.event_shape_ = event_shape
        self.of_bytes_ = of_bytes
        self.resized_ = False  # unless who read the images says so
        self.n_features_in_ = math.prod(event_shape)
