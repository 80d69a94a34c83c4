"""``uspebm fit``: a detector from a file.

What can be known to be wrong before the work is refused before it.
"""

import argparse
from argparse import Namespace
from functools import partial
from pathlib import Path
from shutil import rmtree
from time import monotonic
from typing import TYPE_CHECKING, Any

from .flags import (
    DATA_FILES,
    Commands,
    above_zero,
    calibration,
    column_flags,
    drop_flag,
    image_size,
    json_flag,
    new_command,
    number_flag,
    share,
    skip_flag,
    tensorboard_flag,
    whole,
)
from .output import answering, files_skipped, print_json, refuse_inside, refuse_without_folder, say
from .report import followed, leave_report

if TYPE_CHECKING:
    from ..data.readers import Source
    from ..data.readers.source import Rows
    from ..detector.energy_detector import EnergyDetector

RECIPES = (
    *("auto", "tables", "tables-density", "tables-ps-usp", "tables-srlmc"),
    *("images", "images-energy", "pixels"),
)


def add_fit(commands: Commands) -> None:
    """Add the command."""
    command = new_command(
        commands,
        "fit",
        run_fit,
        "learn a detector from a file",
        "Learn what normal data look like, and save the model to a folder.",
    )
    fit_flags(command)


def fit_flags(command: argparse.ArgumentParser) -> None:
    """What can be set, by flags or in a file of settings."""
    command.add_argument("data", type=Path, metavar="DATA", help=DATA_FILES)
    command.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="the model's folder"
    )
    drop_flag(command)
    column_flags(command)
    command.add_argument(
        "--resize",
        type=image_size,
        metavar="SIZE",
        help="of a folder of images of any sizes: bring them to this one, such as 28 or 32x48 "
        "(height x width), also when they are scored (default: they must have one size)",
    )
    skip_flag(command)
    most = "rows or images to learn from at most, drawn at random"
    number_flag(command, "--rows", whole(2), 200_000, most)
    _training_flags(command)
    command.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="a TOML file with names of flags as keys; flags win over it",
    )
    json_flag(command)


def _training_flags(command: argparse.ArgumentParser) -> None:
    """How to learn, for how long, and what is kept for thresholds."""
    command.add_argument(
        "--recipe",
        choices=RECIPES,
        default=RECIPES[0],
        help="how to train (default: %(default)s, by what the data are)",
    )
    command.add_argument(
        "--max-updates",
        type=whole(0),
        metavar="INT",
        help="training steps of the network, at most (default: the recipe's own)",
    )
    command.add_argument(
        "--minutes",
        type=above_zero,
        metavar="FLOAT",
        help="how long training may take (default: as long as the recipe's updates do)",
    )
    command.add_argument(
        "--calibration",
        type=calibration,
        default="auto",
        metavar="SHARE",
        help="share of the data kept for thresholds; or folds, for recipes that train nothing: "
        "none is kept, and all are scored without their fold (default: folds where that takes a "
        "moment, otherwise 0.2)",
    )
    number_flag(command, "--false-alarm-rate", share, 0.05, "of normal data, called outliers")
    command.add_argument(
        "--contamination",
        type=share,
        default=0.0,
        metavar="FLOAT",
        help="share of the data that may be faults: so many, the least likely, are neither "
        "learned from nor calibrated by, so of fewer faults more alarms are false (default: none)",
    )
    number_flag(command, "--seed", whole(0, 2**32 - 1), 0, "random seed")
    number_flag(command, "--processes", whole(1), 1, "processes that share the training")
    command.add_argument(
        "--device",
        default="cpu",
        metavar="NAME",
        help="where to train on images, such as cuda or mps (default: %(default)s)",
    )
    command.add_argument(
        "--precision",
        choices=("full", "bf16"),
        default="full",
        help="of gradients while training on images: bf16 for GPUs that are faster in bfloat16; "
        "weights and scores have all digits (default: %(default)s)",
    )
    tensorboard_flag(command)


@answering
def run_fit(arguments: Namespace) -> None:
    """Learn a detector and save it."""
    from ..detector.folder import ABOUT, check_place
    from ..report.looking import looked_at
    from ..support.group import current_group
    from ..support.words import said_count
    from .user_data import names_read, skipped_of

    began = monotonic()
    check_place(arguments.out)
    refuse_inside(arguments.out, arguments.data)
    if arguments.out.exists() and arguments.out.samefile("."):  # which is another one, replaced
        arguments.out = arguments.out.resolve()
    if not current_group().main:
        _learned(arguments)  # a share of the training; the main process does the rest
        return
    replaced = (arguments.out / ABOUT).exists()
    training = training_folder(arguments.out)
    with followed(arguments, training, training.with_suffix(".tensorboard")):
        detector, X, source = learn_and_save(arguments)
    skipped = len(skipped_of(source))
    names = names_read(source, arguments.rows, arguments.seed)
    look = partial(looked_at, detector, X, training, arguments.seed, names)
    report = leave_report(arguments.out, arguments, began, look)
    rmtree(training, ignore_errors=True)
    assert detector.recipe_ is not None
    if arguments.json:
        print_json(
            {
                "model": str(arguments.out),
                "recipe": detector.recipe_.name,
                "verdict": detector.verdict(),
                "rows": len(X),
                "skipped": skipped,
                "calibration_rows": len(detector.calibration_scores_),
                "false_alarm_rate": arguments.false_alarm_rate,
                "threshold": detector.offset_,
                "report": None if report is None else str(report),
            }
        )
        return
    say(
        f"{arguments.out}/ learned from {said_count(len(X), X.ndim > 2)}{files_skipped(skipped)}, "
        f"{_calibrated_by(detector)}{_left_out(detector)}; {detector.verdict()}; threshold "
        f"{detector.offset_:.6g} at a false-alarm rate of {arguments.false_alarm_rate:g}. The card "
        f"is {arguments.out}/README.md"
        + ("" if report is None else f", the report {report}")
        + ("; the model that was there before is replaced" if replaced else "")
    )


