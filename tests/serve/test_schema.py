"""What the service says of itself is true: schemathesis asks it all that its document allows.

That the bytes of a file are a table is more than a schema can say. So rows in JSON, where all that
the document allows has to be answered, are asked for by themselves.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from .processes import Running, running

EXAMPLES = "25"


def schemathesis(service: Running, document: Path, *flags: str) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "schemathesis.cli", "run", str(document)),
            *("--url", service.url, "--max-examples", EXAMPLES, "--seed", "1", *flags),
            *("--generation-database", "none", "--no-color"),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=document.parent,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def document_of(service: Running, folder: Path, kinds: tuple[str, ...] = ()) -> Path:
    """The document, with these content types only."""
    said: dict[str, Any] = httpx2.get(f"{service.url}openapi.json").json()
    content = said["paths"]["/score"]["post"]["requestBody"]["content"]
    for kind in [kind for kind in content if kinds and kind not in kinds]:
        del content[kind]
    path = folder / "openapi.json"
    path.write_text(json.dumps(said))
    return path


@pytest.mark.parametrize("model", ["mixed", "pixels"])
def test_rows_in_json_are_taken_as_said(served: Path, tmp_path: Path, model: str) -> None:
    with running(served / model) as service:
        document = document_of(service, tmp_path, ("application/json",))
        schemathesis(service, document)


def test_no_bytes_of_any_kind_do_harm(served: Path, tmp_path: Path) -> None:
    with running(served / "named") as service:
        document = document_of(service, tmp_path)
        schemathesis(service, document, "--exclude-checks", "positive_data_acceptance")
