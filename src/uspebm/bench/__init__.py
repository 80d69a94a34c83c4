"""Speed against plain PyTorch and peers, in one process and one run.

May know: detectors and all below them, and the peers. Nothing but the command knows it.
"""
