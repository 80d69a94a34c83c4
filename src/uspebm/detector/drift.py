"""Whether new data still look like those that a detector was fitted to.

Streams: the score, and of a table each number of a row, against what the model holds of its data.
None of dates: times of day and days of the week go round, and rows in the order of time would be
noticed by them though nothing changed. Every stream has a test martingale
(:mod:`uspebm.evaluation.martingale`); the capital of the monitor is their mean, and an alarm is
raised where it reaches 1 / rate. Of data that are exchangeable with those it was fitted to, at most
that share of all streams ever raises one, however long they are. It is about the order of rows,
too: rows that come sorted are not exchangeable, and will be noticed.

Scores of tables are not the detector's own: those of its calibration are not quite exchangeable
with new ones, above all by folds. An energy over neighbours is made of four fifths of the rows that
the model holds, and the others are its reference; it sees what no column shows by itself. Images
that were calibrated by folds are neighbours in pixels, and are treated alike. Given the four
fifths, the others and new points are drawn alike, so that the rate holds exactly. Scores of other
images, and of energies that hold no rows, are the detector's, by points that were kept for nothing
else: the same holds.

It does not where a share of a table was kept for calibration and rows repeat: equal rows were kept
together, and the model may hold none of a kind that is common. A warning says so. Gaps are filled
from the rows that the model holds, those of held rows from each other: there the rate is not quite
exact. A model fitted with ``contamination`` holds no faults, and a stream that has some drifts.
"""

import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import ks_2samp
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from ..energies.features import FeatureEnergy, FeatureRule
from ..energies.neighbour import NeighbourRule
from ..energies.scaling import as_is
from ..evaluation.calibration import Reals, lowered
from ..evaluation.martingale import Order, SimpleJumper, UrnRanks, log10_mean
from ..support.plots import COLOURS, new_figure, save_figure
from ..support.randomness import generator
from ..support.words import point_word
from .energy_detector import EnergyDetector
from .reasons import held_rows, without_gaps
from .scorer import Scorer

REMEMBERED = 2000
"""Moments that are kept for the picture, at most."""
COMPARED_WITH = 5
"""Of so many rows that a model holds one is kept to compare scores with."""
REPEATED = 0.01
"""Of rows with an equal: from here on whole kinds of them may be missing."""
SHOWN = 3
"""Streams in the picture beside the whole."""


class BatchDrift(NamedTuple):
    """A batch beside the data: by the stream that differs most.

    >>> BatchDrift(p_value=0.2, name="score").p_value < 0.01  # no reason to doubt
    False
    """

    p_value: float
    name: str
    column: str | None = None
    """Of the table, which the stream is a number of; None of the score."""


