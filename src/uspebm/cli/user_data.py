"""Data of the user's for a model: opened, looked at, scored in bounded memory.

Imports what is heavy: for functions that run, not for flags.
"""

import math
import warnings
from argparse import Namespace
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.encoding import Hints
from ..data.points import described, points
from ..data.readers import FolderRules, ImageFolder, Source, drawn_at, is_table, open_source
from ..data.readers.images import COLOUR, DEEP, GREY, ImageForm
from ..data.readers.source import at_a_time
from ..detector.energy_detector import EnergyDetector
from ..detector.fitting import MOST_FOLDED, USUAL_SHARE
from ..detector.steady import group_size, steady_scores
from ..support.progress import counted
from ..support.words import point_word, said_count
from .output import warn

ROWS_AT_A_TIME = 4096
"""Rows read and scored at a time, at most: between larger ones, allocators may keep ten times what
is used."""
LARGEST = 1e150
KIND_OF_MODEL = {(1, True): GREY, (3, True): COLOUR, (1, False): DEEP}
"""What images are that a model takes, by its channels and whether it is of bytes."""
NAMED_FILES = 10
"""Of those skipped."""
RISING = 20
"""Rows from which on a column that rises or falls in all of them is no chance."""


def hints_of(arguments: Namespace) -> Hints | None:
    """What is said of columns; None where rows have to be numbers."""
    said = {"categorical": arguments.categorical, "numeric": arguments.numeric, "id": arguments.id}
    takes_all = arguments.recipe in ("auto", "tables") and is_table(arguments.data)
    for flag, columns in said.items():
        if columns and not takes_all:
            raise ValueError(
                f"--{flag} {columns[0]} is for tables with named columns, and recipe tables"
            )
    if not takes_all:
        return None
    return Hints(tuple(arguments.categorical), tuple(arguments.numeric), tuple(arguments.id))


def check_columns(source: Source, X: NDArray[Any]) -> None:
    """Refuse columns of a table that have no values, or values whose squares are no numbers.

    Where columns have to be numbers, those that tell nothing are refused too; columns that rise or
    fall from row to row are only pointed out.
    """
    if X.ndim != 2:
        return
    if (gone := np.isnan(X).all(1)).any():
        raise ValueError(
            f"{source.path}: {int(gone.sum())} of {len(X):,} rows have no value in any column that "
            "is learned from; leave them out"
        )
    if (empty := np.isnan(X).all(0)).any():
        column, how = _column(source, int(empty.argmax()))
        raise ValueError(f"{source.path}: {column} has no value at all; {how}")
    low, high = np.nanmin(X, 0).astype(np.float64), np.nanmax(X, 0).astype(np.float64)
    for k in np.flatnonzero((low == high) | (high > LARGEST) | (low < -LARGEST)).tolist():
        column, how = _column(source, k)
        if low[k] == high[k] and source.encoding is not None:
            continue  # it may come to tell something
        if low[k] == high[k]:
            raise ValueError(
                f"{source.path}: {column} is {low[k]:g} in all rows and tells nothing; {how}"
            )
        raise ValueError(
            f"{source.path}: {column} has values beyond {LARGEST:g}; {how}, or take larger units"
        )
    if len(X) < RISING:
        return
    for k in np.flatnonzero((X[1:] > X[:-1]).all(0) | (X[1:] < X[:-1]).all(0)).tolist():
        column, how = _column(source, k)
        warn(
            f"{source.path}: {column} rises or falls from row to row, as numbers and dates of rows "
            f"do. New rows would be outliers because they are new; if it is one, {how}"
        )


def tell_repeated(source: Source, X: NDArray[Any]) -> None:
    """Whether rows of a table are there more than once, and what is done with them."""
    if X.ndim != 2:
        return
    different = np.unique(np.where(np.isnan(X), np.inf, X), axis=0)  # gaps are equal, too
    if more := len(X) - len(different):
        warn(
            f"{source.path}: {more:,} of {len(X):,} rows are there before; unless they are very "
            "common, rows that are equal are not both learned from and calibrated by"
        )


def _tell_unfilled(source: Source, empty: NDArray[np.bool_] | None) -> None:
    """Which columns had no value in any row: a file may have lost them on its way."""
    which = [] if empty is None else np.flatnonzero(empty).tolist()
    for column in dict.fromkeys(_column(source, k)[0] for k in which):
        warn(f"{source.path}: {column} has no value in any row, and no part in the scores")


def _column(source: Source, k: int) -> tuple[str, str]:
    """What it is called, and how to do without it."""
    if source.columns is None:
        return f"column {k + 1}", "remove it"
    name = source.columns[k] if source.encoding is None else source.encoding.columns_of[k]
    return f"column {name!r}", f"leave it out (--drop {name!r})"


def open_for(
    detector: EnergyDetector, path: Path, drop: Sequence[str], skip_bad: bool = False
) -> Source:
    """The data at ``path``, with the model's columns if both have names.

    Images of a folder are resized if the model's were; bad ones are those that it cannot score.
    """
    if is_table(path) and len(detector.event_shape_) > 1:
        raise ValueError(
            f"{path} is a table, but the model is of points of {described(detector.event_shape_)}"
        )
    columns, wish = detector.table_columns() if is_table(path) else (None, None)
    source = open_source(path, columns, drop, _rules_of(detector, skip_bad), wish)
    try:
        event = tuple(points(np.zeros((1, *source.event_shape))).shape[1:])
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    if event != detector.event_shape_:
        raise ValueError(
            f"{path} has points of {described(event)}, but the model is of points of "
            f"{described(detector.event_shape_)}{_about_sizes(detector, source)}"
        )
    return source