def learn_and_save(arguments: Namespace) -> "tuple[EnergyDetector, Rows, Source]":
    """A detector, the rows it is from, and where these were read; its folder is written.

    What was kept of its training is still there.
    """
    from ..detector.folder import save_model
    from ..support.words import said_count

    detector, X, source, made = _learned(arguments)
    detector.dropped_columns_ = tuple(arguments.drop)
    detector.resized_ = arguments.resize is not None
    name = arguments.data.name
    data = f"{said_count(len(X), X.ndim > 2)} of {name}"
    save_model(detector, arguments.out, f"Model of {name}", data, made)
    return detector, X, source


def _left_out(detector: "EnergyDetector") -> str:
    encoding = detector.encoding_
    columns = () if encoding is None else encoding.columns
    gone = [f"{c.name!r} ({c.note})" for c in columns if c.kind == "left out"]
    return f"; left out: {', '.join(gone)}" if gone else ""


def _calibrated_by(detector: "EnergyDetector") -> str:
    if detector.folded_:
        return "each scored without its fold for calibration"
    return f"{len(detector.calibration_scores_):,} of them kept for calibration"


def _learned(arguments: Namespace) -> "tuple[EnergyDetector, Rows, Source, dict[str, Any]]":
    """A detector, the rows it is from, where these were read, and how it was made."""
    from ..data.readers import FolderRules, open_source, some_rows
    from ..detector.energy_detector import EnergyDetector
    from ..support.group import current_group
    from .making import how_made, place_of
    from .user_data import (
        check_columns,
        hints_of,
        refuse_too_few,
        tell_repeated,
        tell_skipped,
        tell_untrained,
    )

    detector = EnergyDetector(
        arguments.recipe,
        max_updates=arguments.max_updates,
        calibration=arguments.calibration,
        false_alarm_rate=arguments.false_alarm_rate,
        random_state=arguments.seed,
        verbose=True,
    )
    enough = partial(refuse_too_few, arguments)
    enough(arguments.rows, f"--rows {arguments.rows}", arguments.data.is_dir())
    refuse_without_folder("--resize", arguments.resize, [arguments.data])
    refuse_without_folder("--skip-bad", arguments.skip_bad, [arguments.data])
    rules = FolderRules(arguments.resize, arguments.skip_bad)
    source = open_source(
        arguments.data, drop=arguments.drop, images=rules, wish=hints_of(arguments)
    )
    if source.rows is not None:
        enough(source.rows, str(source.path), len(source.event_shape) > 1)
    X = some_rows(source, arguments.rows, arguments.seed)
    tell_skipped(source)
    enough(len(X), str(source.path), X.ndim > 2)
    check_columns(source, X)
    tell_repeated(source, X)
    made = how_made(arguments)
    training = training_folder(arguments.out)
    try:
        detector.fit(
            X,
            folder=training,
            minutes=arguments.minutes,
            device=place_of(arguments),
            contamination=arguments.contamination,
        )
    except KeyboardInterrupt:
        if any(training.glob("*.ckpt")):
            say(f"Interrupted; {training}/ keeps what there is: the same command goes on with it")
        raise
    finally:
        if current_group().main and not any(training.glob("*.ckpt")):
            rmtree(training, ignore_errors=True)
    tell_untrained(detector, arguments.max_updates)
    _name_columns(detector, source)
    return detector, X, source, made


def _name_columns(detector: "EnergyDetector", source: "Source") -> None:
    """As the file does."""
    import numpy as np

    if source.encoding is not None and not source.encoding.plain_numbers:
        detector.set_encoding(source.encoding)
    elif source.columns is not None:
        detector.feature_names_in_ = np.array(source.columns, dtype=object)


def training_folder(out: Path) -> Path:
    """Where a training is kept until its model is saved: beside the model's folder."""
    from ..recipes.run import KEPT_BESIDE

    named = out.resolve() if out.name in ("", "..") else out
    return named.with_name(named.name + KEPT_BESIDE)
