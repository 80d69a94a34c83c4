"""Programs in processes of their own: to be killed, interrupted, limited, or deprived of packages.

They are forked from a process that has imported torch, what its first optimiser would import, and
SciPy, with warnings as errors, and has nothing of ours and nothing that is optional: to import
these takes longer than most programs.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Timer
from typing import IO, Any, NamedTuple

PARENT = """
import gc, json, os, socket, sys
import scipy.stats, torch, torch._dynamo

torch.set_num_threads(1)
gc.freeze()  # or every child would go through all that was imported when it ends
passed = socket.socket(fileno=int(sys.argv[1]))
for line in sys.stdin:
    match json.loads(line):
        case int(child):
            ended, status = os.waitpid(child, os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if ended else None
        case program, arguments, folder, environment:
            _, opened, *_ = socket.recv_fds(passed, 1, 2)
            answer = os.fork()
            if answer == 0:
                nothing = os.open(os.devnull, os.O_RDONLY)
                for number, file in enumerate((nothing, *opened)):
                    os.dup2(file, number)
                for file in opened:
                    os.close(file)
                passed.close()
                os.chdir(folder)
                os.environ.clear()
                os.environ.update(environment)
                sys.argv = ["-c", *arguments]
                exec(program, {"__name__": "__main__"})
                sys.exit()
            for file in opened:
                os.close(file)
    print(json.dumps(answer), flush=True)
"""
COMMAND = """
import sys
from uspebm.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
"""The program that ``uspebm`` is."""


LONGEST = 300.0
"""Seconds."""


class Ended(NamedTuple):
    """What became of a program."""

    returncode: int
    stdout: str
    stderr: str


class Child:
    """A program that runs."""

    def __init__(self, pid: int, stdout: IO[str], stderr: IO[str]) -> None:
        self.pid = pid
        self.stdout = stdout
        self.stderr = stderr
        self._code: int | None = None

    def send_signal(self, number: signal.Signals) -> None:
        if self._ended() is None:
            os.kill(self.pid, number)

    def wait(self, seconds: float = 120.0) -> int:
        """Its exit code; minus the signal's number, where one ended it."""
        until = time.monotonic() + seconds
        while (code := self._ended()) is None:
            if time.monotonic() > until:
                raise TimeoutError(f"the program is still running after {seconds} seconds")
            time.sleep(0.01)
        return code

    def rest(self) -> Ended:
        """What it says from now on, to its end; one that never ends is killed."""
        deadline = Timer(LONGEST, self.send_signal, [signal.SIGKILL])
        deadline.start()
        with ThreadPoolExecutor(1) as other:  # whichever is not read would fill up
            errors = other.submit(self.stderr.read)
            said = self.stdout.read()
        deadline.cancel()
        return Ended(self.wait(), said, errors.result())

    def _ended(self) -> int | None:
        if self._code is None:
            self._code = _asked(self.pid)
        return self._code


@contextmanager
def started(program: str, *arguments: object) -> Iterator[Child]:
    """Run a program's text as ``python -c`` would; it is killed where the block ends."""
    job = (program, [*map(str, arguments)], str(Path.cwd()), dict(os.environ))
    (out, its_out), (error, its_error) = os.pipe(), os.pipe()
    with os.fdopen(out) as stdout, os.fdopen(error) as stderr:
        socket.send_fds(_parent()[1], [b"2"], [its_out, its_error])
        child = Child(_asked(job), stdout, stderr)
        os.close(its_out)
        os.close(its_error)
        try:
            yield child
        finally:
            child.send_signal(signal.SIGKILL)
            child.wait()


def fresh(program: str, *arguments: object) -> Ended:
    """The same, to its end."""
    with started(program, *arguments) as child:
        return child.rest()


def _asked(message: object) -> Any:
    process, _ = _parent()
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(message) + "\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


@cache
def _parent() -> "tuple[subprocess.Popen[str], socket.socket]":
    """One for all tests of a worker; it ends when the worker does, and its input with it."""
    ours, its = socket.socketpair()
    with its:
        command = [sys.executable, "-W", "error", "-c", PARENT, str(its.fileno())]
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=[its.fileno()],
        )
    return process, ours
