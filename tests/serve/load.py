"""Many clients at once: ``python -m tests.serve.load MODEL [--clients 64] [--seconds 60]``.

Starts the service on one core and asks from another, .npy bodies of 32 rows over connections that
are kept. Says how many rows it answers, what part that is of what the same core scores by itself in
batches of 32, how long answers take, and what memory the service has before and after. Where others
are busy on the machine, shares by processor time are the ones to look at.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from uspebm import load as load_model

from .common import npy
from .processes import Running, running

ROWS = 32
ALONE = """
import sys, time
import numpy as np
import torch
from uspebm import load
torch.set_num_threads(1)
detector, X = load(sys.argv[1]), np.load(sys.argv[2])
if hasattr(detector, "feature_names_in_") and detector.encoding_ is None:
    del detector.feature_names_in_
detector.score_samples(X)
began, used, calls = time.perf_counter(), time.process_time(), 0
while time.perf_counter() - began < float(sys.argv[3]):
    detector.score_samples(X)
    calls += 1
rows = calls * len(X)
print(rows / (time.perf_counter() - began), rows / (time.process_time() - used))
"""


class Loaded(NamedTuple):
    """What came of it: rows a second, seconds of each answer, answers that were none."""

    rate: float
    seconds: list[float]
    errors: list[str]

    def quantile(self, share: float) -> float:
        return float(np.quantile(self.seconds, share))


def rows_of(model: str) -> bytes:
    """Rows that the model may be asked of, drawn at random."""
    detector = load_model(model)
    draws = np.random.default_rng(0)
    shape = detector.event_shape_
    if len(shape) == 3:
        shape = (*shape[1:], shape[0]) if shape[0] > 1 else shape[1:]
        return npy(draws.integers(0, 256, (ROWS, *shape), dtype=np.uint8))
    return npy(draws.normal(size=(ROWS, *shape)))


async def client(service: Running, body: bytes, until: float, found: Loaded) -> None:
    reader, writer = await asyncio.open_connection(*service.address)
    ask = (
        "POST /score HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-npy\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body
    while time.perf_counter() < until:
        began = time.perf_counter()
        writer.write(ask)
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.partition(b"content-length: ")[2].split(b"\r\n")[0])
        answer = await reader.readexactly(length)
        found.seconds.append(time.perf_counter() - began)
        if not head.startswith(b"HTTP/1.1 200") or answer.count(b",") < 3 * ROWS:
            found.errors.append(head.split(b"\r\n")[0].decode())
    writer.close()
    await writer.wait_closed()


async def loaded(service: Running, body: bytes, clients: int, seconds: float) -> Loaded:
    found, began = Loaded(0.0, [], []), time.perf_counter()
    asking = (client(service, body, began + seconds, found) for _ in range(clients))
    for one in await asyncio.gather(*asking, return_exceptions=True):
        if one is not None:
            found.errors.append(repr(one))
    return found._replace(rate=ROWS * len(found.seconds) / (time.perf_counter() - began))


def megabytes(service: Running) -> float:
    pages = int(Path(f"/proc/{service.process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def cpu_seconds(service: Running) -> float:
    said = Path(f"/proc/{service.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(said[11]) + int(said[12])) / os.sysconf("SC_CLK_TCK")


def alone(model: str, body: bytes, folder: Path, core: int) -> tuple[float, float]:
    """Rows a second, and a second of the processor, of the same batches without a service."""
    (folder / "x.npy").write_bytes(body)
    command = ["taskset", "-c", str(core), sys.executable, "-c", ALONE, model]
    done = subprocess.run(
        [*command, str(folder / "x.npy"), "5"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    wall, used = map(float, done.stdout.split())
    return wall, used


def main() -> None:
    import tempfile

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60.0)
    given = parser.parse_args()
    body = rows_of(given.model)
    own, other = sorted(os.sched_getaffinity(0))[:2]
    with tempfile.TemporaryDirectory() as folder, running(given.model) as service:
        for thread in Path(f"/proc/{service.process.pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), {own})
        os.sched_setaffinity(0, {other})
        before = [alone(given.model, body, Path(folder), own)]
        asyncio.run(loaded(service, body, given.clients, 3.0))
        memory, used = [megabytes(service)], cpu_seconds(service)
        found = asyncio.run(loaded(service, body, given.clients, given.seconds))
        memory.append(megabytes(service))
        used = cpu_seconds(service) - used
        before.append(alone(given.model, body, Path(folder), own))
    wall, cpu = (statistics.mean(rates) for rates in zip(*before, strict=True))
    per_cpu = ROWS * len(found.seconds) / used
    said = {
        "clients": given.clients,
        "requests": len(found.seconds),
        "errors": found.errors[:5],
        "rows_per_second": round(found.rate),
        "alone_in_batches_of_32": [round(rate) for rate, _ in before],
        "share": round(found.rate / wall, 2),
        "share_by_processor_time": round(per_cpu / cpu, 2),
        "p50_ms": round(1000 * found.quantile(0.5), 1),
        "p99_ms": round(1000 * found.quantile(0.99), 1),
        "megabytes_before_and_after": [round(m) for m in memory],
    }
    sys.stdout.write(json.dumps(said, indent=1) + "\n")


if __name__ == "__main__":
    main()
