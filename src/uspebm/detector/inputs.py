"""A user's arrays as points of a detector: checked once, the same way for fitting and scoring."""

import math
import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from ..data.encoding import (
    EncodedColumn,
    Encoding,
    cells_of_frame,
    is_mixed_frame,
    learn_encoding,
    odd_columns,
)
from ..data.points import as_bytes, as_floats, described, points
from ..energies.neighbour import NeighbourRule
from .scorer import Scorer

FILLING = ("auto", "tables")
"""Names of recipes whose energies fill gaps."""


class InputMixin:
    """What a detector takes for points: tables by scikit-learn's rules, images by ours."""

    recipe: Any
    scorer_: Scorer
    event_shape_: tuple[int, ...]
    of_bytes_: bool
    resized_: bool
    n_features_in_: int
    feature_names_in_: NDArray[Any]
    encoding_: Encoding | None

    def as_points(self, X: ArrayLike) -> Tensor:
        """What ``score_samples`` scores: ``X`` checked, as points ``(N, *event)``."""
        return self._points(X, reset=False)

    def table_columns(self) -> tuple[tuple[str, ...] | None, Encoding | None]:
        """Columns that it takes of a file, in order, and how; None of those without names."""
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            return None, None
        if self.encoding_ is not None:
            return self.encoding_.used, self.encoding_
        columns = tuple(map(str, names))
        if not getattr(self.scorer_.energy, "fills", False):
            return columns, None
        return columns, Encoding.of_numbers(columns)

    def _points(self, X: ArrayLike, *, reset: bool, fewest: int = 2) -> Tensor:
        if not reset:
            check_is_fitted(self)
        if isinstance(X, Tensor):
            X = X.detach().cpu().numpy()
        X = _of_pandas(X)
        needed = fewest if reset else 1
        # Few rows may look as if a column counted them: once fitted, it is known which does.
        if is_mixed_frame(X) if reset else self.encoding_ is not None:
            return self._encoded(X, reset, needed)
        _refuse_words(X)
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
            array = validate_data(
                self,
                X,
                reset=reset,
                dtype=np.float64,
                ensure_min_samples=needed,
                ensure_all_finite="allow-nan",
            )
            self._refuse_gaps(array, reset)
        x = points(array)
        event = tuple(x.shape[1:])
        if reset:
            self._set_event(event, len(event) == 3 and array.dtype == np.uint8)
        elif event != self.event_shape_:
            raise ValueError(
                f"X has points of {described(event)}, but this detector was fitted to points of "
                f"{described(self.event_shape_)}"
            )
        return x

    def _encoded(self, X: Any, reset: bool, needed: int) -> Tensor:
        """Rows of a table with text, dates and so on, as numbers."""
        if reset:
            cells = cells_of_frame(X)
            encoding: Encoding = learn_encoding(cells)
            _tell_left_out([c for c in encoding.columns if cells[c.name].dtype == object])
            table = check_array(
                encoding.encode(cells), ensure_min_samples=needed, ensure_all_finite="allow-nan"
            )
            self._refuse_gaps(table, reset, encoding.columns_of)
            self._set_event((table.shape[1],), of_bytes=False)
            self.set_encoding(encoding)
            return points(table)
        assert self.encoding_ is not None
        encoding = self.encoding_
        if hasattr(X, "columns") and hasattr(X, "iloc"):
            names, used = [str(name) for name in X.columns], set(encoding.used)
            if missing := used.difference(names):
                first = next(name for name in encoding.used if name in missing)
                raise ValueError(f"X has no column {first!r}, which this detector needs")
            # By their places: names may be numbers, or of several levels.
            places = [k for k, name in enumerate(names) if name in used]
            X = encoding.encode(cells_of_frame(X.iloc[:, places]))
        table = check_array(X, dtype=np.float64, ensure_all_finite="allow-nan")
        if table.shape[1:] != self.event_shape_:
            raise ValueError(
                f"X has {table.shape[1]} numbers in a row; this detector takes DataFrames with "
                f"columns {', '.join(map(repr, encoding.used))}, or their {self.event_shape_[0]} "
                "numbers"
            )
        self._refuse_gaps(table, reset)
        return points(table)

    def set_encoding(self, encoding: Encoding | None) -> None:
        """How columns of the user's became the numbers that it was fitted to."""
        self.encoding_ = encoding
        if encoding is not None:
            self.feature_names_in_ = np.array([c.name for c in encoding.columns], dtype=object)
            self.n_features_in_ = len(encoding.columns)

    def columns(self) -> Encoding:
        """What the user's columns are, and which numbers are theirs; numbered where unnamed."""
        if self.encoding_ is not None:
            return self.encoding_
        numbered = [f"column {k + 1}" for k in range(self.event_shape_[0])]
        names = getattr(self, "feature_names_in_", numbered)
        return Encoding.of_numbers(map(str, names))

    def _refuse_gaps(self, table: NDArray[np.float64], reset: bool, names: Any = None) -> None:
        """Where they cannot be filled: of a row nothing but gaps, or a model that knows none.

        ``names`` of the columns that numbers come from, where they are not the user's.
        """
        gaps = np.isnan(table)
        if not gaps.any():
            return
        if reset and gaps.all(1).any():
            raise ValueError(f"row {int(gaps.all(1).argmax()) + 1} of X has no value at all")
        if reset and gaps.all(0).any():
            k = int(gaps.all(0).argmax())
            names = getattr(self, "feature_names_in_", range(1, k + 2)) if names is None else names
            raise ValueError(f"column {names[k]!r} of X has no value at all: leave it out")
        if not self._takes_gaps(reset):
            raise ValueError(
                f"X contains NaN in {int(gaps.any(1).sum())} rows, and this detector takes no "
                "gaps: fill them, leave such rows out, or fit recipe 'tables'"
            )

    def _takes_gaps(self, reset: bool) -> bool:
        """Whether NaN may stand for a value that is missing."""
        if reset:
            return _fills(self.recipe)
        return bool(getattr(self.scorer_.energy, "fills", False))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.allow_nan = _fills(self.recipe)
        return tags

    def _set_event(self, event_shape: tuple[int, ...], of_bytes: bool) -> None:
        self.event_shape_ = event_shape
        self.of_bytes_ = of_bytes
        self.resized_ = False  # unless who read the images says so
        self.n_features_in_ = math.prod(event_shape)
        self.encoding_ = None


