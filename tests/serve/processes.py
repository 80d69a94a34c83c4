"""The command as a process of its own, as people run it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit


class Running(NamedTuple):
    """A service, and where it listens."""

    process: subprocess.Popen[str]
    url: str

    @property
    def address(self) -> tuple[str, int]:
        found = urlsplit(self.url)
        return found.hostname or "", found.port or 0


@contextmanager
def running(model: Path | str, *flags: str, program: str = "") -> Iterator[Running]:
    """``uspebm serve MODEL``; or ``program``, which does the same with other limits."""
    command = ["-c", program, str(model)] if program else ["-m", "uspebm", "serve", str(model)]
    process = subprocess.Popen(
        [sys.executable, *command, *([] if program else ["--port", "0", "--json"]), *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert process.stdout is not None
    try:
        said = ""
        for line in process.stdout:
            said += line
            if line.startswith("}"):
                break
        if not said:
            raise AssertionError(process.communicate()[1])
        yield Running(process, json.loads(said)["url"])
    finally:
        process.kill()
        process.communicate()


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
