"""``uspebm score``: scores, p-values and decisions for the rows of a file."""

import argparse
from argparse import Namespace
from collections.abc import Callable
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .flags import (
    DATA_FILES,
    Commands,
    drop_flag,
    json_flag,
    model_argument,
    new_command,
    shard_of,
    share,
    skip_flag,
    whole,
)
from .output import answering, files_skipped, print_json, refuse_inside, refuse_without_folder, say

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..data.readers import Source


def add_score(commands: Commands) -> None:
    """Add the command."""
    command = new_command(
        commands,
        "score",
        run_score,
        "score rows or images",
        "Write score, p-value and decision for every row or image, in their order. Columns are "
        "found by name if model and file have names: their order does not matter, nor do further "
        "ones. Of a folder of images, the first column has the files' paths in it.",
    )
    model_argument(command)
    command.add_argument("data", type=Path, metavar="DATA", help=DATA_FILES)
    command.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="FILE",
        help="a .parquet, .csv, .jsonl or .npz file",
    )
    _decision_flags(command)
    command.add_argument(
        "--keep",
        action="append",
        default=[],
        metavar="COLUMN",
        help="a column of DATA to write beside the scores, as it is, or 'all'; repeatable",
    )
    command.add_argument(
        "--shard",
        type=shard_of,
        metavar="I/N",
        help="of a table, score only part I (from 1 on) of N, a contiguous range of rows: outputs "
        "of all parts, one after the other, are that of the whole, bit for bit",
    )
    drop_flag(command)
    skip_flag(command)
    json_flag(command)


def _decision_flags(command: argparse.ArgumentParser) -> None:
    """What is an outlier, and why."""
    command.add_argument(
        "--false-alarm-rate",
        type=share,
        metavar="FLOAT",
        help="of the decision (default: the model's own threshold)",
    )
    command.add_argument(
        "--false-discovery-rate",
        type=share,
        metavar="FLOAT",
        help="decide over all of DATA together, so that of those called outliers at most this "
        "share is not, on average (Benjamini and Hochberg); instead of --false-alarm-rate",
    )
    command.add_argument(
        "--confidence",
        type=share,
        metavar="FLOAT",
        help="the false-alarm rate holds for this very calibration with this probability, not only "
        "on average over calibrations",
    )
    command.add_argument(
        "--weight",
        metavar="COLUMN",
        help="a column of DATA with the weights of rows, for a model that was calibrated by "
        "weights (uspebm calibrate)",
    )
    command.add_argument(
        "--why",
        type=whole(1),
        metavar="K",
        help="of a table, the K columns that make a row unlikely, for rows called outliers: value, "
        "what was expected given the rest, and what the score would gain; of images, heat maps of "
        "the K least likely, in a folder beside FILE",
    )


@answering
def run_score(arguments: Namespace) -> None:
    """Write scores, p-values and decisions."""
    from ..data.writers import SCORE_COLUMNS, check_sink, open_sink
    from ..detector.folder import load
    from ..support.files import check_writable
    from ..support.words import said_count
    from .deciding import decisions
    from .user_data import open_for, row_chunks, scored_rows, tell_skipped
    from .why import explaining

    out: Path = arguments.out
    check_sink(out, SCORE_COLUMNS)
    check_writable(out)
    refuse_inside(out, arguments.data)
    refuse_without_folder("--skip-bad", arguments.skip_bad, [arguments.data])
    detector = load(arguments.model)
    decide = decisions(arguments, detector, lambda: row_chunks(detector, source))
    source = open_for(detector, arguments.data, arguments.drop, arguments.skip_bad)
    if arguments.shard is not None:
        source = _part(arguments, source)
    if out.exists() and out.samefile(arguments.data):
        raise ValueError(f"--out {out} is the data: choose another file")
    beside = _beside(arguments, source)
    why = explaining(arguments, detector, source)
    rows = outliers = 0
    with open_sink(out) as sink, closing(scored_rows(detector, source, "scoring")) as scored:
        for chunk, *values in decide(scored, _weights(arguments, source)):
            columns = dict(zip(SCORE_COLUMNS, values, strict=True))
            sink.write(beside(len(values[0])) | columns | why(chunk, values[0], values[2]))
            rows, outliers = rows + len(values[0]), outliers + int(values[2].sum())
    skipped, maps = tell_skipped(source), why.drawn()
    if arguments.json:
        counts = {"rows": rows, "skipped": skipped, "outliers": outliers}
        shard = {} if arguments.shard is None else {"shard": arguments.shard}
        beside_it = {} if maps is None else {"why": str(maps)}
        print_json({"out": str(out), **beside_it, **shard, **counts, "threshold": decide.limit})
        return
    say(
        f"{outliers:,} of {said_count(rows, len(detector.event_shape_) > 1)}"
        f"{files_skipped(skipped)} {decide.said}; all scores: {out}"
        + decide.hint(rows, outliers)
        + ("" if maps is None else f"; why, of the least likely: {maps}/")
    )


def _part(arguments: Namespace, source: "Source") -> "Source":
    """The rows that ``--shard`` asks for."""
    from ..data.readers import Shard

    number, shards = arguments.shard
    said = f"--shard {number}/{shards}"
    if len(source.event_shape) != 1:
        raise ValueError(
            f"{said} is for tables, and {source.path} has images: give each part as a folder"
        )
    if arguments.false_discovery_rate is not None:
        raise ValueError(
            f"{said}: --false-discovery-rate decides over all rows together; take the p-values of "
            "all shards, or --false-alarm-rate"
        )
    return Shard(source, number, shards)


def _beside(arguments: Namespace, source: "Source") -> "Callable[[int], dict[str, NDArray[Any]]]":
    """What stands beside the scores: columns of the next so many rows."""
    import numpy as np

    from ..data.readers import ImageFolder
    from ..data.writers import SCORE_COLUMNS
    from .column_texts import ColumnTexts

    if isinstance(source, ImageFolder):
        if arguments.keep:
            raise ValueError(f"--keep {arguments.keep[0]}: images have no columns")
        names = source.names()
        return lambda rows: {"file": np.array(list(islice(names, rows)))}
    if not arguments.keep:
        return lambda rows: {}
    take = ColumnTexts(arguments.data, [] if "all" in arguments.keep else arguments.keep, source)
    for name in take.names:
        if name in SCORE_COLUMNS:
            raise ValueError(f"--keep {name}: the scores have a column of that name; rename it")
    return take


def _weights(arguments: Namespace, source: "Source") -> "Callable[[int], NDArray[Any]] | None":
    """Of the next so many rows."""
    from .column_texts import ColumnTexts
    from .user_data import as_weights

    if arguments.weight is None:
        return None
    take, before = ColumnTexts(arguments.data, [arguments.weight], source), 0

    def weights(rows: int) -> "NDArray[Any]":
        nonlocal before
        cells, before = take(rows)[arguments.weight], before + rows
        return as_weights(cells, arguments.weight, before - rows)

    return weights
