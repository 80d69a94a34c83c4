"""A detector as an ONNX graph: the user's own numbers in, score and p-value out."""

import logging
import warnings
from pathlib import Path

import torch
from torch import Tensor, nn

from .detector import EnergyDetector
from .files import whole_file
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
            x = x.double() / 127.5 - 1
        score = self.scorer(x)
        # Counted, not searched for: ONNX has no search in a sorted list.
        below = (self.calibration <= score.unsqueeze(1)).double().sum(1)
        return score, (1 + below) / (len(self.calibration) + 1)


def to_onnx(detector: EnergyDetector, path: Path | str) -> None:
    """Write ``detector`` to an ONNX file with input ``x`` and outputs ``score`` and ``p_value``.

    Any number of rows; columns in the order they were fitted in, which the file's metadata names.
    """
    try:
        import onnxscript  # noqa: F401  what torch's exporter needs
    except ImportError as error:
        raise ValueError("export needs onnxscript: pip install 'uspebm[onnx]'") from error
    calibration = torch.from_numpy(detector.calibration_scores_)
    deployed = Deployed(detector.scorer_, calibration, detector.of_bytes_).eval()
    dtype = torch.uint8 if detector.of_bytes_ else torch.float64
    example = torch.zeros(2, *detector.event_shape_, dtype=dtype)
    with warnings.catch_warnings():
        # About the exporter's own insides; nothing a user could act on.
        warnings.simplefilter("ignore")
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)
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
    about = {"event_shape": str(list(detector.event_shape_)), "uspebm": "score, p_value"}
    if names is not None:
        about["columns"] = ", ".join(map(str, names))
    for key, value in about.items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, value
    with whole_file(Path(path)) as file:
        file.write(model.SerializeToString())
