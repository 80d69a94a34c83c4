"""Data files of the user's, read in chunks: tables, arrays and images.

One file per kind, each a ``Source`` of rows. May know ``support`` and how IDX files are read;
pyarrow and Pillow are imported with the first file that needs them.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...support.checks import at_least
from ...support.reading import UnreadableError
from .arrays import ArrayFile
from .cells import Wish
from .csv_file import CSVFile
from .image_folder import AS_THEY_ARE, FolderRules, ImageFolder
from .parquet_file import ParquetFile
from .shard import Shard
from .source import Gathered, Rows, Source, at_a_time

__all__ = [
    "FolderRules",
    "ImageFolder",
    "Shard",
    "Source",
    "drawn_at",
    "is_table",
    "open_source",
    "some_rows",
    "texts",
]

CSV = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
PARQUET = (".parquet",)
ARRAYS = (".npy", ".npz", ".idx", ".idx.gz", "-ubyte", "-ubyte.gz")


def open_source(
    path: Path,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    images: FolderRules = AS_THEY_ARE,
    wish: Wish = None,
) -> Source:
    """The data at ``path``: a folder of images, or a file whose name's ending tells its kind.

    Of a table (CSV, Parquet), ``columns`` picks these, in this order, whatever else it has; without
    it, all are taken. Those to ``drop`` are left out, and need not be numbers. ``images`` tells how
    a folder of them is read, and is for nothing else. ``wish``: text, dates and gaps are encoded,
    by a rule that is known or, from hints, to be learned; left out, they are refused. ``"text"``:
    for :func:`texts`.
    """
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist")
    if path.is_file() and not path.stat().st_size:
        raise UnreadableError(f"{path} is empty")
    name = path.name.lower() + ("/" if path.is_dir() else "")
    if is_table(path):
        return (CSVFile if name.endswith(CSV) else ParquetFile)(path, columns, drop, wish)
    if not name.endswith((*ARRAYS, "/")):
        raise ValueError(
            f"{path} is of no known kind: a folder of images is read, and names ending in "
            f"{', '.join((*CSV, *PARQUET, *ARRAYS))}"
        )
    if columns is not None or drop:
        raise ValueError(f"{path} has no named columns to choose from; CSV and Parquet files have")
    return ImageFolder(path, images) if path.is_dir() else ArrayFile(path)


def texts(path: Path, columns: Sequence[str]) -> Iterator[dict[str, list[str]]]:
    """Columns of a table as they are, as text, in blocks of rows. Without any: all.

    Of CSV every letter is kept; of Parquet what is missing is empty.
    """
    source = open_source(path, list(dict.fromkeys(columns)) or None, wish="text")
    if not isinstance(source, CSVFile | ParquetFile):
        raise ValueError(f"{path} has no named columns to keep; CSV and Parquet files have")
    yield from source.texts()


def is_table(path: Path) -> bool:
    """Whether the columns at ``path`` have names."""
    return path.name.lower().endswith((*CSV, *PARQUET)) and not path.is_dir()


def drawn_at(count: int, limit: int, seed: int) -> NDArray[np.intp]:
    """Which of ``count`` rows :func:`some_rows` takes, in ascending order and counted from 0."""
    keys = np.random.default_rng(seed).random(count)
    return np.sort(np.argpartition(keys, limit)[:limit]) if count > limit else np.arange(count)


def some_rows(source: Source, limit: int, seed: int) -> Rows:
    """All rows, or ``limit`` of them drawn at random, in the source's order and in bounded memory.

    Every row gets a random key; those with the smallest are kept.
    """
    at_least(1, limit=limit)
    draws = np.random.default_rng(seed)
    kept, keys = Gathered(), np.empty(0)
    for chunk in source.chunks(at_a_time(source.event_shape)):
        kept.add(chunk)
        keys = np.concatenate([keys, draws.random(len(chunk))])
        if len(keys) > limit:
            chosen = np.sort(np.argpartition(keys, limit)[:limit])
            kept.keep(chosen)
            keys = keys[chosen]
    if not kept.count:
        raise UnreadableError(f"{source.path} has no rows")
    return kept.array()