def _rules_of(detector: EnergyDetector, skip_bad: bool) -> FolderRules:
    if len(detector.event_shape_) != 3:
        return FolderRules(skip_bad=skip_bad)
    channels, *sides = detector.event_shape_
    size = (sides[0], sides[1])
    kind = KIND_OF_MODEL.get((channels, detector.of_bytes_))
    wanted = None if kind is None or not skip_bad else ImageForm(size, kind)
    return FolderRules(size if detector.resized_ else None, skip_bad, wanted)


def _about_sizes(detector: EnergyDetector, source: Source) -> str:
    """What more there is to say of images of another size."""
    if not isinstance(source, ImageFolder) or len(detector.event_shape_) != 3:
        return ""
    if source.event_shape[:2] == detector.event_shape_[1:]:
        return ""
    return "; resize them, or fit the model with --resize, and they will be"


def tell_untrained(detector: EnergyDetector, updates: int | None) -> None:
    """A warning where updates were asked for, and nothing is trained."""
    recipe = detector.recipe_
    if updates and recipe is not None and recipe.phase is None:
        warn(f"--max-updates {updates}: recipe {recipe.name} trains nothing")


def skipped_of(source: Source) -> dict[str, str]:
    """Images that were left out, and why; none of other data."""
    return source.skipped if isinstance(source, ImageFolder) else {}


def tell_skipped(source: Source) -> int:
    """How many images were left out; some of them are named on stderr, and why."""
    skipped = skipped_of(source)
    for reason in list(skipped.values())[:NAMED_FILES]:
        warn(f"skipped: {reason}")
    if len(skipped) > NAMED_FILES:
        warn(f"skipped: {len(skipped) - NAMED_FILES:,} more files of {source.path}")
    return len(skipped)


def all_names(source: Source) -> tuple[str, ...]:
    """The files of a folder's images, once they were read; none of other data."""
    return tuple(source.names()) if isinstance(source, ImageFolder) else ()


def names_read(source: Source, limit: int, seed: int) -> tuple[str, ...]:
    """The files of the images that ``some_rows`` took, in order; none of other data."""
    names = all_names(source)
    return tuple(names[k] for k in drawn_at(len(names), limit, seed))


def row_chunks(detector: EnergyDetector, source: Source) -> Iterator[NDArray[Any]]:
    """The rows, as many at a time as are scored together."""
    size = at_a_time(source.event_shape, ROWS_AT_A_TIME)
    if len(source.event_shape) == 1:
        group = group_size(detector)
        size = max(1, size // group) * group
    return source.chunks(size)


@contextmanager
def columns_found() -> Iterator[None]:
    """Rows have no names, and need none: columns were found by name when the file was opened."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        yield


def as_weights(cells: Iterable[str], column: str, before: int = 0) -> NDArray[np.float64]:
    """Cells of the column ``--weight`` as numbers; ``before``: rows that came before them."""
    found = []
    for k, cell in enumerate(cells):
        try:
            weight = float(cell)
        except ValueError:
            weight = math.nan
        if not 0 <= weight < math.inf:
            raise ValueError(
                f"--weight {column}: row {before + k + 1:,} has {str(cell)!r} there; a weight is a "
                "finite number, not below zero"
            )
        found.append(weight)
    return np.array(found)


def scored_rows(
    detector: EnergyDetector, source: Source, title: str
) -> Generator[tuple[NDArray[Any], NDArray[np.float64]], None, None]:
    """Rows and their scores, a chunk at a time.

    The first warning of each kind is passed on with the path.
    """
    said: set[type[Warning]] = set()
    empty: NDArray[np.bool_] | None = None  # columns so far; images have none
    images = len(source.event_shape) > 1
    for chunk in counted(row_chunks(detector, source), source.rows, title, images):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            try:
                # A shard of a table has the bits of the whole; a group of images takes too long.
                score = steady_scores if chunk.ndim == 2 else EnergyDetector.score_samples
                with columns_found():
                    scores = score(detector, chunk)
            except ValueError as error:
                raise ValueError(f"{source.path}: {error}") from error
        for warning in caught:
            if warning.category not in said:
                said.add(warning.category)
                warn(f"{source.path}: {warning.message}")
        if chunk.ndim == 2:
            gone = np.isnan(chunk).all(0)
            empty = gone if empty is None else empty & gone
        yield chunk, scores
    _tell_unfilled(source, empty)


def refuse_too_few(arguments: Namespace, rows: int, what: str, images: bool = False) -> None:
    """Those that calibrate are some of the ``rows``, or all; too few cannot tell rare alarms."""
    rate, part = arguments.false_alarm_rate, arguments.calibration
    if part == "auto":
        # What can be folded keeps every row; the detector looks again when it knows them.
        foldable = arguments.recipe in ("auto", "tables", "pixels") and rows <= MOST_FOLDED
        part = "folds" if foldable else USUAL_SHARE

    def kept(rows: int) -> int:
        return rows if part == "folds" else min(max(1, round(part * rows)), rows - 1)

    needed = math.ceil(1 / rate - 1e-9) - 1
    if rows > 1 and kept(rows) >= needed:
        return
    if part == "folds":
        wanted, said = max(2, needed), ""
    else:
        wanted = 2 if needed < 2 else math.ceil((needed - 0.5) / part)
        said = f", a share of {part:g} of which is kept for calibration"
    while kept(wanted) < needed:  # halves are rounded to even numbers
        wanted += 1
    raise ValueError(
        f"{what}: {said_count(rows, images)}, but a false-alarm rate of {rate:g} needs at least "
        f"{wanted}{said}; give more {point_word(images)}s, or a higher rate"
    )
