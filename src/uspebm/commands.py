"""Commands on files of the user's: fit, score, evaluate, export, info, compare."""

import argparse
import json
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .detector import EnergyDetector
    from .sources import Source

CHUNK = 65_536
"""Rows read and scored at a time."""
DATA = "a .csv, .tsv, .parquet, .npy, .npz or IDX file, or a folder of images"


def add(commands: Any) -> None:
    """Add the commands to a parser's subparsers."""
    command = _command(
        commands,
        "fit",
        _fit,
        "learn a detector from a file",
        "Learn what normal data look like and save the model to a folder.",
    )
    command.add_argument("data", type=Path, metavar="DATA", help=DATA)
    command.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="the model's folder"
    )
    command.add_argument(
        "--drop",
        action="append",
        default=[],
        metavar="COLUMN",
        help="leave it out; repeatable",
    )
    command.add_argument(
        "--rows", type=int, default=200_000, help="learn from so many rows at most, drawn at random"
    )
    command.add_argument(
        "--method", choices=["importance", "ps-usp", "srlmc"], default="importance",
        help="what stands for the model while it learns",
    )  # fmt: skip
    command.add_argument("--centres", type=int, default=2000, help="of the reference density")
    command.add_argument("--max-updates", type=int, default=2000, help="of the network")
    command.add_argument("--patience", type=int, default=6, help="looks without a better one")
    command.add_argument("--learning-rate", type=float, default=1e-3, help="of Adam")
    command.add_argument("--batch-size", type=int, default=250, help="data points per update")
    command.add_argument("--calibration", type=float, default=0.2, help="share kept for thresholds")
    command.add_argument("--false-alarm-rate", type=float, default=0.05, help="of the threshold")
    command.add_argument("--seed", type=int, default=0, help="seed of every draw")
    command.add_argument(
        "--config", type=Path, metavar="FILE", help="TOML with flags' names as keys; flags win"
    )
    _json_flag(command)

    command = _command(
        commands,
        "score",
        _score,
        "score the rows of a file",
        "Write score, p-value and decision for every row, in the file's order.",
    )
    _model(command)
    command.add_argument("data", type=Path, metavar="DATA", help=DATA)
    command.add_argument(
        "--out", type=Path, required=True, metavar="FILE",
        help="a .parquet, .csv, .jsonl or .npz file",
    )  # fmt: skip
    command.add_argument(
        "--false-alarm-rate", type=float, help="of the decision; left out: the model's own"
    )
    _json_flag(command)

    command = _command(
        commands,
        "evaluate",
        _evaluate,
        "measure how well known outliers are found",
        "FPR95, AUROC and both AUPRs with 95 % bootstrap intervals.",
    )
    _model(command)
    command.add_argument("--id", type=Path, required=True, metavar="DATA", help="normal data")
    command.add_argument(
        "--ood", action="append", required=True, metavar="NAME=DATA", help="outliers; repeat"
    )
    _json_flag(command)

    command = _command(
        commands,
        "export",
        _export,
        "write a model as an ONNX file",
        "One ONNX graph with preprocessing, score and p-value.",
    )
    _model(command)
    command.add_argument("--onnx", type=Path, required=True, metavar="FILE", help="to write")

    command = _command(
        commands,
        "info",
        _info,
        "show what a model is",
        "The model's card, or its settings as JSON.",
    )
    _model(command)
    _json_flag(command)

    command = _command(
        commands,
        "compare",
        _compare,
        "compare with classical detectors",
        "AUROC, average precision and times of EnergyDetector beside classical detectors: on data "
        "that ship with scikit-learn, or on a table of yours with made-up anomalies.",
    )
    command.add_argument(
        "data", type=Path, nargs="?", metavar="DATA", help="a table; left out: all"
    )
    command.add_argument("--drop", action="append", default=[], metavar="COLUMN", help="leave out")
    command.add_argument("--seeds", type=int, default=1, help="how many seeds, from 0 on")
    command.add_argument(
        "--out", type=Path, default=Path("runs/compare"), metavar="DIR", help="folder for results"
    )


