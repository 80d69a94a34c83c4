"""Ctrl-C and termination signals that wait for the work under way."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from types import FrameType

SAME_INTERRUPT = 1.0
"""Seconds in which signals are one interrupt: each thread of a killed launcher sends its own."""


@contextmanager
def patient_interrupt() -> Iterator[threading.Event]:
    """An event that the first interrupt sets; another, a second later, interrupts as usual."""
    interrupted = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield interrupted  # only the main thread receives signals
        return
    first: float | None = None

    def note(signum: int, frame: FrameType | None) -> None:
        nonlocal first
        if first is None:
            first = monotonic()
            interrupted.set()
        elif monotonic() - first > SAME_INTERRUPT:
            raise KeyboardInterrupt

    before = {s: signal.signal(s, note) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interrupted
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
