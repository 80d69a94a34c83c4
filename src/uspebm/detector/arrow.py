"""Scores for engines that hand out tables batch by batch: Spark, Ray Data, Dask.

One callable for all of them, from a batch to a batch::

    scorer = uspebm.arrow_scorer("model", keep=["id"])
    frame.mapInArrow(scorer, "id long, score double, p_value double, outlier boolean")  # Spark
    dataset.map_batches(scorer, batch_format="pyarrow")  # Ray Data
    dataset.map_batches(
        ArrowScorer, fn_constructor_args=("model",), batch_format="pyarrow", concurrency=2
    )
    frame.map_partitions(scorer)  # Dask

What is sent to a worker is where the model lies and what its checksum is: the folder has to be
there for all of them, and one that was replaced in between is refused, so that no two rows of a job
are scored by different models. A process reads it once. Rows come out in the order they came in,
one for each; a batch has no other effect, and an engine may score it again wherever a worker died.
Engines do not promise the order of batches: keep a column that names rows.

A row has the same bits in any batch (:mod:`.steady`), and those of ``uspebm score`` with one
thread. Rows are scored in groups of 4,096, or fewer of many columns, the last of a batch filled up:
batches of many thousand rows waste least.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.encoding import Cells, Encoding, cells_of_frame
from ..data.readers.cells import cells_of
from ..data.readers.columns import arrow, chosen_columns
from ..data.writers import SCORE_COLUMNS
from ..evaluation.calibration import p_values, threshold
from ..support.threads import computing_threads
from .energy_detector import EnergyDetector
from .folder import describe, load, pretrained
from .steady import steady_scores

BATCH = Path("the batch")
"""What messages call the data."""


class ArrowScorer:
    """Adds scores, p-values and decisions to batches of a table; see :mod:`uspebm.detector.arrow`.

    Arguments:
        model: A model's folder, of a table.
        keep: Columns to pass on beside the scores, as they are; ``"all"`` for all.
        false_alarm_rate: Of the decision; left out, the model's own threshold.

    >>> from tempfile import TemporaryDirectory
    >>> from uspebm import save_model
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> with TemporaryDirectory() as place:
    ...     save_model(EnergyDetector(random_state=0).fit(X), f"{place}/model")
    ...     table = arrow().table({"a": [0.0, 9.0], "b": [0.0, 9.0]})
    ...     scored = ArrowScorer(f"{place}/model")(table)
    >>> scored["outlier"].to_pylist()
    [False, True]
    """

    def __init__(
        self,
        model: Path | str,
        keep: Sequence[str] = (),
        false_alarm_rate: float | None = None,
    ) -> None:
        about, _ = describe(model)
        if len(about["event_shape"]) != 1:
            raise ValueError(f"{model} is a model of images; batches of tables need one of a table")
        known = str(model) in pretrained()
        self.model = str(model) if known else str(Path(model).resolve())
        self.checksum = str(about["sha256"])
        self.keep = (keep,) if isinstance(keep, str) else tuple(keep)
        if twice := [name for name in self.keep if name in SCORE_COLUMNS]:
            raise ValueError(f"keep={twice[0]!r}: the scores have a column of that name; rename it")
        self.false_alarm_rate = false_alarm_rate
        if false_alarm_rate is not None:
            threshold(self._detector().calibration_scores_, false_alarm_rate)

    def __call__(self, batch: Any) -> Any:
        """Of a RecordBatch, a Table, a DataFrame or an iterator of batches, the same with scores.

        DataFrames keep their index.
        """
        pa = arrow()
        if isinstance(batch, pa.RecordBatch):
            return self._batch(batch)
        if isinstance(batch, pa.Table):
            whole = batch.combine_chunks().to_batches()
            parts = whole or [pa.RecordBatch.from_pylist([], schema=batch.schema)]
            return pa.Table.from_batches([self._batch(part) for part in parts])
        if hasattr(batch, "columns") and hasattr(batch, "iloc"):
            return self._frame(batch)
        if isinstance(batch, Iterator):
            return map(self.__call__, batch)
        raise ValueError(
            f"a batch is of pyarrow (RecordBatch, Table) or a DataFrame of pandas, not "
            f'{type(batch).__name__}; Ray Data gives such with batch_format="pyarrow"'
        )

    def _batch(self, batch: Any) -> Any:
        names = batch.schema.names
        encoding = self._encoding(names)
        scored = self._scored(encoding, cells_of(BATCH, batch.select(encoding.used), 0, "row"))
        kept = {name: batch.column(name) for name in self._kept(names)}
        return arrow().RecordBatch.from_pydict(kept | scored)

    def _frame(self, frame: Any) -> Any:
        names = [str(name) for name in frame.columns]
        encoding = self._encoding(names)
        kept = frame.iloc[:, [names.index(name) for name in self._kept(names)]]
        used = frame.iloc[:, [names.index(name) for name in encoding.used]]
        return kept.assign(**self._scored(encoding, cells_of_frame(used)))

    def _kept(self, names: Sequence[str]) -> tuple[str, ...]:
        if "all" not in self.keep:
            return chosen_columns(BATCH, names, self.keep, ()) if self.keep else ()
        if twice := [name for name in names if name in SCORE_COLUMNS]:
            raise ValueError(
                f"keep='all': the batch has a column {twice[0]!r}, as the scores have; rename it"
            )
        return tuple(names)

    def _encoding(self, names: Sequence[str]) -> Encoding:
        """The model's; of one that knows no names, all columns in their order."""
        encoding = self._detector().encoding_ or Encoding.of_numbers(names)
        chosen_columns(BATCH, names, encoding.used, ())
        return encoding

    def _scored(self, encoding: Encoding, cells: dict[str, Cells]) -> dict[str, NDArray[Any]]:
        detector = self._detector()
        known, limit = detector.calibration_scores_, detector.offset_
        if self.false_alarm_rate is not None:
            limit = threshold(known, self.false_alarm_rate)
        rows = encoding.encode(cells)
        scores = np.empty(0)
        if len(rows):
            # Engines start as many workers as there are cores.
            with computing_threads(1):
                scores = steady_scores(detector, rows)
        values = (scores, p_values(known, scores), scores < limit)
        return dict(zip(SCORE_COLUMNS, values, strict=True))

    def _detector(self) -> EnergyDetector:
        return _loaded(self.model, self.checksum)


def arrow_scorer(
    model: Path | str, keep: Sequence[str] = (), false_alarm_rate: float | None = None
) -> ArrowScorer:
    """A callable that Spark, Ray Data and Dask take as it is: an :class:`ArrowScorer`.

    ``model``, ``keep`` and ``false_alarm_rate`` are said there, and it is shown at work.

    >>> arrow_scorer("fashion-mnist")
    Traceback (most recent call last):
    ValueError: fashion-mnist is a model of images; batches of tables need one of a table
    """
    return ArrowScorer(model, keep, false_alarm_rate)


@lru_cache(maxsize=4)
def _loaded(model: str, checksum: str) -> EnergyDetector:
    """The model, read once in a process."""
    about, _ = describe(model)
    if about["sha256"] != checksum:
        raise ValueError(
            f"{model} holds another model than when this work began: begin anew, or put it back"
        )
    detector = load(model)
    detector.refuse_weights("an Arrow scorer")
    names = getattr(detector, "feature_names_in_", None)
    if detector.encoding_ is None and names is not None:
        detector.set_encoding(Encoding.of_numbers(map(str, names)))
    return detector
