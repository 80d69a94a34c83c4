"""How long scores take: the detector in PyTorch, and the same exported to onnxruntime; and tables
beside k-NN.
"""

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..detector.energy_detector import EnergyDetector
from ..detector.fitting import MOST_FOLDED
from ..detector.folder import load
from ..detector.onnx_export import to_onnx
from ..domains import Box
from ..evaluation.classical import NearestMean
from ..recipes.images import image_recipe
from ..support.randomness import generator
from .timing import Timing, race

RECIPE_FROM = 1000
"""Images that tell the images recipe what it needs to know."""


def latencies(repeats: int, batches: Sequence[int]) -> Iterator[tuple[str, dict[str, Timing]]]:
    """Of ``batches`` of points: a table's, with 30 columns and 3,000 rows held, and images."""
    draws = np.random.default_rng(0)
    rows = draws.normal(size=(3000, 30))
    table = EnergyDetector(random_state=0).fit(rows)
    yield from _race("table", table, rows, rows, repeats, batches)
    images = draws.integers(0, 256, (1000, 28, 28), dtype=np.uint8)
    yield from _race("images", load("fashion-mnist"), images, images[:, None], repeats, batches)
    yield "scoring images by features", _by_features(repeats, 20 * max(batches))


@torch.no_grad()
def _by_features(repeats: int, centres: int) -> dict[str, Timing]:
    """A batch by its distance to so many centres, beside the network's own energy."""
    shape = (1, 28, 28)
    images = Box(-1.0, 1.0, shape).sample(centres, generator(0, "images"))
    recipe = image_recipe(images[:RECIPE_FROM])
    network = recipe.energy.build(images[:1], seed=0).eval()
    energy, new = recipe.scored_by(network, images, seed=0), images[:1000]
    return race({"ours": lambda: energy(new), "network": lambda: network(new)}, repeats)


def tables(
    repeats: int, learned: Sequence[int], scored: int
) -> Iterator[tuple[str, dict[str, Timing]]]:
    """Of 30 columns: fitted to each of so many rows, beside k-NN, and rows ``scored`` at once."""
    draws = np.random.default_rng(0)
    turn = draws.normal(size=(30, 30))
    new = draws.normal(size=(scored, 30)) @ turn
    for count in learned:
        rows = draws.normal(size=(count, 30)) @ turn
        few = new[:count]
        contestants = {"ours": lambda x=rows, z=few: _scored(EnergyDetector(random_state=0), x, z)}
        if count <= MOST_FOLDED:  # of more, k-NN takes minutes
            contestants["k-NN"] = lambda x=rows, z=few: _scored(NearestMean(), x, z)
        yield f"table of {count} rows, fit and score", race(contestants, min(3, repeats))
        model = EnergyDetector(random_state=0).fit(rows)
        scorers = {"ours": lambda m=model: m.score_samples(new)}
        yield f"{scored} rows by a table of {count}", race(scorers, min(3, repeats))


def _scored(detector: Any, rows: NDArray[Any], new: NDArray[Any]) -> None:
    detector.fit(rows).score_samples(new)


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
