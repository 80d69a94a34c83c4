"""Speed against plain PyTorch and peers, in one process and one run."""
