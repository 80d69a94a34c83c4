"""``uspebm compare``: EnergyDetector beside classical detectors."""

import json
from argparse import Namespace
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Self

from .flags import (
    Commands,
    column_flags,
    drop_flag,
    folder_flag,
    json_flag,
    new_command,
    number_flag,
    whole,
)
from .output import answering, print_json, refuse_file, say
from .report import leave_report

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..evaluation.classical import MakeDetector
    from ..evaluation.comparison import Judgement

COMPARED_ROWS = 10_000
"""Of the user's table."""
RARE_ALARMS = 99
"""Rows that a false-alarm rate of 1 % needs to calibrate by."""
FOR_RARE_ALARMS = "EnergyDetector, split for 1 %"
"""Ours with so many rows kept, or a fifth; compared only if it is asked for."""


def add_compare(commands: Commands) -> None:
    """Add the command."""
    command = new_command(
        commands,
        "compare",
        run_compare,
        "compare with classical detectors",
        "AUROC, average precision and times of EnergyDetector beside classical detectors: on a "
        "table of yours with faults of yours or made-up ones, on a folder of tables with known "
        "anomalies, or on data that ship with scikit-learn.",
    )
    command.add_argument(
        "data", type=Path, nargs="?", metavar="DATA", help="a table; left out: scikit-learn's data"
    )
    command.add_argument(
        "--faults",
        type=Path,
        metavar="FILE",
        help="a table of known faults with the same columns: rank detectors by how well they find "
        "these (default: made-up anomalies)",
    )
    command.add_argument(
        "--suite",
        type=Path,
        metavar="FOLDER",
        help="instead of DATA, a folder of .npz files with X and y (1: anomaly), as ADBench has: "
        "half of the normal rows are learned from; an interrupted comparison goes on",
    )
    command.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="DETECTOR",
        help="of a suite, only this detector, by its name in the table; repeatable",
    )
    command.add_argument(
        "--train-rows",
        type=whole(2),
        metavar="INT",
        help="of a suite, rows of a set to learn from at most (default: half of the normal ones)",
    )
    number_flag(command, "--jobs", whole(1), 1, "of a suite, sets at a time, on one thread each")
    drop_flag(command)
    column_flags(command)
    command.add_argument(
        "--rows",
        type=whole(2),
        metavar="INT",
        help=f"of DATA and of FILE at most, drawn at random (default: {COMPARED_ROWS:,})",
    )
    number_flag(command, "--seeds", whole(1), 1, "how many seeds, from 0 on")
    folder_flag(command, "runs/compare")
    json_flag(command)


@answering
def run_compare(arguments: Namespace) -> None:
    """Compare with classical detectors."""
    from ..evaluation import classical, comparison
    from ..support.files import check_writable, whole_file
    from ..support.progress import console

    began = monotonic()
    out: Path = arguments.out
    _refuse_mixtures(arguments)
    refuse_file(out)
    check_writable(out / "compare.json")
    if missing := classical.missing_detectors():
        say(missing)
    results = []
    total, found = _on_suite(arguments) if arguments.suite else _on_problems(arguments)
    for result in found:
        results.append(result)
        say(
            f"{len(results)}/{total}  {result.problem}, {result.detector}, seed {result.seed}: "
            f"AUROC {100 * result.auroc:.1f}, {result.fit_seconds + result.score_seconds:.1f} s"
        )
    if arguments.suite is not None:
        # As asked for, whatever was there before and whichever process was first.
        order = list(on_suites())
        results.sort(key=lambda r: (r.seed, r.problem.lower(), order.index(r.detector)))
    rows = comparison.judgement_rows(results)
    with whole_file(out / "compare.json") as file:
        file.write(json.dumps(rows, indent=1).encode())
    with whole_file(out / "compare.md") as file:
        file.write(comparison.comparison_markdown(results).encode())
    report = leave_report(out, arguments, began)
    if arguments.json:
        print_json(
            {"out": str(out), "report": None if report is None else str(report), "results": rows}
        )
        return
    many = arguments.suite is not None
    console.print((comparison.summary_table if many else comparison.comparison_table)(results))
    families, detectors = (len({getattr(r, w) for r in results}) for w in ("family", "detector"))
    if families > 1:
        apart = comparison.critical_difference(detectors, families)
        say(f"Mean ranks that differ by less than {apart:.2f} may do so by chance (Nemenyi, 5 %).")
    say(f"Figures: {out}/" + ("" if report is None else f"; the report is {report}"))


