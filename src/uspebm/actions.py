"""What the commands of :mod:`uspebm.commands` do, one function each.

What can be known to be wrong before the work is refused before it.
"""

import json
import math
import sys
from argparse import Namespace
from collections.abc import Generator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.markdown import Markdown
from rich.table import Table

from . import calibration, modelfile
from .detector import EnergyDetector
from .files import check_writable, whole_file
from .inputs import described, points
from .metrics import intervals
from .progress import console, counted
from .sinks import check_sink, open_sink
from .sources import Source, is_table, open_source, some_rows
from .sources.source import at_a_time

CHUNK = 8192
"""Rows read and scored at a time, at most: between larger ones, allocators may keep ten times what
is used."""
LARGEST = 1e150
RISING = 20
"""Rows from which on a column that rises or falls in all of them is no chance."""
COLUMNS = ("score", "p_value", "outlier")
METRICS = ("FPR95", "AUROC", "AUPR, normal positive", "AUPR, outliers positive")


def fit(arguments: Namespace) -> None:
    """Learn a detector and save it."""
    modelfile.check_place(arguments.out)
    replaced = (arguments.out / modelfile.ABOUT).exists()
    detector = EnergyDetector(
        arguments.method,
        centres=arguments.centres,
        max_updates=arguments.max_updates,
        patience=arguments.patience,
        learning_rate=arguments.learning_rate,
        batch_size=arguments.batch_size,
        calibration=arguments.calibration,
        false_alarm_rate=arguments.false_alarm_rate,
        random_state=arguments.seed,
        verbose=True,
    )
    enough = partial(
        _refuse_too_few,
        share=arguments.calibration,
        false_alarm_rate=arguments.false_alarm_rate,
    )
    enough(arguments.rows, f"--rows {arguments.rows}")
    source = open_source(arguments.data, drop=arguments.drop)
    if source.rows is not None:
        enough(source.rows, str(source.path))
    X = some_rows(source, arguments.rows, arguments.seed)
    enough(len(X), str(source.path))
    _check_columns(source, X)
    detector.fit(X)
    if source.columns is not None:
        detector.feature_names_in_ = np.array(source.columns, dtype=object)
    name = arguments.data.name
    modelfile.save(detector, arguments.out, f"Model of {name}", f"{len(X):,} rows of {name}")
    kept = len(detector.calibration_scores_)
    if arguments.json:
        _print(
            {
                "model": str(arguments.out),
                "rows": len(X),
                "calibration_rows": kept,
                "false_alarm_rate": arguments.false_alarm_rate,
                "threshold": detector.offset_,
            }
        )
        return
    _say(
        f"{arguments.out}/ learned from {len(X):,} rows, {kept:,} of them kept for calibration; "
        f"threshold {detector.offset_:.6g} at a false-alarm rate of "
        f"{arguments.false_alarm_rate:g}. The card is {arguments.out}/README.md"
        + ("; the model that was there before is replaced" if replaced else "")
    )


def score(arguments: Namespace) -> None:
    """Write scores, p-values and decisions."""
    out: Path = arguments.out
    check_sink(out, COLUMNS)
    check_writable(out)
    detector = modelfile.load(arguments.model)
    threshold = detector.offset_
    if arguments.false_alarm_rate is not None:
        threshold = calibration.threshold(detector.calibration_scores_, arguments.false_alarm_rate)
    source = _open_for(detector, arguments.data, arguments.drop)
    if out.exists() and out.samefile(arguments.data):
        raise ValueError(f"--out {out} is the data: choose another file")
    rows = outliers = 0
    with open_sink(out) as sink, closing(_scored(detector, source, "scoring")) as scored:
        for scores in scored:
            outlier = scores < threshold
            p = calibration.p_values(detector.calibration_scores_, scores)
            sink.write(dict(zip(COLUMNS, (scores, p, outlier), strict=True)))
            rows, outliers = rows + len(scores), outliers + int(outlier.sum())
    if arguments.json:
        _print({"out": str(out), "rows": rows, "outliers": outliers, "threshold": threshold})
    else:
        _say(f"{outliers:,} of {rows:,} rows score below {threshold:.6g}; all scores: {out}")


