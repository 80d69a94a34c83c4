"""Tests are deterministic, and two workers share two cores: one thread each."""

import os
import signal

# Before anything loads OpenMP or OpenBLAS; scikit-learn's and SciPy's obey torch's calls as little
# as torch obeys theirs, and four threads on two cores made small fits ten times as slow.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("uspebm", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("uspebm")
# The long form, `make soak`; and what would change torch for all tests, were it read for doctests.
collect_ignore = ["soak", "second_device.py"]
# Shells start background jobs with interrupts ignored; what tests interrupt would never end.
signal.signal(signal.SIGINT, signal.default_int_handler)