def with_config(argv: Sequence[str]) -> list[str]:
    """``argv`` with the flags of its ``--config`` file put before its own, which win."""
    given = list(argv)
    for k, token in enumerate(given):
        if token == "--config" and k + 1 < len(given):
            path = Path(given[k + 1])
        elif token.startswith("--config="):
            path = Path(token.removeprefix("--config="))
        else:
            continue
        return [given[0], *_flags(path), *given[1:]]
    return given


def _flags(path: Path) -> Iterator[str]:
    try:
        settings = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is no TOML file: {error}") from error
    for name, value in settings.items():
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, bool | dict):
                raise ValueError(f"{path}: {name} = {one} is neither a number nor text")
            yield f"--{name}={one}"


def _command(commands: Any, name: str, run: Any, help_: str, text: str) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(
        name,
        help=help_,
        description=text,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    command.set_defaults(run=run)
    return command


def _model(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "model", metavar="MODEL", help="a model's folder, or a name such as fashion-mnist"
    )


def _json_flag(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="print JSON instead of text")


def _fit(arguments: argparse.Namespace) -> None:
    import numpy as np

    from .calibration import alarms
    from .detector import EnergyDetector
    from .modelfile import check_place, save
    from .progress import console
    from .sources import open_source, some_rows

    console.stderr = arguments.json
    check_place(arguments.out)
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
    source = open_source(arguments.data, drop=arguments.drop)
    X = some_rows(source, arguments.rows, arguments.seed)
    if len(X) < 2:
        raise ValueError(f"{arguments.data} has one row; a model needs two at the very least")
    _refuse_constant(source, X)
    alarms(round(arguments.calibration * len(X)), arguments.false_alarm_rate)
    detector.fit(X)
    if source.columns is not None:
        detector.feature_names_in_ = np.array(source.columns, dtype=object)
    save(detector, arguments.out, f"Model of {arguments.data.name}")
    found = {
        "model": str(arguments.out),
        "rows": len(X),
        "calibration_rows": len(detector.calibration_scores_),
        "false_alarm_rate": arguments.false_alarm_rate,
        "threshold": detector.offset_,
    }
    if arguments.json:
        _print(found)
    else:
        console.print(
            f"{arguments.out}/ learned from {len(X):,} rows, {found['calibration_rows']:,} of them "
            f"kept for calibration; threshold {detector.offset_:.6g} at a false-alarm rate of "
            f"{arguments.false_alarm_rate:g}. The card is {arguments.out}/README.md",
            soft_wrap=True,
        )


def _refuse_constant(source: "Source", X: Any) -> None:
    if X.ndim != 2:
        return
    for k in range(X.shape[1]):
        if (X[:, k] == X[0, k]).all():
            if source.columns is None:
                raise ValueError(
                    f"{source.path}: column {k + 1} is {X[0, k]:g} in all rows: remove it"
                )
            name = source.columns[k]
            raise ValueError(
                f"{source.path}: column {name!r} is {X[0, k]:g} in all rows and tells nothing: "
                f"leave it out with --drop {name!r}"
            )


def _open_for(detector: "EnergyDetector", path: Path) -> "Source":
    """The data at ``path``, with the model's columns if both have names."""
    from .inputs import described
    from .sources import open_source

    names = getattr(detector, "feature_names_in_", None)
    source = open_source(path)
    if names is not None and source.columns is not None:
        source = open_source(path, columns=tuple(map(str, names)))
    pixels = len(detector.event_shape_) == 3
    if pixels != (len(source.event_shape) > 1) or (
        not pixels and source.event_shape != detector.event_shape_
    ):
        raise ValueError(
            f"{path} has rows of shape {source.event_shape}, but the model is of "
            f"{described(detector.event_shape_)}"
        )
    return source


def _scored(detector: "EnergyDetector", source: "Source", title: str) -> Iterator[Any]:
    """Scores, a chunk at a time."""
    from .inputs import described, points
    from .progress import counted

    for chunk in counted(source.chunks(CHUNK), source.rows, title):
        x = points(chunk)
        if tuple(x.shape[1:]) != detector.event_shape_:
            raise ValueError(
                f"{source.path} has points of {described(tuple(x.shape[1:]))}, but the model is "
                f"of {described(detector.event_shape_)}"
            )
        yield detector.scorer_.in_parts(x).numpy()


def _score(arguments: argparse.Namespace) -> None:
    from . import calibration
    from .modelfile import load
    from .progress import console
    from .sinks import open_sink

    console.stderr = arguments.json
    detector = load(arguments.model)
    threshold = detector.offset_
    if arguments.false_alarm_rate is not None:
        threshold = calibration.threshold(detector.calibration_scores_, arguments.false_alarm_rate)
    source = _open_for(detector, arguments.data)
    rows = outliers = 0
    with open_sink(arguments.out) as sink:
        for scores in _scored(detector, source, "scoring"):
            outlier = scores < threshold
            p = calibration.p_values(detector.calibration_scores_, scores)
            sink.write({"score": scores, "p_value": p, "outlier": outlier})
            rows, outliers = rows + len(scores), outliers + int(outlier.sum())
    if arguments.json:
        _print({"rows": rows, "outliers": outliers, "threshold": threshold})
    else:
        console.print(
            f"{outliers:,} of {rows:,} rows score below {threshold:.6g}; all scores: "
            f"{arguments.out}",
            soft_wrap=True,
        )


def _evaluate(arguments: argparse.Namespace) -> None:
    import numpy as np
    from rich.table import Table

    from .metrics import intervals
    from .modelfile import load
    from .progress import console

    console.stderr = arguments.json
    detector = load(arguments.model)
    outside = {}
    for text in arguments.ood:
        name, equals, path = text.partition("=")
        if not equals or not name or not path:
            raise ValueError(f"--ood {text}: write NAME=DATA")
        outside[name] = _open_for(detector, Path(path))
    inside = _open_for(detector, arguments.id)
    known = np.concatenate(list(_scored(detector, inside, "normal")))
    found = {
        name: intervals(known, np.concatenate(list(_scored(detector, source, name))))
        for name, source in outside.items()
    }
    if arguments.json:
        _print({n: {k: v._asdict() for k, v in f.items()} for n, f in found.items()})
        return
    table = Table(title=f"{arguments.id.name} against …, per cent with 95 % intervals")
    for heading in (
        "outliers",
        "FPR95",
        "AUROC",
        "AUPR, normal positive",
        "AUPR, outliers positive",
    ):
        table.add_column(heading)
    for name, figures in found.items():
        cells = (
            f"{100 * v.value:.2f} ({100 * v.low:.2f} to {100 * v.high:.2f})"
            for v in figures.values()
        )
        table.add_row(name, *cells)
    console.print(table)


def _export(arguments: argparse.Namespace) -> None:
    from .export import to_onnx
    from .modelfile import load
    from .progress import console

    to_onnx(load(arguments.model), arguments.onnx)
    console.print(f"{arguments.onnx}: input x, outputs score and p_value", soft_wrap=True)


def _info(arguments: argparse.Namespace) -> None:
    from rich.markdown import Markdown

    from .modelfile import describe
    from .progress import console

    about, text = describe(arguments.model)
    if arguments.json:
        _print(about)
    else:
        console.print(Markdown(text))


def _compare(arguments: argparse.Namespace) -> None:
    from functools import partial

    from . import compare
    from .detector import EnergyDetector
    from .files import whole_file
    from .progress import console
    from .sources import open_source

    if arguments.seeds < 1:
        raise ValueError(f"--seeds {arguments.seeds} must be at least 1")
    problems: Any = compare.standard_problems
    if arguments.data is not None:
        source = open_source(arguments.data, drop=arguments.drop)
        if len(source.event_shape) > 1:
            raise ValueError(f"{arguments.data} holds images; compare takes a table")
        problems = partial(compare.user_problem, source.read())
    if missing := compare.left_out():
        console.print(missing)
    ours = {"EnergyDetector": lambda seed: EnergyDetector(random_state=seed)}
    results = []
    for result in compare.compare(problems, ours | compare.classical(), range(arguments.seeds)):
        results.append(result)
        console.print(f"{result.problem}, {result.detector}: AUROC {100 * result.auroc:.1f}")
    with whole_file(arguments.out / "compare.json") as file:
        file.write(json.dumps(compare.rows(results), indent=1).encode())
    with whole_file(arguments.out / "compare.md") as file:
        file.write(compare.markdown(results).encode())
    console.print(compare.table(results))
    console.print(f"Figures: {arguments.out}/")


def _print(value: Any) -> None:
    json.dump(value, sys.stdout, indent=1)
    sys.stdout.write("\n")