def evaluate(arguments: Namespace) -> None:
    """Measure how well known outliers are found."""
    names = [name for name, _ in arguments.ood]
    if len(set(names)) < len(names):
        raise ValueError(f"--ood: {', '.join(names)} should be different names")
    detector = modelfile.load(arguments.model)
    inside = _open_for(detector, arguments.id, arguments.drop)
    outside = {name: _open_for(detector, path, arguments.drop) for name, path in arguments.ood}
    known = np.concatenate(list(_scored(detector, inside, "normal")))
    strange = {
        name: np.concatenate(list(_scored(detector, source, name)))
        for name, source in outside.items()
    }
    found = {name: intervals(known, scores) for name, scores in strange.items()}
    alarms = {name: _share_below(detector.offset_, scores) for name, scores in strange.items()}
    false_alarms = _share_below(detector.offset_, known)
    expected = calibration.rate_at(detector.calibration_scores_, detector.offset_)
    if arguments.json:
        against = {
            name: {k: v._asdict() for k, v in figures.items()}
            | {"alarms": alarms[name], "rows": len(strange[name])}
            for name, figures in found.items()
        }
        _print(
            {
                "threshold": detector.offset_,
                "rows": len(known),
                "false_alarms": false_alarms,
                "false_alarms_expected": expected,
                "against": against,
            }
        )
        return
    table = Table(title=f"{arguments.id.name} against …, per cent with 95 % intervals")
    for heading in ("outliers", *METRICS, "alarms"):
        table.add_column(heading)
    for name, figures in found.items():
        cells = (
            f"{100 * v.value:.2f} ({100 * v.low:.2f} to {100 * v.high:.2f})"
            for v in figures.values()
        )
        table.add_row(name, *cells, f"{100 * alarms[name]:.2f}")
    console.print(table)
    _say(
        f"Alarms are scores below the model's threshold, {detector.offset_:.6g}. "
        f"Of {arguments.id.name}, {100 * false_alarms:.2f} % raise one; "
        f"at most {100 * expected:.2f} % was to be expected on average"
    )


def _share_below(threshold: float, scores: NDArray[np.float64]) -> float:
    return float((scores < threshold).mean())


def export(arguments: Namespace) -> None:
    """Write a model as an ONNX file."""
    from .export import check_onnx, to_onnx

    check_onnx(arguments.onnx)
    to_onnx(modelfile.load(arguments.model), arguments.onnx)
    if arguments.json:
        _print({"onnx": str(arguments.onnx), "inputs": ["x"], "outputs": ["score", "p_value"]})
    else:
        _say(f"{arguments.onnx}: input x, outputs score and p_value")


def info(arguments: Namespace) -> None:
    """Show what a model is."""
    about, text = modelfile.describe(arguments.model)
    if arguments.json:
        _print(about)
    else:
        shown = (line for line in text.splitlines() if not line.startswith("!["))  # no pictures
        console.print(Markdown("\n".join(shown)))


def compare(arguments: Namespace) -> None:
    """Compare with classical detectors."""
    from . import compare as comparison

    out: Path = arguments.out
    if out.exists() and not out.is_dir():
        raise ValueError(f"--out {out} is a file; choose a folder")
    check_writable(out / "compare.json")
    problems: Any = comparison.standard_problems
    if arguments.data is not None:
        source = open_source(arguments.data, drop=arguments.drop)
        if len(source.event_shape) > 1:
            raise ValueError(f"{arguments.data} holds images; compare takes a table")
        X = some_rows(source, arguments.rows, 0)
        _check_columns(source, X)
        problems = partial(comparison.user_problem, X)
    if missing := comparison.left_out():
        _say(missing)
    ours = {"EnergyDetector": lambda seed: EnergyDetector(random_state=seed)}
    detectors = ours | comparison.classical()
    made = {seed: list(problems(seed)) for seed in range(arguments.seeds)}
    total = len(detectors) * sum(map(len, made.values()))
    results = []
    for result in comparison.compare(made.__getitem__, detectors, made):
        results.append(result)
        _say(
            f"{len(results)}/{total}  {result.problem}, {result.detector}: "
            f"AUROC {100 * result.auroc:.1f}, {result.fit_seconds + result.score_seconds:.1f} s"
        )
    rows = comparison.rows(results)
    with whole_file(out / "compare.json") as file:
        file.write(json.dumps(rows, indent=1).encode())
    with whole_file(out / "compare.md") as file:
        file.write(comparison.markdown(results).encode())
    if arguments.json:
        _print({"out": str(out), "results": rows})
        return
    console.print(comparison.table(results))
    _say(f"Figures: {out}/")


