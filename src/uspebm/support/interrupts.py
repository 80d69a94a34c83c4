"""Ctrl-C and termination signals that wait for the work under way."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def patient_interrupt() -> Iterator[threading.Event]:
    """An event that the first interrupt sets; the second one interrupts as usual."""
    interrupted = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield interrupted  # only the main thread receives signals
        return

    def note(signum: int, frame: FrameType | None) -> None:
        if interrupted.is_set():
            raise KeyboardInterrupt
        interrupted.set()

    before = {s: signal.signal(s, note) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interrupted
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
