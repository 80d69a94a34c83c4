"""The work that is disturbed: a training, a fit, a score, an export, in processes of their own.

Every job is a function of a folder of inputs and a folder to write to. What was there before is an
older result, so that there is always something to lose.
"""

import contextlib
import ctypes
import hashlib
import io
import json
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx  # noqa: F401  imported once, and not by every child
import onnxscript  # noqa: F401
import pyarrow.parquet  # noqa: F401
import torch
from torch import Tensor

from tests.recipes.common import mixture, small_table
from uspebm import Box, CrowdedUSP, Leveled, PersistentUSP, Recipe, train
from uspebm.cli.main import main
from uspebm.detector import folder as model_folder
from uspebm.energies.rules import ConvRule
from uspebm.negative import RandomFields
from uspebm.recipes import AtData, Schedule
from uspebm.recipes import run as run_module
from uspebm.recipes.held_out import HeldOut
from uspebm.support.randomness import generator
from uspebm.training.archive import read_archive
from uspebm.training.checkpoint import checkpoints
from uspebm.training.run_log import log_rows

SHAPE = (1, 8, 8)
UPDATES = 40
CROWDED = Recipe(
    "crowded",
    ConvRule((16, 16, 16), width=16),
    CrowdedUSP(
        phase=PersistentUSP(
            domain=Box(-1.0, 1.0, SHAPE),
            particles=60,
            spacing=4.0,
            active=12,
            nodes=24,
            rounds=2,
        ),
        restarts=0.5,
        fresh=RandomFields(SHAPE, (2, 4, 8)),
    ),
    Schedule(updates=UPDATES, batch_size=16, cooling=0.25, snapshot_every=10),
    objective=Leveled(10.0),
    start=AtData(afresh=0.2),
)
ROWS = 30_000
LONGEST = 300.0
"""Seconds after which a job counts as hanging."""

context = multiprocessing.get_context("forkserver")
# One process imports torch; the children are copies of it, and start at once.
context.set_forkserver_preload(["tests.soak.jobs"])


def images() -> Tensor:
    """What is trained on."""
    return 2 * torch.rand(64, *SHAPE, generator=generator(0, "images")) - 1


def make_inputs(folder: Path) -> Path:
    """Tables to fit and to score, and a model to score with and to export."""
    folder.mkdir(parents=True)
    numbers = np.random.default_rng(0)
    for name, rows in (("x.csv", 400), ("big.csv", ROWS)):
        table = numbers.normal(size=(rows, 3)) * [1.0, 1e4, 1e-3]
        lines = ["a,b,c", *(",".join(map(repr, row)) for row in table.tolist())]
        (folder / name).write_text("\n".join(lines) + "\n")
    np.save(folder / "x.npy", numbers.integers(0, 256, (640, 16, 16), dtype=np.uint8))
    settings = ["--max-updates", "0", "--seed", "7"]
    with contextlib.redirect_stdout(io.StringIO()):
        _command("fit", folder / "x.csv", "--out", folder / "model", *settings)
    return folder


# -- jobs --------------------------------------------------------------------------------------


def _train(inputs: Path, place: Path) -> int:
    return _trained(CROWDED, images(), place, 0)


def _train_table(inputs: Path, place: Path) -> int:
    """With looks at held-out points, which leave a curve and the best weights."""
    recipe = small_table(updates=UPDATES, held_out=HeldOut(every=5, patience=4))
    return _trained(recipe, mixture(300), place, 0)


def _train_other(inputs: Path, place: Path) -> int:
    """Another run, for the same folder."""
    return _trained(replace(CROWDED, objective=Leveled(5.0)), images(), place, 1)


def _trained(recipe: Recipe, data: Tensor, place: Path, seed: int) -> int:
    run_module.SECONDS_BETWEEN_CHECKPOINTS = 0.02
    try:
        train(recipe, data, place / "run", seed, show=False)
    except Exception as error:  # whatever it is, it has to be one line
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 2
    return 0


