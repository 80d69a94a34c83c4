"""A detector as an ONNX graph: the user's own numbers in, score and p-value out.

Text and dates are made numbers before it: graphs have no rule for all that files hold.
"""

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from ..data.points import from_bytes
from ..support.extras import need
from ..support.files import check_writable, whole_file
from .energy_detector import EnergyDetector
from .scorer import Scorer

OPSET = 18


class Deployed(nn.Module):
    """Scores and conformal p-values, both ``(N,)`` in float64.

    Images are ``(N, C, H, W)``: bytes if the model was fitted to bytes, otherwise floats.
    """

    calibration: Tensor

    def __init__(self, scorer: Scorer, calibration: Tensor, of_bytes: bool) -> None:
        super().__init__()
        self.scorer = scorer
        self.of_bytes = of_bytes
        self.register_buffer("calibration", calibration)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        if self.of_bytes:
            x = from_bytes(x.float())
        score = self.scorer(x)
        # Counted, not searched for: ONNX has no search in a sorted list.
        below = (self.calibration <= score.unsqueeze(1)).double().sum(1)
        return score, (1 + below) / (len(self.calibration) + 1)


def to_onnx(detector: EnergyDetector, path: Path | str) -> None:
    """Write ``detector`` to an ONNX file with input ``x`` and outputs ``score`` and ``p_value``.

    Any number of rows, as float64, or bytes for images that were; columns in the order they were
    fitted in. The file's metadata tells, in JSON: ``uspebm.columns`` (if they have names),
    ``uspebm.encoding`` (how columns of another kind become these numbers),
    ``uspebm.event_shape``, ``uspebm.threshold``, below which scores are outliers', and
    ``uspebm.calibration``: how many points, m, whether by folds, and the rate of that threshold.

    An alarm at another rate α is where ``p_value`` is at most α; with confidence γ, where it is at
    most k / (m + 1), k by :func:`~uspebm.evaluation.calibration.confident_alarms` of m, α and γ.
    False discoveries are decided from the p-values of all rows
    (:func:`~uspebm.evaluation.calibration.benjamini_hochberg`). Not in the file: weights, which are
    refused, reasons and drift, which need the rows that the model's folder holds.
    """
    path = Path(path)
    check_onnx(path)
    model = onnx_model(detector)
    with whole_file(path) as file:
        file.write(model.SerializeToString())


def onnx_model(detector: EnergyDetector) -> Any:
    """The same, not yet written."""
    check_is_fitted(detector)
    detector.refuse_weights("the exported model")
    calibration = torch.from_numpy(detector.calibration_scores_)
    deployed = Deployed(detector.scorer_, calibration, detector.of_bytes_).eval()
    dtype = torch.uint8 if detector.of_bytes_ else torch.float64
    example = torch.zeros(2, *detector.event_shape_, dtype=dtype)
    with _quiet():
        program = torch.onnx.export(
            deployed,
            (example,),
            dynamo=True,
            opset_version=OPSET,
            input_names=["x"],
            output_names=["score", "p_value"],
            dynamic_shapes={"x": {0: torch.export.Dim("rows", min=1)}},
            verbose=False,
        )
    if program is None:
        raise RuntimeError("torch's exporter returned nothing")
    model = program.model_proto
    names = getattr(detector, "feature_names_in_", None)
    about: dict[str, object] = {
        "event_shape": detector.event_shape_,
        "threshold": detector.offset_,
        "calibration": {
            "points": len(calibration),
            "folds": detector.folded_,
            "false_alarm_rate": detector.usual_rate,
        },
        "columns": None if names is None else [str(name) for name in names],
        "encoding": None,
    }
    if detector.encoding_ is not None:
        about["columns"] = detector.encoding_.names
        about["encoding"] = detector.encoding_.as_plain()
    for key, value in about.items():
        if value is not None:
            entry = model.metadata_props.add()
            entry.key, entry.value = f"uspebm.{key}", json.dumps(value, ensure_ascii=False)
    return model


def check_onnx(path: Path) -> None:
    """An error if there is no exporter, or ``path`` cannot be written: before any work."""
    for module in ("onnx", "onnxscript"):  # what torch's exporter needs
        need(module, "export", "onnx")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: name a file")
    check_writable(path)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what the exporter says of its own insides: nothing a user could act on."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
