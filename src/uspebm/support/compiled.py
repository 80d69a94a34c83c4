"""Compiling a C++ file once per machine and setting, and loading it."""

import ctypes
import functools
import hashlib
import logging
import os
import shutil
import subprocess
import time
from pathlib import Path

from .files import cache_folder, scratch_folder, whole_file

log = logging.getLogger("uspebm")

FLAGS = ("-std=gnu++17", "-O3", "-march=native", "-fopenmp", "-shared", "-fPIC")


class BuildError(RuntimeError):
    """The machine has no compiler for this, or it refused."""


@functools.cache
def library(source: Path, **constants: int | str) -> ctypes.CDLL:
    """``source`` compiled with ``constants`` as macros; from the cache if it was before.

    It may include the headers (``.hpp``) that stand beside it, and the compiler's own.
    """
    compiler = _compiler()
    flags = [*FLAGS, *(f"-D{name}={value}" for name, value in constants.items())]
    name = f"{source.stem}-{_key(source, compiler, *flags, _cpu())}.so"
    try:
        built = cache_folder() / name
        there = built.exists()
    except (OSError, RuntimeError) as error:  # of a user without a home, or of someone else's
        raise BuildError(f"there is no place for compiled code: {error}") from error
    if not there:
        started = time.perf_counter()
        _compile(compiler, flags, source, built)
        log.info("compiled %s in %.1f s", source.name, time.perf_counter() - started)
    try:
        return ctypes.CDLL(str(built))
    except OSError as error:
        raise BuildError(f"{built} cannot be loaded: {error}") from error


@functools.cache
def library_if_any(source: Path) -> ctypes.CDLL | None:
    """The same, or None where nothing can be compiled: for what torch can do too. Said once."""
    try:
        return library(source)
    except BuildError as error:
        log.info("torch does the work of %s: %s", source.name, error)
        return None


def _key(source: Path, *parts: str) -> str:
    """A name for what comes out; another one wherever a header or the source differs."""
    key = hashlib.sha256()
    for file in (source, *sorted(source.parent.glob("*.hpp"))):
        # Lengths keep apart what would read the same when strung together.
        key.update(f"{file.name} {file.stat().st_size}\0".encode() + file.read_bytes())
    for part in parts:
        key.update(part.encode() + b"\0")
    return key.hexdigest()[:16]


def _compiler() -> str:
    """The C++ compiler: ``$CXX``, or the first one found."""
    for name in (os.environ.get("CXX"), "g++", "c++", "clang++"):
        if name and (found := shutil.which(name)):
            return found
    raise BuildError("there is no C++ compiler (looked for $CXX, g++, c++, clang++)")


def _compile(compiler: str, flags: list[str], source: Path, built: Path) -> None:
    try:
        with scratch_folder(built) as folder:
            compiled = folder / built.name
            done = subprocess.run(
                [compiler, *flags, str(source), "-o", str(compiled)],
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode:
                reason = next((line for line in done.stderr.splitlines() if "error" in line), "")
                raise BuildError(f"{compiler} failed with code {done.returncode}: {reason}")
            # Processes that compile the same file at the same time do not see each other's half.
            with whole_file(built) as file:
                file.write(compiled.read_bytes())
    except OSError as error:
        raise BuildError(f"{source.name} cannot be compiled: {error}") from error


def _cpu() -> str:
    """What kind of processor this is: a shared home may serve several."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line for line in lines if line.startswith(("flags", "Features")))
    except (OSError, StopIteration):
        return " ".join(os.uname()) if hasattr(os, "uname") else ""