def _fit(inputs: Path, place: Path) -> int:
    model_folder.datetime = _Today  # type: ignore[attr-defined]
    out = ("--out", place / "model")
    training = ("--recipe", "tables-density", "--max-updates", "150")  # what can be interrupted
    return _command("fit", inputs / "x.csv", *out, *training)


def _fit_images(inputs: Path, place: Path) -> int:
    model_folder.datetime = _Today  # type: ignore[attr-defined]
    return _command("fit", inputs / "x.npy", "--out", place / "model", "--max-updates", "40")


def _score(inputs: Path, place: Path) -> int:
    return _command("score", inputs / "model", inputs / "big.csv", "--out", place / "s.parquet")


def _export(inputs: Path, place: Path) -> int:
    return _command("export", inputs / "model", "--onnx", place / "m.onnx")


def _demo(inputs: Path, place: Path) -> int:
    return _command("demo", "--out", place / "demo", "--steps", "2")


def _command(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


class _Today(datetime):
    """A model made before midnight equals one made after it."""

    @classmethod
    def now(cls, tz: Any = None) -> "_Today":
        return cls(2000, 1, 1, tzinfo=UTC)


JOBS: dict[str, Callable[[Path, Path], int]] = {
    "train": _train,
    "train a table": _train_table,
    "fit": _fit,
    "fit images": _fit_images,
    "score": _score,
    "export": _export,
    "train another": _train_other,
    "demo": _demo,
}
OUTPUTS = {
    "train": "run",
    "train a table": "run",
    "fit": "model",
    "fit images": "model",
    "score": "s.parquet",
    "export": "m.onnx",
    "demo": "demo",
}


def older(job: str, inputs: Path, place: Path) -> None:
    """Put an older result where the job is to write its own; a run has none."""
    place.mkdir(parents=True, exist_ok=True)
    if job in ("fit", "fit images"):
        (place / "model").mkdir()
        for file in (inputs / "model").iterdir():
            (place / "model" / file.name).write_bytes(file.read_bytes())
    elif job in ("score", "export"):
        (place / OUTPUTS[job]).write_text("older result")


# -- what is to be the same --------------------------------------------------------------------


def content(place: Path) -> dict[str, str]:
    """A checksum of everything below a place, hidden files too; a log without what it took.

    Of a checkpoint, of its values to the last bit: how often an object stands in it, and not only
    what it is, shows in the bytes that torch writes. Only of the last one: of which step the one
    before it is, is a matter of time.
    """
    found = {}
    for path in sorted(place.rglob("*")):
        if path.is_dir() or path in checkpoints(path.parent)[:-1]:
            continue
        data = path.read_bytes()
        if path.suffix == ".ckpt":
            data = repr(_values(read_archive(path))).encode()
        elif path.name == "log.jsonl":
            rows = [{k: v for k, v in row.items() if k != "seconds"} for row in log_rows(path)]
            data = json.dumps(rows).encode()
        found[str(path.relative_to(place))] = hashlib.sha256(data).hexdigest()
    return found


def _values(saved: Any) -> Any:
    if isinstance(saved, Tensor):
        return (str(saved.dtype), tuple(saved.shape), saved.numpy().tobytes())
    if isinstance(saved, dict):
        return [(key, _values(value)) for key, value in saved.items()]
    if isinstance(saved, list | tuple):
        return [_values(value) for value in saved]
    return saved


def visible(found: dict[str, str]) -> dict[str, str]:
    """Without hidden files: those are what was not finished."""
    return {k: v for k, v in found.items() if not any(p.startswith(".") for p in Path(k).parts)}


GROWING = {"log.jsonl", "curve.jsonl", "best.safetensors"}
"""Of a run, what is not the same from its beginning to its end."""


def faults(job: str, place: Path, before: dict[str, str], after: dict[str, str]) -> list[str]:
    """What is half-written after a kill: neither as before nor as after, or not to be read."""
    found, output = visible(content(place)), OUTPUTS[job]
    if output != "run":
        # A killed fit may leave its training beside the model, to go on with.
        mine = {name: said for name, said in found.items() if Path(name).parts[0] == output}
        return [] if mine in (before, after) else [f"{sorted(mine)} is neither old nor new"]
    wrong = []
    for name, checksum in found.items():
        path = place / name
        if path.suffix == ".ckpt":
            try:
                read_archive(path)
            except ValueError as error:
                wrong.append(f"{name}: {error}")
        elif path.suffix == ".jsonl":
            log_rows(path)
        elif path.name not in GROWING and checksum != after.get(name):
            wrong.append(f"{name} is half-written")
    return wrong


# -- processes ---------------------------------------------------------------------------------


class Child:
    """A job in a process of its own, which has begun its work."""

    def __init__(self, job: str, inputs: Path, place: Path, **how: Any) -> None:
        with tempfile.NamedTemporaryFile(prefix="soak-", delete=False) as said:
            self._said = Path(said.name)
        ours, theirs = context.Pipe()
        self.process: ForkServerProcess = context.Process(
            target=_begin, args=(job, inputs, place, self._said, theirs, How(**how)), daemon=True
        )
        self.process.start()
        theirs.close()
        ours.poll(LONGEST)  # until it begins, or has ended
        self.began = time.monotonic()
        self._connection = ours

    def end(self, timeout: float = LONGEST) -> "Ended":
        """Wait for it; one that hangs is killed."""
        self.process.join(timeout)
        hung = self.process.is_alive()
        if hung:
            self.process.kill()
            self.process.join()
        seconds = time.monotonic() - self.began
        said = self._said.read_text(errors="replace")
        self._said.unlink()
        operations = 0
        with contextlib.suppress(EOFError, OSError):
            while self._connection.poll():
                operations = self._connection.recv()
        self._connection.close()
        code = self.process.exitcode
        return Ended(-1000 if hung or code is None else code, said, seconds, operations)

    def kill(self) -> "Ended":
        """SIGKILL, now."""
        self.process.kill()
        return self.end()


class How(NamedTuple):
    """Under which conditions a job works.

    Arguments:
        die_at: Before which operation on files it is killed; 0: before none.
        file_size: The size of a file that it may write, in bytes; 0: any.
        bound: Whether permissions bind it, even if a superuser started it.
    """

    die_at: int = 0
    file_size: int = 0
    bound: bool = False


class Ended(NamedTuple):
    """How a job ended: its exit code, what it said, seconds, and operations on files."""

    code: int
    said: str
    seconds: float
    operations: int


def _begin(job: str, inputs: Path, place: Path, said: Path, pipe: Connection, how: How) -> None:
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    output = said.open("w", buffering=1)
    os.dup2(output.fileno(), 2)
    sys.stderr = output
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123
    if how.bound:
        _be_bound()
    if how.file_size:
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (how.file_size, how.file_size))
    count = _count_operations(place, how.die_at)
    pipe.send(0)
    code = JOBS[job](inputs, place)
    pipe.send(count[0])
    output.flush()
    os._exit(code)


def _be_bound() -> None:
    """Give up what a superuser may do, whatever the permissions are."""
    if sys.platform == "linux":
        version, nothing = 0x20080522, ctypes.create_string_buffer(24)
        ctypes.CDLL(None).capset((ctypes.c_uint32 * 2)(version, 0), nothing)


def _count_operations(place: Path, die_at: int) -> list[int]:
    """Count what is done to files below ``place``; be killed before operation ``die_at``."""
    count, below = [0], str(place.resolve())
    watched = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "fcntl.flock"}

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in watched:
            return
        if event != "fcntl.flock" and not str(arguments[0]).startswith(below):
            return
        count[0] += 1
        if count[0] == die_at:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(note)
    return count


@contextmanager
def working_folder() -> Iterator[Path]:
    """A folder with inputs that anybody may read."""
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        root = Path(name)
        root.chmod(0o755)
        yield root
