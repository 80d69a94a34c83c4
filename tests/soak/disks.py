"""Disks that fill up at random sizes, and folders that may only be read."""

import os
import random
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .jobs import OUTPUTS, Child, Ended, content, faults, make_inputs, older, working_folder
from .report import Row, say

FULL = ("train", "fit", "score", "export", "demo")
READ_ONLY = ("train", "fit", "score", "export")
ROOMY = 512 * 2**20


def run(seed: int, sizes: int) -> list[Row]:
    """Every job on disks of ``sizes`` sizes, and in a folder that may only be read."""
    with working_folder() as root:
        inputs = make_inputs(root / "inputs")
        (root / "disk").mkdir()
        full = [_full(job, sizes, inputs, root, seed) for job in FULL]
        return [*full, _read_only(inputs, root)]


def _full(job: str, sizes: int, inputs: Path, root: Path, seed: int) -> Row:
    started, draws, held = time.monotonic(), random.Random(f"{job} {seed}"), 0
    whole = root / f"whole-{job}"
    older(job, inputs, whole)
    before = content(whole)
    ended = Child(job, inputs, whole).end()
    after = content(whole)
    if ended.code != 0:
        return Row(f"full disk: {job}", sizes, 0, ended.seconds, f"undisturbed: {ended.said}")
    needed = [path.stat().st_size for path in whole.rglob("*") if path.is_file()]
    say(f"full disk: {job} needs {sum(needed):,} bytes, {max(needed):,} of them in one file")
    for k in range(sizes):
        with _small_disk(root / "disk") as disk:
            place = disk.place / f"{job}-{k}"
            older(job, inputs, place)
            limit = disk.fill(draws.uniform(0.0, 0.95), needed)
            first = Child(job, inputs, place, file_size=limit).end()
            wrong = [] if job == "demo" else faults(job, place, before, after)
            wrong += _unclear(first, place / OUTPUTS[job])
            disk.free()
            again = Child(job, inputs, place).end()
            if again.code != 0:
                wrong.append(f"could not go on: {again.said}")
            elif job != "demo" and content(place) != after:
                wrong.append("ends otherwise than undisturbed")
        held += not wrong
        if wrong:
            say(f"full disk: {job}, size {k}: {'; '.join(wrong)}")
    kind = "a small disk" if disk.mounted else "a limit on file sizes"
    end = "it goes on to its end" if job == "demo" else "all ends as undisturbed"
    note = f"{kind}: one line that names the file, and with room again {end}"
    return Row(f"full disk: {job}", sizes, held, time.monotonic() - started, note)


def _unclear(ended: Ended, place: Path) -> list[str]:
    """What is wrong with what a job said of a disk without room."""
    wrong = []
    if ended.code != 2 or ended.said.count("\n") != 1:
        wrong.append(f"ended with {ended.code} and said {ended.said!r}")
    reasons = ("No space left on device", "File too large")
    if not any(reason in ended.said for reason in reasons) or str(place) not in ended.said:
        wrong.append(f"does not name disk and file: {ended.said!r}")
    hidden = [p for p in place.parent.rglob(".*") if p.name != ".lock"]
    if hidden:
        wrong.append(f"left {[p.name for p in hidden]}")
    return wrong


class _Disk:
    """A place with little room: a file system of its own, or a limit on the size of a file."""

    def __init__(self, place: Path, mounted: bool) -> None:
        self.place, self.mounted, self._ballast = place, mounted, place / "ballast"

    def fill(self, share: float, needed: list[int]) -> int:
        """Leave room for a share of what is needed; the limit on a file's size, if there is one."""
        if not self.mounted:
            return max(1, int(share * max(needed)))
        free = os.statvfs(self.place)
        blocks = free.f_bavail - int(share * sum(needed)) // free.f_bsize
        with self._ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(1, blocks) * free.f_bsize)
        return 0

    def free(self) -> None:
        """Room enough, again."""
        self._ballast.unlink(missing_ok=True)


@contextmanager
def _small_disk(place: Path) -> Iterator[_Disk]:
    mount = ["mount", "-t", "tmpfs", "-o", f"size={ROOMY}", "tmpfs", str(place)]
    try:
        mounted = subprocess.run(mount, capture_output=True).returncode == 0
    except OSError:
        mounted = False
    try:
        yield _Disk(place, mounted)
    finally:
        if mounted:
            subprocess.run(["umount", str(place)], check=True)


def _read_only(inputs: Path, root: Path) -> Row:
    started, held = time.monotonic(), 0
    for job in READ_ONLY:
        place = root / f"read-only-{job}"
        older(job, inputs, place)
        if job == "train":
            (place / "run").mkdir()
        before = content(place)
        folders = [place, *(p for p in place.rglob("*") if p.is_dir())]
        for folder in folders:
            folder.chmod(0o555)
        ended = Child(job, inputs, place, bound=True).end()
        for folder in folders:
            folder.chmod(0o755)
        said = ended.said
        fine = ended.code == 2 and said.count("\n") == 1 and str(place) in said
        fine = fine and "Permission denied" in said and content(place) == before
        held += fine
        if not fine:
            say(f"read-only: {job}: {ended}")
    note = "one line that names the place; nothing is changed"
    return Row(
        "folders that may only be read", len(READ_ONLY), held, time.monotonic() - started, note
    )
