"""``uspebm export``: a model as an ONNX file."""

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from .flags import Commands, json_flag, model_argument, new_command
from .output import answering, print_json, say

if TYPE_CHECKING:
    from ..detector.energy_detector import EnergyDetector


def add_export(commands: Commands) -> None:
    """Add the command."""
    command = new_command(
        commands,
        "export",
        run_export,
        "write a model as an ONNX file",
        "One ONNX graph from numbers to score and p-value, units and gaps included. Text and dates "
        "become numbers before it: by which rule, the file's metadata tell.",
    )
    model_argument(command)
    command.add_argument(
        "--onnx", type=Path, required=True, metavar="FILE", help="the ONNX file to write"
    )
    json_flag(command)


@answering
def run_export(arguments: Namespace) -> None:
    """Write a model as an ONNX file."""
    from ..detector.folder import load
    from ..detector.onnx_export import check_onnx, to_onnx

    check_onnx(arguments.onnx)
    detector = load(arguments.model)
    to_onnx(detector, arguments.onnx)
    if arguments.json:
        table = len(detector.event_shape_) == 1
        print_json(
            {
                "onnx": str(arguments.onnx),
                "inputs": ["x"],
                "columns": list(detector.columns().names) if table else None,
                "outputs": ["score", "p_value"],
            }
        )
    else:
        say(f"{arguments.onnx}: input x{_columns(detector)}, outputs score and p_value")


def _columns(detector: "EnergyDetector") -> str:
    """What the numbers of a row are, where columns have names."""
    if not hasattr(detector, "feature_names_in_"):
        return ""
    columns = detector.columns()
    made = any(column.kind in ("category", "date") for column in columns.columns)
    return (
        f" (float64, {len(columns.names)} numbers a row, which the file's metadata list as "
        "uspebm.columns"
        + (
            "; text and dates become these before the graph, by uspebm.encoding there)"
            if made
            else ")"
        )
    )
