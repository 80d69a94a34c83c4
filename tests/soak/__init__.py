"""The long form of the tests: kills, full disks, two writers, threads, bit flips, fuzzed inputs,
processes together, engines.

Not part of ``pytest``: ``python -m tests.soak --help`` tells how to run it, whole or in parts.
"""
