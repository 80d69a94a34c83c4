"""Single bits that change on disk: every one is noticed, nothing is resumed or scored."""

import random
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import uspebm
from tests.recipes.common import mixture, small_table
from uspebm import CheckpointError, EnergyDetector, load_snapshot, save_model
from uspebm.detector.folder import ModelFileError
from uspebm.recipes import Run
from uspebm.recipes.held_out import HeldOut
from uspebm.training.checkpoint import checkpoints, load_checkpoint

from .jobs import CROWDED, images, working_folder
from .report import Row, say

REFUSED = (CheckpointError, ModelFileError, ValueError)


def run(seed: int, flips: int) -> list[Row]:
    """``flips`` each of a checkpoint, a snapshot, a model and a run's record."""
    with working_folder() as root:
        short = replace(CROWDED, schedule=replace(CROWDED.schedule, updates=4, snapshot_every=2))
        uspebm.train(short, images(), root / "run", 0, show=False)
        newest = checkpoints(root / "run")[-1]
        fresh = Run(short, images(), None, 0, show=False).state
        (snapshot, *_) = Run(short, images(), root / "run", 0, show=False).snapshots().values()
        network = fresh.average.module

        table = mixture(400)
        recipe = small_table(updates=60, held_out=HeldOut(every=10, patience=3))
        uspebm.train(recipe, table, root / "record", 0, show=False)

        def record() -> None:
            Run(recipe, table, root / "record", 0, show=False).history  # noqa: B018

        detector = EnergyDetector(max_updates=20, random_state=0).fit(table.numpy())
        save_model(detector, root / "model")
        of_run = [p for p in (root / "record").rglob("*") if p.is_file() and p.suffix != ".ckpt"]
        of_model = [root / "model" / "model.json", root / "model" / "weights.safetensors"]
        return [
            _flipped("checkpoint", [newest], lambda: load_checkpoint(fresh, newest), seed, flips),
            _flipped("snapshot", [snapshot], lambda: load_snapshot(network, snapshot), seed, flips),
            _flipped("model", of_model, lambda: uspebm.load(root / "model"), seed, flips),
            _flipped("run's record", of_run, record, seed, flips),
        ]


def _flipped(
    what: str, paths: list[Path], read: Callable[[], object], seed: int, flips: int
) -> Row:
    """A file is chosen, then a byte of it, then a bit."""
    started, draws, noticed = time.monotonic(), random.Random(f"{what} {seed}"), 0
    unnoticed: dict[str, int] = {}
    read()  # undamaged, it is read
    for _ in range(flips):
        path = draws.choice(paths)
        sound = path.read_bytes()
        damaged = bytearray(sound)
        at, bit = draws.randrange(len(sound)), draws.randrange(8)
        damaged[at] ^= 1 << bit
        path.write_bytes(damaged)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                read()
            unnoticed[path.name] = unnoticed.get(path.name, 0) + 1
            around = bytes(sound[max(0, at - 20) : at + 20])
            say(f"bit flips: {path.name} byte {at} bit {bit} is not noticed: {around!r}")
        except REFUSED:
            noticed += 1
        finally:
            path.write_bytes(sound)
    read()
    say(f"bit flips: {what}: {noticed} of {flips} noticed")
    names = ", ".join(sorted({path.name for path in paths}))
    note = f"{names}: refused" + (f"; not noticed: {unnoticed}" if unnoticed else "")
    return Row(f"bit flips: {what}", flips, noticed, time.monotonic() - started, note)