def _refuse_mixtures(arguments: Namespace) -> None:
    if arguments.suite is not None:
        for flag, value in (("DATA", arguments.data), ("--faults", arguments.faults)):
            if value is not None:
                raise ValueError(f"--suite {arguments.suite} is compared without {flag} {value}")
        for flag in ("drop", "categorical", "numeric", "id", "rows"):
            if value := getattr(arguments, flag):
                said = value[0] if isinstance(value, list) else value
                raise ValueError(f"--{flag} {said} is for DATA: a suite is taken as it is")
        if not arguments.suite.is_dir():
            raise ValueError(f"--suite {arguments.suite} is no folder")
    elif arguments.faults is not None and arguments.data is None:
        raise ValueError(f"--faults {arguments.faults} needs DATA to learn what is normal")
    for flag, value in (
        ("--jobs", arguments.jobs > 1),
        ("--only", arguments.only),
        ("--train-rows", arguments.train_rows),
    ):
        if value and arguments.suite is None:
            raise ValueError(f"{flag} is for --suite")


def _ours() -> "dict[str, MakeDetector]":
    from ..detector.energy_detector import EnergyDetector

    return {"EnergyDetector": lambda seed: EnergyDetector(random_state=seed)}


def on_suites() -> "dict[str, MakeDetector]":
    """Ours as it comes, with a fifth of the rows kept for calibration or as many as a false-alarm
    rate of 1 % needs, its kernel density alone, and those of papers.
    """
    from ..detector.energy_detector import EnergyDetector
    from ..evaluation.classical import suite_detectors

    def reference(seed: int) -> EnergyDetector:
        return EnergyDetector("tables-density", max_updates=0, random_state=seed)

    def split(seed: int) -> EnergyDetector:
        return EnergyDetector(calibration=0.2, random_state=seed)

    class RareAlarms(EnergyDetector):
        def fit(self, X: Any, y: object = None, **how: Any) -> Self:
            kept = RARE_ALARMS if len(X) > RARE_ALARMS else 0  # of fewer, none can be so rare
            self.calibration = max(0.2, kept / len(X))
            return super().fit(X, y, **how)

    ours = _ours() | {"EnergyDetector, split": split, "kernel density, ours": reference}
    ours[FOR_RARE_ALARMS] = lambda seed: RareAlarms(random_state=seed)
    return ours | suite_detectors()


def _on_suite(arguments: Namespace) -> "tuple[int, Iterator[Judgement]]":
    from .. import __version__
    from ..evaluation.suite import Suite, compare_on_suite, kept_beside

    known = list(on_suites())
    if unknown := [name for name in arguments.only if name not in known]:
        raise ValueError(f"there is no detector {unknown[0]!r}, but {', '.join(known)}")
    usual = [name for name in known if name != FOR_RARE_ALARMS]
    chosen = [name for name in known if name in arguments.only] or usual
    suite = Suite(arguments.suite, on_suites, chosen, arguments.seeds, arguments.train_rows)
    kept = kept_beside(arguments.out, suite, __version__)
    return len(suite.tasks), compare_on_suite(suite, kept, arguments.jobs)


def _on_problems(arguments: Namespace) -> "tuple[int, Iterator[Judgement]]":
    from ..evaluation import classical, comparison

    problems = _problems(arguments)
    detectors = _ours() | classical.classical_detectors()
    made = {seed: list(problems(seed)) for seed in range(arguments.seeds)}
    total = len(detectors) * sum(map(len, made.values()))
    return total, comparison.compare_detectors(made.__getitem__, detectors, made)


def _problems(arguments: Namespace) -> Any:
    """Those of the user's table if there is one; a list for every seed."""
    import numpy as np

    from ..data.encoding import Hints
    from ..data.readers import is_table, open_source, some_rows
    from ..evaluation.anomaly_problems import own_faults, standard_problems, user_problem
    from .user_data import check_columns

    if arguments.data is None:
        return standard_problems
    named = is_table(arguments.data)
    columns = arguments.categorical, arguments.numeric, arguments.id
    if any(columns) and not named:
        raise ValueError(f"{arguments.data} has no named columns; CSV and Parquet files have")
    hints = Hints(*map(tuple, columns)) if named else None
    source = open_source(arguments.data, drop=arguments.drop, wish=hints)
    if len(source.event_shape) > 1:
        raise ValueError(f"{arguments.data} holds images; compare takes a table")
    rows = arguments.rows or COMPARED_ROWS
    X = some_rows(source, rows, 0)
    check_columns(source, X)
    if arguments.faults is None:
        return partial(user_problem, _without_gaps(X))
    used = source.columns if source.encoding is None else source.encoding.used
    faults = open_source(arguments.faults, columns=used, wish=source.encoding)
    if faults.event_shape != source.event_shape:
        raise ValueError(
            f"{arguments.faults} has {faults.event_shape[0]} columns, and {arguments.data} "
            f"{source.event_shape[0]}"
        )
    known = some_rows(faults, rows, 0)
    both = _without_gaps(np.concatenate([X, known]), len(X))
    return partial(own_faults, both[: len(X)], both[len(X) :])


def _without_gaps(X: "NDArray[Any]", by: int | None = None) -> "NDArray[Any]":
    """Rows filled from those most alike among the first ``by``: alike for all detectors."""
    import torch

    from ..energies.gaps import filled_table

    x = torch.from_numpy(X.astype("float64"))
    return filled_table(x, by or len(x)).numpy()
