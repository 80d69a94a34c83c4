"""Columns with names: which are taken of a table, and how pyarrow's become rows of numbers."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from reprlib import repr as shortened
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ...support.extras import need
from ...support.reading import UnreadableError
from .source import Rows, refuse_rows

NAMED_AT_MOST = 10
LONG_NAME = 100  # characters; longer names are shortened in messages


def arrow() -> ModuleType:
    """pyarrow, with its parts for both kinds of tables."""
    for module in ("pyarrow.csv", "pyarrow.parquet"):
        need(module, "reading tables", "tables")
    return need("pyarrow", "reading tables", "tables")


def chosen_columns(
    path: Path, names: Sequence[str], columns: Sequence[str] | None, drop: Sequence[str]
) -> tuple[str, ...]:
    """``columns`` in their order, or all that the file has, without those to ``drop``."""
    known, dropped = Counter(names), set(drop)
    if twice := [name for name, times in known.items() if times > 1]:
        raise UnreadableError(
            f"{path} has more than one column called {_listed(twice)}: rename them"
        )
    if unknown := [name for name in (*(columns or ()), *drop) if name not in known]:
        raise UnreadableError(f"{path} has no column {_listed(unknown)}; it has {_listed(names)}")
    wanted = tuple(name for name in (names if columns is None else columns) if name not in dropped)
    if not wanted:
        raise UnreadableError(f"{path}: no columns are left of {_listed(names)}")
    for name in wanted:
        if not name or name.startswith("__index_level_"):
            raise UnreadableError(
                f"{path}: column {quoted(name)} looks like the row numbers that pandas adds; drop "
                "it, or give it a name"
            )
    return wanted


def remedy(column: str, of_a_model: bool, wanted: str = "numbers") -> str:
    """What to do about a cell that is not of the ``wanted``."""
    if of_a_model:
        return f"the model needs the column: put {wanted} in it, or leave the row out"
    return f"put {wanted} in it, or leave out the row or the column (--drop {quoted(column)})"


def quoted(name: str) -> str:
    """A column's name, for a message."""
    return repr(name) if len(name) <= LONG_NAME else shortened(name)


def _listed(names: Sequence[str]) -> str:
    more = f", … ({len(names)} in all)" if len(names) > NAMED_AT_MOST else ""
    return ", ".join(map(quoted, names[:NAMED_AT_MOST])) + more


def side_by_side(path: Path, batch: Any, dtype: DTypeLike, before: int, row: str) -> Rows:
    """The columns of a pyarrow batch, checked, as rows; ``before`` it come so many rows."""
    pa, types = arrow(), batch.schema.types
    if len(set(types)) == 1 and types[0] in (pa.float32(), pa.float64()):
        # At once: of very many columns, each would take longer than its numbers.
        whole = pa.concat_arrays(batch.columns)
        if not whole.null_count:
            block = whole.to_numpy().reshape(len(types), len(batch)).T.astype(dtype, order="C")
            if np.isfinite(block).all():
                return np.asarray(block)
    return _one_by_one(path, batch, dtype, before, row)


def _one_by_one(path: Path, batch: Any, dtype: DTypeLike, before: int, row: str) -> Rows:
    """The same, for numbers of any kind and columns with gaps."""
    pa = arrow()
    block = np.empty((len(batch), batch.num_columns), dtype)
    for k, (name, column) in enumerate(zip(batch.schema.names, batch.columns, strict=True)):
        if column.null_count:
            missing = column.is_null().to_numpy(zero_copy_only=False)
            refuse_rows(path, missing, before, f"no value in column {quoted(name)}", row)
        if pa.types.is_decimal(column.type):  # as numpy's objects they would take a minute
            column = column.cast(pa.float64())
        block[:, k] = column.to_numpy(zero_copy_only=False)
        bad = ~np.isfinite(block[:, k])
        refuse_rows(path, bad, before, f"NaN or infinity in column {quoted(name)}", row)
    return block
