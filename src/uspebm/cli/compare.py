"""``uspebm compare``: EnergyDetector beside classical detectors."""

import json
from argparse import Namespace
from functools import partial
from pathlib import Path
from typing import Any

from .flags import Commands, drop_flag, folder_flag, json_flag, new_command, number_flag, whole
from .output import answering, print_json, refuse_file, say


def add_compare(commands: Commands) -> None:
    """Add the command."""
    command = new_command(
        commands,
        "compare",
        run_compare,
        "compare with classical detectors",
        "AUROC, average precision and times of EnergyDetector beside classical detectors: on a "
        "table of yours with made-up anomalies, or on data that ship with scikit-learn.",
    )
    command.add_argument(
        "data", type=Path, nargs="?", metavar="DATA", help="a table; left out: scikit-learn's data"
    )
    drop_flag(command)
    number_flag(command, "--rows", whole(2), 10_000, "of the table at most, drawn at random")
    number_flag(command, "--seeds", whole(1), 1, "how many seeds, from 0 on")
    folder_flag(command, "runs/compare")
    json_flag(command)


@answering
def run_compare(arguments: Namespace) -> None:
    """Compare with classical detectors."""
    from ..detector.energy_detector import EnergyDetector
    from ..evaluation import classical, comparison
    from ..support.files import check_writable, whole_file
    from ..support.progress import console

    out: Path = arguments.out
    refuse_file(out)
    check_writable(out / "compare.json")
    problems = _problems(arguments)
    if missing := classical.missing_detectors():
        say(missing)
    ours = {"EnergyDetector": lambda seed: EnergyDetector(random_state=seed)}
    detectors = ours | classical.classical_detectors()
    made = {seed: list(problems(seed)) for seed in range(arguments.seeds)}
    total = len(detectors) * sum(map(len, made.values()))
    results = []
    for result in comparison.compare_detectors(made.__getitem__, detectors, made):
        results.append(result)
        say(
            f"{len(results)}/{total}  {result.problem}, {result.detector}: "
            f"AUROC {100 * result.auroc:.1f}, {result.fit_seconds + result.score_seconds:.1f} s"
        )
    rows = comparison.judgement_rows(results)
    with whole_file(out / "compare.json") as file:
        file.write(json.dumps(rows, indent=1).encode())
    with whole_file(out / "compare.md") as file:
        file.write(comparison.comparison_markdown(results).encode())
    if arguments.json:
        print_json({"out": str(out), "results": rows})
        return
    console.print(comparison.comparison_table(results))
    say(f"Figures: {out}/")


def _problems(arguments: Namespace) -> Any:
    """Those of the user's table if there is one; a list for every seed."""
    from ..data.readers import open_source, some_rows
    from ..evaluation.anomaly_problems import standard_problems, user_problem
    from .user_data import check_columns

    if arguments.data is None:
        return standard_problems
    source = open_source(arguments.data, drop=arguments.drop)
    if len(source.event_shape) > 1:
        raise ValueError(f"{arguments.data} holds images; compare takes a table")
    X = some_rows(source, arguments.rows, 0)
    check_columns(source, X)
    return partial(user_problem, X)
