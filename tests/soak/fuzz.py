"""Damaged files for every reader: a value comes of each, or one line, soon and in little memory.

One process for each reader, and one after another where a reader takes the process down. Input k of
a reader follows from the seed and k alone: ``python -m tests.soak.fuzz READER SEED K`` repeats it.
"""

import json
import math
import mmap
import os
import resource
import selectors
import signal
import struct
import subprocess
import sys
import time
import traceback
import warnings
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

from .report import Row, say

LONGEST = 10.0
"""Seconds for one input."""
MEMORY = 200 << 10
"""KiB that a reader may take beyond what it took for the sound files."""
ADDRESSES = 4 << 30
"""Bytes of addresses beyond those that are taken at the start: more are refused to the process."""
LENGTH = 1000
SILENT = 120.0
"""Seconds after which a process that says nothing is ended."""
SHOWN = 5
WARM = 50
PROGRESS = struct.Struct("<QQQ")
"""The input that is tried, and how many before it were read and refused."""


class TooSlow(BaseException):
    """An input took too long. No exception of the usual kind: nobody may catch it on the way."""


def run(seed: int, inputs: int) -> list[Row]:
    """So many inputs in all, shared among the readers."""
    from .jobs import working_folder
    from .targets import targets

    with working_folder() as folder:
        shares = {name: target.share for name, target in targets(folder / "made").items()}
        whole = sum(shares.values())
        return [
            _attacked(name, seed, math.ceil(inputs * share / whole), folder / f"fuzz{k}")
            for k, (name, share) in enumerate(shares.items())
        ]


def _attacked(name: str, seed: int, inputs: int, folder: Path) -> Row:
    """One reader; a new process where one was lost, from the next input on."""
    started, begin, read, refused = time.monotonic(), 0, 0, 0
    failures: list[str] = []
    folder.mkdir(parents=True)
    place = folder / "progress"
    while begin < inputs:
        place.write_bytes(PROGRESS.pack(begin, 0, 0))
        command = [
            sys.executable,
            "-m",
            "tests.soak.fuzz",
            name,
            str(seed),
            str(begin),
            str(inputs),
        ]
        with subprocess.Popen(
            [*command, str(folder)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as child:
            lost = _followed(child, failures)
        at, *counts = PROGRESS.unpack(place.read_bytes())
        read, refused, begin = read + counts[0], refused + counts[1], at + 1
        if lost:
            failures.append(f"input {at}: {lost}")
    for failure in failures[:SHOWN]:
        say(f"fuzz: {name}: {failure}")
    note = f"{read:,} read, {refused:,} refused in one line"
    if failures:
        note += f"; {failures[0]}"
    say(f"fuzz: {name}: {inputs:,} inputs, {note}")
    return Row(f"fuzz: {name}", inputs, read + refused, time.monotonic() - started, note)


def _followed(child: "subprocess.Popen[str]", failures: list[str]) -> str:
    """What a process reports, up to its end; why it ended, if it should not have."""
    assert child.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        while selector.select(SILENT):
            line = child.stdout.readline()
            if not line:
                code = child.wait()
                return "" if code == 0 else f"the process ended with {code}"
            failures += json.loads(line)
    child.kill()
    return f"nothing for {SILENT:g} s"


def _serve(name: str, seed: int, begin: int, end: int, folder: Path) -> None:
    """Try inputs from ``begin`` on; say every second what failed."""
    from .targets import targets

    target = targets(folder / f"made{begin}")[name]
    place = folder / f"inputs{begin}"
    place.mkdir()
    signal.signal(signal.SIGALRM, _too_slow)
    for k in range(WARM):  # what is loaded on first use is loaded now
        _tried(target, place, _input(target, name, seed, -1 - k))
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + ADDRESSES, taken + ADDRESSES))
    # In the file, whatever becomes of the process.
    progress = mmap.mmap(os.open(folder / "progress", os.O_RDWR), PROGRESS.size)
    counts = {"read": 0, "refused": 0}
    failures: list[str] = []
    spoken = time.monotonic()
    for k in range(begin, end):
        PROGRESS.pack_into(progress, 0, k, counts["read"], counts["refused"])
        found = _tried(target, place, _input(target, name, seed, k))
        if found in counts:
            counts[found] += 1
        else:
            failures.append(f"input {k}: {found}")
        if time.monotonic() - spoken > 1 or k == end - 1:
            sys.stdout.write(json.dumps(failures) + "\n")
            sys.stdout.flush()
            failures, spoken = [], time.monotonic()
    PROGRESS.pack_into(progress, 0, end - 1, counts["read"], counts["refused"])


def _input(target: Any, name: str, seed: int, k: int) -> bytes:
    draws = Random(f"{seed} {name} {k}")
    content: bytes = target.change(draws.choice(target.seeds), draws, target.seeds)
    return content


def _too_slow(signum: int, frame: FrameType | None) -> None:
    raise TooSlow


def _tried(target: Any, folder: Path, content: bytes) -> str:
    """``read``, ``refused``, or what is wrong."""
    path = target.place(folder, content)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.monotonic()
    outcome = "read"
    try:
        signal.setitimer(signal.ITIMER_REAL, LONGEST)
        target.read(path)
        signal.setitimer(signal.ITIMER_REAL, 0)
    except target.refused as error:
        signal.setitimer(signal.ITIMER_REAL, 0)
        outcome = _refusal(error, str(path))
    except TooSlow:
        return f"more than {LONGEST:g} s"
    except Exception as error:
        signal.setitimer(signal.ITIMER_REAL, 0)
        where = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {str(error)[:200]} ({where.filename}:{where.lineno})"
    if (seconds := time.monotonic() - started) > LONGEST:
        return f"{seconds:.0f} s"
    more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return outcome if more < MEMORY else f"{more >> 10} MiB"


def _refusal(error: Exception, path: str) -> str:
    """Whether it is one line that names the file, of a length that people read."""
    text = str(error)
    if path not in text:
        return f"does not name the file: {text[:200]!r}"
    if not text.replace(path, "").isprintable() or len(text) > LENGTH + len(path):
        return f"is not one line: {text[:200]!r}"
    cause = error.__cause__
    if isinstance(cause, MemoryError) and "alloc" in str(cause):
        return f"asked for too much memory: {text[:200]!r}"
    return "refused"


def _repeat(name: str, seed: int, k: int) -> None:
    """One input, with all that comes of it."""
    from .jobs import working_folder
    from .targets import targets

    with working_folder() as folder:
        target = targets(folder / "made")[name]
        (folder / "input").mkdir()
        content = _input(target, name, seed, k)
        say(f"{len(content)} bytes: {content[:200]!r}")
        say(str(target.read(target.place(folder / "input", content))))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    reader, *numbers = sys.argv[1:]
    if len(numbers) == 2:
        _repeat(reader, *map(int, numbers))
    else:
        _serve(reader, *map(int, numbers[:3]), Path(numbers[3]))  # type: ignore[call-arg, arg-type]
