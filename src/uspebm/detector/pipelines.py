"""A scikit-learn pipeline that ends in a detector: saved, loaded and exported.

Its folder holds the detector as any model is saved, in ``detector/``, and the steps before it in
``steps.skops``: a format that builds only what it is allowed to, by default scikit-learn's and
numpy's own parts, and runs no code of the file's. Steps of the user's own have to be trusted by
name when they are loaded.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ..support.extras import need
from ..support.files import check_writable, whole_file, whole_folder
from ..support.reading import one_line, reading
from .energy_detector import EnergyDetector
from .folder import ModelFileError, load, save_model
from .onnx_export import OPSET, check_onnx, onnx_model

STEPS, DETECTOR, RECORD = "steps.skops", "detector", "pipeline.json"
MACHINE_LEARNING_OPSET = 3
HARMLESS = ("numpy.dtype",)
"""What scikit-learn's own parts hold, and skops does not know."""


def save_pipeline(pipeline: Pipeline, folder: Path | str) -> None:
    """Write a fitted pipeline to ``folder``, whole or not at all; one that is there is replaced.

    >>> import numpy as np
    >>> from tempfile import TemporaryDirectory
    >>> from sklearn.preprocessing import StandardScaler
    >>> X = np.random.default_rng(0).normal(5.0, size=(200, 2))
    >>> steps = [("units", StandardScaler()), ("detector", EnergyDetector(random_state=0))]
    >>> with TemporaryDirectory() as place:
    ...     save_pipeline(Pipeline(steps).fit(X), f"{place}/pipeline")
    ...     load_pipeline(f"{place}/pipeline").predict([[5.0, 5.0], [0.0, 0.0]])
    array([ 1, -1])
    """
    steps, detector = _parts(pipeline)
    io = need("skops.io", "saving a pipeline", "pipelines")
    folder = Path(folder)
    if folder.exists() and not (folder / RECORD).exists():
        raise ModelFileError(f"{folder} exists and is no pipeline: choose another folder")
    check_writable(folder.resolve())
    try:
        content = io.dumps(steps)
    except Exception as error:  # whatever a part of the user's own raises
        raise ValueError(f"the steps cannot be saved: {one_line(error)}") from error
    with whole_folder(folder) as filling:
        save_model(detector, filling / DETECTOR)
        (filling / STEPS).write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        record = {"format": 1, "sha256": digest, "last": pipeline.steps[-1][0]}
        (filling / RECORD).write_text(json.dumps(record), encoding="utf-8")


def load_pipeline(folder: Path | str, trusted: Sequence[str] = ()) -> Pipeline:
    """The pipeline in a folder; ``trusted`` names types of the user's own that may be built.

    >>> load_pipeline("gone")  # what save_pipeline shows reads one that is there
    Traceback (most recent call last):
    uspebm.detector.folder.ModelFileError: gone is no pipeline's folder: it has no pipeline.json
    """
    folder = Path(folder)
    io = need("skops.io", "loading a pipeline", "pipelines")
    if not (folder / RECORD).exists():
        raise ModelFileError(f"{folder} is no pipeline's folder: it has no {RECORD}")
    with reading(folder, error=ModelFileError):
        content = (folder / STEPS).read_bytes()
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        if record["sha256"] != hashlib.sha256(content).hexdigest():
            raise ModelFileError(f"{folder}: {STEPS} is damaged, or not of this pipeline")
        allowed = [*HARMLESS, *trusted]
        unknown = sorted(set(io.get_untrusted_types(data=content)) - set(allowed))
        if unknown:
            raise ModelFileError(
                f"{folder}: {STEPS} holds {unknown[0]}, which is not scikit-learn's: if you know "
                f"it, name it as trusted=[{unknown[0]!r}]"
            )
        steps = io.loads(content, trusted=allowed)
        last = record.get("last", "detector")  # older folders do not say
        return Pipeline([*steps.steps, (last, load(folder / DETECTOR))])


def pipeline_to_onnx(pipeline: Pipeline, path: Path | str, example: Any) -> None:
    """Write a fitted pipeline to ``path``, one ONNX file, where skl2onnx can convert the steps.

    ``example``: some rows as they will be scored, which tell names and types of the inputs. The
    outputs are ``score`` and ``p_value``, in float64. Many steps compute in float32 there, whatever
    they do in Python: scores then differ in their last digits. Runtimes lack some steps in float64:
    an example in float32 helps.

    >>> pipeline_to_onnx(Pipeline([("a", "passthrough"), ("b", object())]), "model.onnx", [[0.0]])
    Traceback (most recent call last):
    ValueError: the last step is a object, not an EnergyDetector
    """
    path = Path(path)
    steps, detector = _parts(pipeline)
    check_onnx(path)
    converter = need("skl2onnx", "exporting a pipeline", "pipelines")
    onnx = need("onnx", "export", "onnx")
    opsets = {"": OPSET, "ai.onnx.ml": MACHINE_LEARNING_OPSET}
    try:
        before = converter.to_onnx(steps, example, target_opset=opsets)
    except Exception as error:  # of a converter that was never written, above all
        raise ValueError(f"skl2onnx cannot convert these steps: {one_line(error)}") from error
    after = onnx_model(detector)
    made = onnx.compose.add_prefix(before, "steps/", rename_inputs=False)
    out = made.graph.output[0].name
    made.graph.node.append(
        onnx.helper.make_node("Cast", [out], ["steps/x"], to=onnx.TensorProto.DOUBLE)
    )
    made.graph.output[0].CopyFrom(
        onnx.helper.make_tensor_value_info(
            "steps/x", onnx.TensorProto.DOUBLE, [None, *detector.event_shape_]
        )
    )
    made.ir_version = after.ir_version = max(made.ir_version, after.ir_version)
    model = onnx.compose.merge_models(made, after, io_map=[("steps/x", "x")])
    with whole_file(path) as file:
        file.write(model.SerializeToString())


def _parts(pipeline: Pipeline) -> tuple[Pipeline, EnergyDetector]:
    if not isinstance(pipeline, Pipeline) or len(pipeline.steps) < 2:
        raise ValueError(f"{type(pipeline).__name__} is no pipeline of steps and a detector")
    detector = pipeline[-1]
    if not isinstance(detector, EnergyDetector):
        raise ValueError(f"the last step is a {type(detector).__name__}, not an EnergyDetector")
    check_is_fitted(detector)
    return pipeline[:-1], detector
