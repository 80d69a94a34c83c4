"""``uspebm export``: a model as an ONNX file."""

from argparse import Namespace
from pathlib import Path

from .flags import Commands, json_flag, model_argument, new_command
from .output import answering, print_json, say


def add_export(commands: Commands) -> None:
    """Add the command."""
    command = new_command(
        commands,
        "export",
        run_export,
        "write a model as an ONNX file",
        "One ONNX graph with preprocessing, score and p-value.",
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
    to_onnx(load(arguments.model), arguments.onnx)
    if arguments.json:
        print_json({"onnx": str(arguments.onnx), "inputs": ["x"], "outputs": ["score", "p_value"]})
    else:
        say(f"{arguments.onnx}: input x, outputs score and p_value")
