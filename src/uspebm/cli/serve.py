"""``uspebm serve``: a model as a service on the network, with a page to try it on."""

import os
import sys
from argparse import Namespace
from pathlib import Path

from .flags import Commands, json_flag, model_argument, new_command, number_flag, whole
from .output import answering, print_json, say

TOKEN_VARIABLE = "USPEBM_TOKEN"


def add_serve(commands: Commands) -> None:
    """Add the command."""
    command = new_command(
        commands,
        "serve",
        run_serve,
        "answer requests for scores over HTTP",
        "POST /score takes rows and images, and / is a page to try the model on; /docs tells the "
        "rest. SIGHUP reads the model again, SIGTERM ends it when what was taken is answered. "
        "Without a token only this machine is served.",
    )
    model_argument(command)
    number_flag(command, "--port", whole(0, 65535), 8000, "where to listen; 0: any that is free")
    command.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="where to listen (default: %(default)s); any other than this machine needs a token",
    )
    command.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help=f"the token that requests have to bring; or it is in the variable {TOKEN_VARIABLE}",
    )
    json_flag(command)


@answering
def run_serve(arguments: Namespace) -> None:
    """Serve until told to end."""
    from ..support.extras import need

    for module in ("fastapi", "httptools", "prometheus_client", "uvicorn"):
        need(module, "the service", "serve")
    from ..serve.run import check_access, listening, serve_until_told
    from ..serve.service import Service

    token = _token(arguments.token_file)
    check_access(arguments.host, token)
    with listening(arguments.host, arguments.port) as listener:
        host = f"[{arguments.host}]" if ":" in arguments.host else arguments.host
        url = f"http://{host}:{listener.getsockname()[1]}/"
        service = Service(arguments.model)

        def ready() -> None:
            if arguments.json:
                print_json({"url": url})
            else:
                say(f"{arguments.model} is served at {url} (Ctrl-C ends it)")
            sys.stdout.flush()  # who started it may read this from a pipe

        serve_until_told(service, listener, token, ready)


def _token(file: Path | None) -> str | None:
    if file is not None:
        token = file.read_text(encoding="utf-8", errors="replace").strip()
    else:
        token = os.environ.get(TOKEN_VARIABLE, "").strip()
        if not token:
            return None
    if not token:
        raise ValueError(f"--token-file {file} is empty: put a token in it")
    return token
