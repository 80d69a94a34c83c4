"""Programs in processes of their own: to be killed, limited, or deprived of packages.

They are forked from a process that has imported torch and SciPy, with warnings as errors, and has
nothing of ours and nothing that is optional: to import these two takes longer than most programs.
"""

import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

PARENT = """
import gc, json, os, select, sys
import scipy.stats, torch

torch.set_num_threads(1)
gc.freeze()  # or every child would go through all that was imported when it ends
for line in sys.stdin:
    program, arguments, folder = json.loads(line)
    (out, child_out), (error, child_error) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, opened in enumerate((nothing, child_out, child_error)):
            os.dup2(opened, number)
        os.chdir(folder)
        sys.argv = ["-c", *arguments]
        exec(program, {"__name__": "__main__"})
        sys.exit()
    os.close(child_out)
    os.close(child_error)
    said = {out: b"", error: b""}
    waiting = [out, error]
    while waiting:
        for pipe in select.select(waiting, [], [])[0]:
            if part := os.read(pipe, 65536):
                said[pipe] += part
            else:
                waiting.remove(pipe)
                os.close(pipe)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(json.dumps((code, said[out].decode(), said[error].decode())), flush=True)
"""


class Ended(NamedTuple):
    """What became of a program."""

    returncode: int
    stdout: str
    stderr: str


def fresh(program: str, *arguments: object) -> Ended:
    """Run a program's text as ``python -c`` would, to its end."""
    parent = _parent()
    assert parent.stdin is not None
    assert parent.stdout is not None
    job = (program, [*map(str, arguments)], str(Path.cwd()))
    parent.stdin.write(json.dumps(job) + "\n")
    parent.stdin.flush()
    return Ended(*json.loads(parent.stdout.readline()))


@cache
def _parent() -> "subprocess.Popen[str]":
    """One for all tests of a worker; it ends when the worker does, and its input with it."""
    command = [sys.executable, "-W", "error", "-c", PARENT]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
