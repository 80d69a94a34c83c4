"""``uspebm score``: scores, p-values and decisions for the rows of a file."""

from argparse import Namespace
from contextlib import closing
from itertools import islice
from pathlib import Path

from .flags import (
    DATA_FILES,
    Commands,
    drop_flag,
    json_flag,
    model_argument,
    new_command,
    share,
    skip_flag,
)
from .output import answering, files_skipped, print_json, refuse_inside, refuse_without_folder, say

SCORE_COLUMNS = ("score", "p_value", "outlier")


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
    drop_flag(command)
    skip_flag(command)
    json_flag(command)


@answering
def run_score(arguments: Namespace) -> None:
    """Write scores, p-values and decisions."""
    import numpy as np

    from ..data.readers import ImageFolder
    from ..data.writers import check_sink, open_sink
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
    if arguments.false_alarm_rate is not None:
        limit = threshold(known, arguments.false_alarm_rate)
    source = open_for(detector, arguments.data, arguments.drop, arguments.skip_bad)
    if out.exists() and out.samefile(arguments.data):
        raise ValueError(f"--out {out} is the data: choose another file")
    names = source.names() if isinstance(source, ImageFolder) else None
    rows = outliers = 0
    with open_sink(out) as sink, closing(scores_of(detector, source, "scoring")) as scored:
        for scores in scored:
            outlier = scores < limit
            values = (scores, p_values(known, scores), outlier)
            columns = dict(zip(SCORE_COLUMNS, values, strict=True))
            if names is not None:
                columns = {"file": np.array(list(islice(names, len(scores))))} | columns
            sink.write(columns)
            rows, outliers = rows + len(scores), outliers + int(outlier.sum())
    skipped = tell_skipped(source)
    if arguments.json:
        counts = {"rows": rows, "skipped": skipped, "outliers": outliers}
        print_json({"out": str(out), **counts, "threshold": limit})
    else:
        say(
            f"{outliers:,} of {rows:,} rows{files_skipped(skipped)} score below {limit:.6g}; all "
            f"scores: {out}"
        )