def _fills(recipe: Any) -> bool:
    """Whether its energies fill gaps: by its name, or, as a model folder keeps it, by its rule."""
    return recipe in FILLING or isinstance(getattr(recipe, "energy", None), NeighbourRule)


def _of_pandas(X: Any) -> Any:
    """Tables of pyarrow's, or polars', as a DataFrame of pandas'; anything else as it is."""
    if not hasattr(X, "to_pandas") or not hasattr(X, "columns") or hasattr(X, "iloc"):
        return X
    try:
        return X.to_pandas()
    except ImportError:  # numbers can do without pandas
        return X


def _refuse_words(X: Any) -> None:
    """Of DataFrames, columns that hold no numbers, where nothing is known but numbers."""
    if not (odd := odd_columns(X)):
        return
    for name, cells in cells_of_frame(X.iloc[:, odd]).items():
        held = (
            cells[[cell is not None for cell in cells]] if cells.dtype.kind in "OM" else cells[:0]
        )
        if len(held):
            raise ValueError(
                f"column {name!r} of X holds {str(held[0])!r}, but this detector was fitted on "
                "numbers: put numbers in it, or fit a DataFrame that has such a column"
            )


def _tell_left_out(columns: list[EncodedColumn]) -> None:
    """A warning that names those columns of text that are not learned from."""
    if said := [f"{c.name!r} ({c.note})" for c in columns if c.kind == "left out"]:
        warnings.warn(
            f"text of X that hardly repeats is left out: {', '.join(said)}; drop such columns, or "
            "group what they say",
            stacklevel=5,  # where fit was called
        )