class Streams:
    """What is watched of rows: their scores, and the numbers of tables.

    To be made once for several monitors and batches, which take it for the detector.

    Attributes:
        names: Of the streams.
        columns: The table's column that each is a number of; None for the score.
        dates: Columns that are not watched by themselves, but by the score.
        images: Whether that is what the rows are.
    """

    def __init__(self, detector: EnergyDetector) -> None:
        check_is_fitted(detector)
        self._detector, self._scorer = detector, detector.scorer_
        self._watched = np.empty(0, dtype=np.int64)
        self.names: tuple[str, ...] = ("score",)
        self.columns: tuple[str | None, ...] = (None,)
        self.dates: tuple[str, ...] = ()
        self.references: list[Reals] = [detector.calibration_scores_]
        energy = detector.scorer_.energy
        self.images = len(detector.event_shape_) > 1
        if self.images:
            if detector.folded_ and isinstance(energy, FeatureEnergy) and len(energy.centres) > 2:
                self._watch_pixels(energy)
            return
        try:
            rows = held_rows(detector.scorer_)
        except ValueError:  # an energy of the user's own: its scores have to do
            return
        if not detector.folded_ and max(_repeated(rows), _repeated(self.references[0])) > REPEATED:
            warnings.warn(
                "rows repeat, and the model is not calibrated by folds: if a share of its data was "
                "kept for calibration, equal rows together, there may be alarms without any drift; "
                "fit with calibration 'folds'",
                stacklevel=4,
            )
        self._watch_table(rows)

    def _watch_pixels(self, energy: FeatureEnergy) -> None:
        images = energy.centres.unflatten(1, self._detector.event_shape_)
        kept, units = max(1, len(images) // COMPARED_WITH), self._detector.scorer_.scaling
        rule = FeatureRule("pixels", neighbours=energy.neighbours, reading=energy.reading)
        made = rule.build(images[kept:], 0)
        self._scorer = Scorer(units, made).eval()
        self.references = [lowered(self._scorer.in_parts(units.inverse(images[:kept])).numpy())]

    def _watch_table(self, rows: Tensor) -> None:
        kept = max(1, len(rows) // COMPARED_WITH)
        made = NeighbourRule().build(rows[kept:], self._detector.seed_ or 0)
        self._scorer = Scorer(as_is(self._detector.event_shape_), made).eval()
        self.references = [lowered(self._scorer.in_parts(rows[:kept]).numpy())]
        columns = self._detector.columns()
        kinds = [column.kind for column in columns.columns for _ in column.names]
        self._watched = np.flatnonzero([kind != "date" for kind in kinds])
        self.names += tuple(columns.names[k] for k in self._watched)
        self.columns += tuple(columns.columns_of[k] for k in self._watched)
        self.dates = tuple(column.name for column in columns.columns if column.kind == "date")
        self.references += list(rows.numpy()[:, self._watched].T)

    def __call__(self, X: ArrayLike) -> Reals:
        """Values ``(N, streams)``."""
        x = self._detector._points(X, reset=False)
        scores = lowered(self._scorer.in_parts(x).numpy())[:, None]
        if not len(self._watched):
            return np.asarray(scores)
        full = without_gaps(self._detector.scorer_, x)
        return np.concatenate([scores, full.numpy()[:, self._watched]], axis=1)


class DriftMonitor:
    """Watches a stream of rows in constant memory.

    Arguments:
        detector: A fitted one, or its :class:`Streams`.
        false_alarm_rate: Of streams like the data, the share that raises an alarm at any time.
        random_state: Of the lots that order equal values.

    Attributes:
        rows: Seen so far.
        alarm_at: The row, counted from one, at which the alarm was raised; None so far.
        log10_capital: Of the monitor now; an alarm is at log10(1 / rate).
        history: Of some rows, at equal steps: the row and its log10 capitals, the monitor's first.

    >>> draws = np.random.default_rng(0)
    >>> found = EnergyDetector(random_state=0).fit(draws.normal(size=(300, 2)))
    >>> monitor = DriftMonitor(found)
    >>> monitor.update(draws.normal(size=(500, 2))).alarm_at
    >>> monitor.update(draws.normal(1.0, size=(500, 2))).alarm_at is None
    False
    """

    def __init__(
        self,
        detector: EnergyDetector | Streams,
        false_alarm_rate: float = 0.01,
        random_state: int = 0,
    ) -> None:
        if not 0 < false_alarm_rate < 1:
            raise ValueError(f"false_alarm_rate={false_alarm_rate} must lie between 0 and 1")
        self.false_alarm_rate = false_alarm_rate
        self._streams = _streams_of(detector)
        lots = np.random.default_rng(generator(random_state, "lots").initial_seed())
        self._ranks = [UrnRanks(known, lots) for known in self._streams.references]
        self._jumper = SimpleJumper(len(self._ranks))
        self.rows, self.log10_capital = 0, 0.0
        self.alarm_at: int | None = None
        self._capitals = self._highest = np.zeros(len(self._ranks))
        self.history: list[tuple[int, Reals]] = []
        self._step = 1

    @property
    def names(self) -> tuple[str, ...]:
        """Of the streams."""
        return self._streams.names

    def update(self, X: ArrayLike) -> "DriftMonitor":
        """See more rows, in the order in which they came; none change nothing."""
        if np.shape(X)[:1] == (0,):
            return self
        values = self._streams(X)
        p = np.stack([rank(v) for rank, v in zip(self._ranks, values.T, strict=True)], axis=1)
        capitals = self._jumper(p)
        whole = log10_mean(capitals)
        reached = np.flatnonzero(whole >= self.alarm_level)
        if self.alarm_at is None and len(reached):
            self.alarm_at = self.rows + 1 + int(reached[0])
        self._remember(np.concatenate([whole[:, None], capitals], axis=1))
        self.rows += len(values)
        self.log10_capital, self._capitals = float(whole[-1]), capitals[-1]
        self._highest = np.maximum(self._highest, capitals.max(0))
        return self

    @property
    def alarm_level(self) -> float:
        """log10 of the capital at which an alarm is raised."""
        return float(-np.log10(self.false_alarm_rate))

    def suspects(self) -> list[tuple[str, float]]:
        """Streams and the log10 of their capitals now, the largest first."""
        order = np.argsort(-self._capitals, kind="stable")
        return [(self.names[k], float(self._capitals[k])) for k in order]

    def moved(self) -> list[str | None]:
        """Columns of the table that drifted, None for the score, the most evident first.

        Or the one with the most evidence, if no stream has enough by itself.
        """
        # A stream that did not drift ever has a capital of e with a probability of 1 / e at most
        # (Ville). At streams / rate, any of them is named with at most the rate's: as an alarm is
        # raised, which the capital of one stream, at that height, raises without the others.
        enough = self.alarm_level + np.log10(len(self._highest))
        order = np.argsort(-self._highest, kind="stable")
        found = [k for k in order if self._highest[k] >= enough] or [order[0]]
        return list(dict.fromkeys(self._streams.columns[k] for k in found))

    def _remember(self, capitals: Reals) -> None:
        row, end = self.rows + (-self.rows) % self._step, self.rows + len(capitals)
        while row < end:
            # A copy: a part of an array holds all of it.
            self.history.append((row + 1, capitals[row - self.rows].copy()))
            if len(self.history) >= REMEMBERED:
                self.history, self._step = self.history[::2], 2 * self._step
            row += self._step - row % self._step

    def over_time(self) -> tuple[list[int], list[tuple[str, Reals]]]:
        """Rows, none first, and the log10 of capitals after them.

        Of all together, then of the streams that grew most.
        """
        now = np.concatenate([[self.log10_capital], self._capitals])
        points = [(0, np.zeros_like(now)), *self.history]
        if points[-1][0] < self.rows:
            points.append((self.rows, now))
        found = np.array([capitals for _, capitals in points])
        most = 1 + np.argsort(-found[:, 1:].max(0), kind="stable")[:SHOWN]
        lines = [("all together", found[:, 0]), *((self.names[k - 1], found[:, k]) for k in most)]
        return [row for row, _ in points], lines

    def draw(self, path: Path) -> None:
        """The capital over time, with those of the streams that grew most, as a picture."""
        figure, (panel,) = new_figure(columns=1, size=4.0)
        figure.set_size_inches(7.0, 3.5)
        rows, ((name, whole), *streams) = self.over_time()
        for stream, values in streams:
            panel.plot(rows, values, linewidth=0.8, alpha=0.7, label=stream)
        panel.plot(rows, whole, color=COLOURS["data"], linewidth=1.6, label=name)
        panel.axhline(self.alarm_level, color="grey", linestyle="--", linewidth=0.8, label="alarm")
        if self.alarm_at is not None:
            panel.axvline(self.alarm_at, color="grey", linewidth=0.8)
        panel.set_xlabel(f"{point_word(self._streams.images)}s", fontsize=8)
        panel.set_ylabel("evidence of drift, log10", fontsize=8)
        panel.tick_params(labelsize=7)
        # Where evidence begins, which is at zero: above it there is room.
        panel.legend(loc="upper left", fontsize=7)
        save_figure(figure, path.with_suffix(""), formats=(path.suffix[1:] or "png",))


def batch_drift(detector: EnergyDetector | Streams, X: ArrayLike) -> BatchDrift:
    """Whether a batch is drawn like the data: of such batches at most a share p has p or less.

    Kolmogorov's and Smirnov's test of each stream, times the number of streams (Bonferroni). Rows
    must be independent of each other; their order does not matter. ``X``: what the detector takes.

    >>> draws = np.random.default_rng(0)
    >>> found = EnergyDetector(random_state=0).fit(draws.normal(size=(300, 2)))
    >>> moved = batch_drift(found, draws.normal((0.0, 1.0), size=(200, 2)))
    >>> moved.name, moved.p_value < 0.01
    ('column 2', True)
    """
    streams = _streams_of(detector)
    tests = zip(streams.references, streams(X).T, strict=True)
    p = np.array([_ks(Order(known), known, new) for known, new in tests])
    worst = int(p.argmin())
    least = min(1.0, float(p[worst]) * len(p))
    return BatchDrift(least, streams.names[worst], streams.columns[worst])


def _streams_of(detector: EnergyDetector | Streams) -> Streams:
    return detector if isinstance(detector, Streams) else Streams(detector)


def _repeated(values: ArrayLike) -> float:
    """The share of rows, or numbers, that have an equal among them."""
    _, counts = np.unique(np.asarray(values), axis=0, return_counts=True)
    return float(counts[counts > 1].sum() / counts.sum())


def _ks(order: Order, known: Reals, new: Reals) -> float:
    # Equal values stay equal, which only makes p larger.
    return float(ks_2samp(order(known, 0.5), order(new, 0.5)).pvalue)
