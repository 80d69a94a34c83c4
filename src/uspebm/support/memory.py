"""How much memory a process holds."""

import os
from pathlib import Path

STATM = Path("/proc/self/statm")


def resident_mebibytes() -> float:
    """Of this process now; zero on systems that do not tell."""
    if not STATM.exists():
        return 0.0
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
