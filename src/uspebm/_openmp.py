"""What OpenMP's threads do, set before torch loads OpenMP.

**How long they spin before they sleep.** GNU's default is to spin for milliseconds. With one other
busy process on the machine, threads then wait for each other's time slices at every barrier:
training was measured to be 30 times slower on two cores. With a short spin it is four to five times
slower there, and as fast as before on an idle machine (LOG.md has the figures). A value of the
user's is kept; where torch was imported before, this has no effect.

**That a forked child has none.** Once the parent has computed with several threads, a child that
does the same waits for ever for threads that only the parent has. So forked children compute with
one thread, and score the same numbers; start processes by ``spawn`` for more.
"""

import os
import sys

os.environ.setdefault("GOMP_SPINCOUNT", "10000")


def _one_thread() -> None:
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_one_thread)
