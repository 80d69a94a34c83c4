"""The command as a process of its own."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from tests.fresh import COMMAND, Child, started


class Running(NamedTuple):
    """A service, and where it listens."""

    process: Child
    url: str

    @property
    def address(self) -> tuple[str, int]:
        found = urlsplit(self.url)
        return found.hostname or "", found.port or 0


@contextmanager
def running(model: Path | str, *flags: str, program: str = "") -> Iterator[Running]:
    """``uspebm serve MODEL``; or ``program``, which does the same with other limits."""
    command = (model,) if program else ("serve", model, "--port", "0", "--json")
    with started(program or COMMAND, *command, *flags) as process:
        said = ""
        for line in process.stdout:
            said += line
            if line.startswith("}"):
                break
        if not said:
            raise AssertionError(process.rest().stderr)
        yield Running(process, json.loads(said)["url"])


IMPATIENT = """
import json, logging, sys
from uspebm.serve.limits import Limits
from uspebm.serve.run import listening, serve_until_told
from uspebm.serve.service import Service

logging.basicConfig(level=logging.INFO, format="%(message)s")
limits = Limits(**json.loads(sys.argv[2]))
with listening("127.0.0.1", 0) as listener:
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/"

    def ready():
        print(json.dumps({"url": url}, indent=1), flush=True)

    serve_until_told(Service(sys.argv[1], limits), listener, None, ready)
"""
"""With limits of the test's own, in JSON."""