def _refuse_too_few(rows: int, what: str, share: float, false_alarm_rate: float) -> None:
    """Of ``rows``, a ``share`` is kept; too few of those cannot tell rare alarms."""

    def kept(rows: int) -> int:
        return min(max(1, round(share * rows)), rows - 1)

    needed = math.ceil(1 / false_alarm_rate - 1e-9) - 1
    if rows > 1 and kept(rows) >= needed:
        return
    wanted = 2 if needed < 2 else math.ceil((needed - 0.5) / share)
    while kept(wanted) < needed:  # halves are rounded to even numbers
        wanted += 1
    raise ValueError(
        f"{what}: {rows} row{'s' if rows > 1 else ''}, but a false-alarm rate of "
        f"{false_alarm_rate:g} needs at least {wanted}, a share of {share:g} of which is kept for "
        "calibration; give more rows, or a higher rate"
    )


def _check_columns(source: Source, X: NDArray[Any]) -> None:
    """Refuse columns of a table that tell nothing, or have values whose squares are no numbers.

    Columns that rise or fall from row to row are only pointed out.
    """
    if X.ndim != 2:
        return
    low, high = X.min(0).astype(np.float64), X.max(0).astype(np.float64)
    for k in np.flatnonzero((low == high) | (high > LARGEST) | (low < -LARGEST)).tolist():
        column, how = _column(source, k)
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
        _warn(
            f"{source.path}: {column} rises or falls from row to row, as numbers and dates of rows "
            f"do. New rows would be outliers because they are new; if it is one, {how}"
        )


def _column(source: Source, k: int) -> tuple[str, str]:
    """What it is called, and how to do without it."""
    if source.columns is None:
        return f"column {k + 1}", "remove it"
    return f"column {source.columns[k]!r}", f"leave it out (--drop {source.columns[k]!r})"


def _open_for(detector: EnergyDetector, path: Path, drop: Sequence[str]) -> Source:
    """The data at ``path``, with the model's columns if both have names."""
    names = getattr(detector, "feature_names_in_", None)
    columns = None if names is None or not is_table(path) else tuple(map(str, names))
    source = open_source(path, columns, drop)
    try:
        event = tuple(points(np.zeros((1, *source.event_shape))).shape[1:])
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    if event != detector.event_shape_:
        raise ValueError(
            f"{path} has points of {described(event)}, but the model is of points of "
            f"{described(detector.event_shape_)}"
        )
    return source


def _scored(
    detector: EnergyDetector, source: Source, title: str
) -> Generator[NDArray[np.float64], None, None]:
    """Scores, a chunk at a time."""
    chunks = source.chunks(at_a_time(source.event_shape, CHUNK))
    for chunk in counted(chunks, source.rows, title):
        if chunk.ndim > 2 and (chunk.dtype == np.uint8) != detector.of_bytes_:
            kinds = ("bytes", "other numbers") if detector.of_bytes_ else ("other numbers", "bytes")
            how = "whole numbers from 0 to 255 (uint8)" if detector.of_bytes_ else "the same kind"
            raise ValueError(
                f"{source.path}: the model was fitted to images of {kinds[0]}; these are "
                f"{kinds[1]}: give {how}"
            )
        yield detector.scorer_.in_parts(points(chunk)).numpy()


def _say(text: str) -> None:
    console.print(text, soft_wrap=True, markup=False)


def _warn(text: str) -> None:
    sys.stderr.write(f"uspebm: {text}\n")


def _print(value: Any) -> None:
    json.dump(value, sys.stdout, indent=1, allow_nan=False)
    sys.stdout.write("\n")
