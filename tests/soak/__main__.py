"""``python -m tests.soak``: all parts, or those that are named, and one table at the end."""

import argparse
import sys
from collections.abc import Callable
from importlib import import_module

from .report import Row, say, table

PARTS: dict[str, tuple[str, str]] = {
    "kills": ("kills", "kill −9 at random moments of training, fitting, scoring and exporting"),
    "disks": ("sizes", "disks that fill up, folders that may only be read"),
    "writers": ("tries", "two processes on one run's folder"),
    "threads": ("fits", "seeded fits in threads, scores in workers"),
    "flips": ("flips", "single bits that change on disk"),
    "processes": ("ranks", "processes that train together, and one of them killed"),
    "engines": ("rows engine", "rows scored by Spark, Ray and Dask, whose worker is killed"),
    "fuzz": ("inputs", "inputs to every reader"),
    "bombs": ("bombs", "files that unpack to much more than they are"),
    "memory": ("seconds", "a long training, beside everything else"),
}


def main() -> int:
    """Run the parts; the exit code tells whether everything held."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    about = "; ".join(f"{name}: {what}" for name, (_, what) in PARTS.items())
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{about} (default: all)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--sizes", type=int, default=8, help="of disks, for every job")
    parser.add_argument("--tries", type=int, default=24, help="of two writers")
    parser.add_argument("--fits", type=int, default=24, help="in threads")
    parser.add_argument("--flips", type=int, default=1500, help="each of four kinds of files")
    parser.add_argument("--ranks", type=int, default=5, help="killed, of processes together")
    parser.add_argument("--rows", type=int, default=10_000_000, help="for each engine")
    parser.add_argument("--engine", choices=("spark", "ray", "dask"), help="only this one")
    parser.add_argument("--inputs", type=int, default=1_000_000, help="to readers")
    parser.add_argument("--bombs", type=int, default=1, help="how often each")
    parser.add_argument("--seconds", type=float, default=7200.0, help="of the long training")
    arguments = parser.parse_args()
    parts = arguments.parts or list(PARTS)
    if unknown := set(parts) - PARTS.keys():
        parser.error(f"there is no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    soaking = None
    if "memory" in parts:
        soaking = import_module("tests.soak.memory").Soaking(arguments.seconds)
    rows: list[Row] = []
    for part in parts:
        if part != "memory":
            say(f"{part}: {PARTS[part][1]}")
            run: Callable[..., list[Row]] = import_module(f"tests.soak.{part}").run
            rows += run(arguments.seed, *(getattr(arguments, k) for k in PARTS[part][0].split()))
    if soaking is not None:
        rows.append(soaking.row())
    sys.stdout.write(table(rows) + "\n")
    return int(any(row.held < row.tried for row in rows))


if __name__ == "__main__":
    sys.exit(main())
