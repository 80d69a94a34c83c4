"""``uspebm calibrate``: a model's thresholds from other data."""

from argparse import Namespace
from pathlib import Path

from .flags import DATA_FILES, Commands, drop_flag, json_flag, model_argument, new_command
from .output import answering, print_json, say


def add_calibrate(commands: Commands) -> None:
    """Add the command."""
    command = new_command(
        commands,
        "calibrate",
        run_calibrate,
        "set a model's thresholds by other data",
        "Write a model with the same scores and other thresholds: those of normal data that it was "
        "not fitted to. With weights, p-values hold for data in which rows like these are met as "
        "often as the weights say.",
    )
    model_argument(command)
    command.add_argument("data", type=Path, metavar="DATA", help=DATA_FILES)
    command.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="the new model's folder"
    )
    command.add_argument(
        "--weight",
        metavar="COLUMN",
        help="a column of DATA: how much more often a row like this one is met than in DATA",
    )
    drop_flag(command)
    json_flag(command)


@answering
def run_calibrate(arguments: Namespace) -> None:
    """Set thresholds by other data."""
    from ..data.readers import texts
    from ..detector.folder import check_place, load, save_model
    from ..evaluation.calibration import effective_size
    from ..support.words import said_count
    from .user_data import as_weights, columns_found, open_for

    check_place(arguments.out)
    detector = load(arguments.model)
    source = open_for(detector, arguments.data, arguments.drop)
    X, weights = source.read(), None
    if arguments.weight is not None:
        blocks = list(texts(arguments.data, [arguments.weight]))
        cells = [cell for block in blocks for cell in block[arguments.weight]]
        weights = as_weights(cells, arguments.weight)
        try:
            size = effective_size(weights)
        except ValueError as error:
            raise ValueError(f"--weight {arguments.weight}: {error}") from None
    with columns_found():
        found = detector.recalibrated(X, weights)
    counted = said_count(len(X), X.ndim > 2)
    title, data = f"Model calibrated by {arguments.data.name}", f"{counted} calibrate it"
    save_model(found, arguments.out, title=title, data=data)
    effective = len(X) if weights is None else size
    if arguments.json:
        said = {"rows": len(X), "effective_rows": effective, "threshold": found.offset_}
        print_json({"model": str(arguments.out), **said})
        return
    by = "" if weights is None else f", by weights, which count for {effective:,.1f} equal ones"
    say(f"{arguments.out}/ calibrated by {counted}{by}; threshold {found.offset_:.6g}")
