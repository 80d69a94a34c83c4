"""Fits in threads, and scores in forked and spawned workers: the same numbers as alone."""

import multiprocessing
import time
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import ProcessPoolExecutor
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from uspebm import EnergyDetector, load

from .report import Row, say

THREADS = 8
WORKERS = 4
TABLE = np.random.default_rng(0).normal(size=(300, 3))
PIXELS = np.random.default_rng(0).integers(0, 256, (40, 28, 28), dtype=np.uint8)
PATIENCE = 120.0
RECIPES: list[Literal["tables", "tables-density", "tables-ps-usp", "tables-srlmc"]]
RECIPES = ["tables", "tables-density", "tables-ps-usp", "tables-srlmc"]


def run(seed: int, fits: int) -> list[Row]:
    """Seeded fits in threads, and workers that score with a model they were given."""
    # Before there are threads: a copy of a process has but one of them.
    return [*(_workers(how) for how in ("fork", "spawn")), _threads(seed, fits)]


def _fitted(seed: int) -> NDArray[np.float64]:
    detector = EnergyDetector(RECIPES[seed % 3], max_updates=20, random_state=seed).fit(TABLE)
    return np.asarray(detector.score_samples(TABLE))


def _threads(seed: int, fits: int) -> Row:
    started, seeds = time.monotonic(), range(seed, seed + fits)
    torch.set_num_threads(1)
    alone = [_fitted(k) for k in seeds]
    with ThreadPoolExecutor(THREADS) as pool:
        together = list(pool.map(_fitted, seeds))
    held = sum(np.array_equal(a, b) for a, b in zip(alone, together, strict=True))
    say(f"threads: {held} of {fits} fits are the same")
    note = f"{THREADS} threads; scores equal those of fits one after another, bit for bit"
    return Row("seeded fits in threads", fits, held, time.monotonic() - started, note)


def _scored(how: str) -> list[float]:
    return [float(x) for x in load("fashion-mnist").score_samples(PIXELS)]


def _workers(how: str) -> Row:
    started, threads = time.monotonic(), torch.get_num_threads()
    torch.set_num_threads(1)  # as is said of forked workers
    expected = _scored(how)
    context: Any = multiprocessing.get_context(how)
    held = 0
    one_thread = partial(torch.set_num_threads, 1)
    with ProcessPoolExecutor(WORKERS, mp_context=context, initializer=one_thread) as pool:
        jobs = [pool.submit(_scored, how) for _ in range(2 * WORKERS)]
        try:
            held = sum(job.result(timeout=PATIENCE) == expected for job in jobs)
        except TimeoutError:
            say(f"workers, {how}: hang")
            for process in list((pool._processes or {}).values()):
                process.kill()
    torch.set_num_threads(threads)
    say(f"workers, {how}: {held} of {2 * WORKERS} score the same")
    note = "one thread each; the parent's scores, bit for bit"
    return Row(f"workers that score, {how}", 2 * WORKERS, held, time.monotonic() - started, note)
