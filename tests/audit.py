"""``python -m tests.audit PIP_AUDIT``: whether the pinned dependencies have known vulnerabilities.

The answer of a service that knows nothing looks like that of one that knows of none. So a version
with known vulnerabilities is asked for as well: where that is not found, nothing was audited.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

PINS = Path(__file__).parent.parent / "constraints.txt"
CONTROL = "jinja2", "2.10"
"""Has several, known since 2019."""
UNKNOWN = "nothing was audited: no service that knows of vulnerabilities can be reached from here"


def verdict(asked: list[dict[str, Any]], control: list[dict[str, Any]]) -> tuple[int, str]:
    """An exit code and a line, from what was answered for the pins and for the control.

    >>> sound, unknown = {"name": "a", "version": "1", "vulns": []}, {"name": "b"}
    >>> bad = {"name": "c", "version": "2", "vulns": [{"id": "PYSEC-1", "fix_versions": ["3"]}]}
    >>> verdict([sound, unknown], [bad])
    (0, '1 of 2 pinned dependencies were audited; no known vulnerabilities')
    >>> verdict([sound, bad], [bad])
    (1, '2 of 2 pinned dependencies were audited; vulnerable: c 2 (PYSEC-1)')
    >>> verdict([sound, sound], [sound])[1]
    'nothing was audited: no service that knows of vulnerabilities can be reached from here'
    """
    if not any(one.get("vulns") for one in control):
        return 0, UNKNOWN
    audited = [one for one in asked if "vulns" in one]
    said = f"{len(audited)} of {len(asked)} pinned dependencies were audited; "
    bad = [
        f"{one['name']} {one['version']} ({', '.join(found['id'] for found in one['vulns'])})"
        for one in audited
        if one["vulns"]
    ]
    found = f"vulnerable: {', '.join(bad)}" if bad else "no known vulnerabilities"
    return int(bool(bad)), said + found


def answers(pip_audit: str, pins: str) -> list[dict[str, Any]]:
    """What the service says of each of the pins; nothing where it says nothing."""
    with tempfile.TemporaryDirectory() as name:
        asked, answer = Path(name) / "pins.txt", Path(name) / "answer.json"
        asked.write_text(pins)
        how = ["--no-deps", "--disable-pip", "--progress-spinner", "off", "--timeout", "15"]
        command = [pip_audit, "-r", str(asked), *how, "-f", "json", "-o", str(answer)]
        try:
            subprocess.run(command, capture_output=True, timeout=600)
            found: list[dict[str, Any]] = json.loads(answer.read_text())["dependencies"]
        except (OSError, ValueError, subprocess.TimeoutExpired):
            return []
        return found


if __name__ == "__main__":
    control = answers(sys.argv[1], "{}=={}\n".format(*CONTROL))
    code, line = verdict(answers(sys.argv[1], PINS.read_text()) if control else [], control)
    sys.stdout.write(f"audit: {line}\n")
    sys.exit(code)
