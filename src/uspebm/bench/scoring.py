"""How long scores take: the detector in PyTorch, and the same exported to onnxruntime."""

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..detector.energy_detector import EnergyDetector
from ..detector.folder import load
from ..detector.onnx_export import to_onnx
from .timing import Timing, race


def latencies(repeats: int, batches: Sequence[int]) -> Iterator[tuple[str, dict[str, Timing]]]:
    """Of ``batches`` of points: a table's, with 30 columns and 2,000 centres, and images."""
    draws = np.random.default_rng(0)
    rows = draws.normal(size=(3000, 30))
    table = EnergyDetector(random_state=0, max_updates=50).fit(rows)
    yield from _race("table", table, rows, rows, repeats, batches)
    images = draws.integers(0, 256, (1000, 28, 28), dtype=np.uint8)
    yield from _race("images", load("fashion-mnist"), images, images[:, None], repeats, batches)


def _race(
    name: str,
    detector: EnergyDetector,
    x: NDArray[Any],
    exported: NDArray[Any],
    repeats: int,
    batches: Sequence[int],
) -> Iterator[tuple[str, dict[str, Timing]]]:
    """``exported`` is ``x`` as the exported graph takes it."""
    run = _onnxruntime(detector)
    for batch in batches:
        contestants = {"ours": lambda n=batch: detector.p_values(x[:n])}
        if run is not None:
            contestants["onnxruntime"] = lambda n=batch: run(None, {"x": exported[:n]})
        yield f"scoring {name} {batch}", race(contestants, repeats)


def _onnxruntime(detector: EnergyDetector) -> Any:
    """What runs the exported graph; none where the packages are missing."""
    if not (find_spec("onnxruntime") and find_spec("onnxscript")):
        return None
    import onnxruntime

    with TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        to_onnx(detector, path)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        # Threads that wait busily would slow the other contestant down.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]).run
