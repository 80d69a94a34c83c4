"""``uspebm score``: scores, p-values and decisions for the rows of a file."""

from argparse import Namespace
from collections.abc import Callable, Iterator
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
        "score the rows of a file",
        "Write score, p-value and decision for every row, in the file's order. Columns are found "
        "by name if model and file have names: their order does not matter, nor do further ones. "
        "Of a folder of images, the first column has the files' paths in it.",
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
        help="decide over all rows together, so that of those called outliers at most this share "
        "is not, on average (Benjamini and Hochberg); instead of --false-alarm-rate",
    )
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


@answering
def run_score(arguments: Namespace) -> None:
    """Write scores, p-values and decisions."""
    from ..data.writers import SCORE_COLUMNS, check_sink, open_sink
    from ..detector.folder import load
    from ..evaluation.calibration import p_values, threshold
    from ..support.files import check_writable
    from .user_data import open_for, scores_of, tell_skipped

    out: Path = arguments.out
    check_sink(out, SCORE_COLUMNS)
    check_writable(out)
    refuse_inside(out, arguments.data)
    refuse_without_folder("--skip-bad", arguments.skip_bad, [arguments.data])
    detector = load(arguments.model)
    known, limit = detector.calibration_scores_, detector.offset_
    if None not in (arguments.false_alarm_rate, arguments.false_discovery_rate):
        raise ValueError("give --false-alarm-rate or --false-discovery-rate, not both")
    if arguments.false_alarm_rate is not None:
        limit = threshold(known, arguments.false_alarm_rate)
    source = open_for(detector, arguments.data, arguments.drop, arguments.skip_bad)
    if arguments.shard is not None:
        source = _part(arguments, source)
    if out.exists() and out.samefile(arguments.data):
        raise ValueError(f"--out {out} is the data: choose another file")
    beside = _beside(arguments, source)
    rows = outliers = 0
    with open_sink(out) as sink, closing(scores_of(detector, source, "scoring")) as scored:
        for scores, outlier in _decided(scored, known, limit, arguments.false_discovery_rate):
            values = (scores, p_values(known, scores), outlier)
            columns = dict(zip(SCORE_COLUMNS, values, strict=True))
            sink.write(beside(len(scores)) | columns)
            rows, outliers = rows + len(scores), outliers + int(outlier.sum())
    skipped = tell_skipped(source)
    rate = arguments.false_discovery_rate
    if arguments.json:
        counts = {"rows": rows, "skipped": skipped, "outliers": outliers}
        shard = {} if arguments.shard is None else {"shard": arguments.shard}
        limits = {"threshold": limit if rate is None else None}
        print_json({"out": str(out), **shard, **counts, **limits})
        return
    how = f"score below {limit:.6g}" if rate is None else f"are discoveries at a rate of {rate:g}"
    say(f"{outliers:,} of {rows:,} rows{files_skipped(skipped)} {how}; all scores: {out}")


def _part(arguments: Namespace, source: "Source") -> "Source":
    """The rows that ``--shard`` asks for."""
    from ..data.readers import Shard

    number, shards = arguments.shard
    said = f"--shard {number}/{shards}"
    if len(source.event_shape) != 1:
        raise ValueError(f"{said} is for tables, and {source.path} has images: score them in parts")
    if arguments.false_discovery_rate is not None:
        raise ValueError(
            f"{said}: --false-discovery-rate decides over all rows together; take the p-values of "
            "all shards, or --false-alarm-rate"
        )
    return Shard(source, number, shards)


def _decided(
    scored: "Iterator[NDArray[Any]]", known: "NDArray[Any]", limit: float, rate: float | None
) -> "Iterator[tuple[NDArray[Any], NDArray[Any]]]":
    """Scores and decisions, a chunk at a time; with a rate of discoveries, after all are known."""
    if rate is None:
        yield from ((scores, scores < limit) for scores in scored)
        return
    import numpy as np

    from ..evaluation.calibration import benjamini_hochberg, p_values

    chunks = list(scored)
    found = benjamini_hochberg(p_values(known, np.concatenate(chunks)), rate)
    begin = 0
    for scores in chunks:
        yield scores, found[begin : begin + len(scores)]
        begin += len(scores)


def _beside(arguments: Namespace, source: "Source") -> "Callable[[int], dict[str, NDArray[Any]]]":
    """What stands beside the scores: columns of the next so many rows."""
    import numpy as np

    from ..data.readers import ImageFolder, Shard, texts
    from ..data.readers.source import READ_ROWS
    from ..data.writers import SCORE_COLUMNS

    if isinstance(source, ImageFolder):
        if arguments.keep:
            raise ValueError(f"--keep {arguments.keep[0]}: images have no columns")
        names = source.names()
        return lambda rows: {"file": np.array(list(islice(names, rows)))}
    if not arguments.keep:
        return lambda rows: {}
    blocks = texts(arguments.data, [] if "all" in arguments.keep else arguments.keep)
    held: dict[str, list[str]] = next(blocks)
    for name in held:
        if name in SCORE_COLUMNS:
            raise ValueError(f"--keep {name}: the scores have a column of that name; rename it")

    def take(rows: int) -> "dict[str, NDArray[Any]]":
        while len(next(iter(held.values()))) < rows:
            for name, more in next(blocks).items():
                held[name] += more
        taken = {name: np.array(values[:rows]) for name, values in held.items()}
        for values in held.values():
            del values[:rows]
        return taken

    # Of a shard, those of the rows before it are read and left.
    before = source.begin if isinstance(source, Shard) else 0
    for begin in range(0, before, READ_ROWS):
        take(min(READ_ROWS, before - begin))
    return take
