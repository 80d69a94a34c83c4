"""``uspebm info``: what a model is."""

from argparse import Namespace

from .flags import Commands, json_flag, model_argument, new_command
from .output import answering, print_json


def add_info(commands: Commands) -> None:
    """Add the command."""
    command = new_command(
        commands,
        "info",
        run_info,
        "show what a model is",
        "The model's card, or its settings as JSON.",
    )
    model_argument(command)
    json_flag(command)


@answering
def run_info(arguments: Namespace) -> None:
    """Show what a model is."""
    from rich.markdown import Markdown

    from ..detector.folder import describe
    from ..support.progress import console

    about, text = describe(arguments.model)
    if arguments.json:
        print_json(about)
    else:
        shown = (line for line in text.splitlines() if not line.startswith("!["))  # no pictures
        console.print(Markdown("\n".join(shown)))
