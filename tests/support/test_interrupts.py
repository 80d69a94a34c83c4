"""Interrupts that wait, and the second one that does not."""

import os
import signal

import pytest

from uspebm.support import interrupts
from uspebm.support.interrupts import patient_interrupt


def test_signals_at_once_are_one_interrupt_and_a_later_one_does_not_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr(interrupts, "monotonic", lambda: now)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), patient_interrupt() as interrupted:
        assert not interrupted.is_set()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGINT):
            os.kill(os.getpid(), number)
        assert interrupted.is_set()
        now += interrupts.SAME_INTERRUPT + 0.1
        os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
