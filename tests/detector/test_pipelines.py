"""Pipelines that end in a detector: saved, loaded, scored and exported."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from uspebm import EnergyDetector, load_pipeline, pipeline_to_onnx, save_pipeline
from uspebm.detector.folder import ModelFileError

X = np.random.default_rng(0).normal(size=(200, 4)) * [1.0, 10.0, 100.0, 1.0]
NEW = np.random.default_rng(1).normal(size=(50, 4)) * [1.0, 10.0, 100.0, 3.0]


def small_graph() -> EnergyDetector:
    """Exported in seconds; the usual one is exported in ``test_mixed_tables.py``."""
    return EnergyDetector("tables-density", max_updates=0, random_state=0)


def numbers() -> Pipeline:
    return make_pipeline(StandardScaler(), PCA(3), small_graph()).fit(X)


def frame(n: int, seed: int) -> pd.DataFrame:
    draws = np.random.default_rng(seed)
    size = draws.normal(size=n).astype(np.float32)  # runtimes impute in single precision only
    size[::9] = np.nan
    return pd.DataFrame({"size": size, "kind": draws.choice(["a", "b"], n)})


def columns() -> Pipeline:
    parts = [("n", SimpleImputer(), ["size"]), ("k", OneHotEncoder(sparse_output=False), ["kind"])]
    return make_pipeline(ColumnTransformer(parts), small_graph()).fit(frame(200, 0))


def squashed(x: Any) -> Any:
    return np.tanh(x)


def in_onnx(path: Path, inputs: dict[str, Any]) -> list[Any]:
    session = onnxruntime.InferenceSession(path.read_bytes())
    assert [out.name for out in session.get_outputs()] == ["score", "p_value"]
    found: list[Any] = session.run(None, inputs)
    return found


def test_a_pipeline_comes_back_with_the_same_scores(tmp_path: Path) -> None:
    for name, made, new in (("a", numbers(), NEW), ("b", columns(), frame(30, 1))):
        save_pipeline(made, tmp_path / name)
        save_pipeline(made, tmp_path / name)  # in place of what was there
        found = load_pipeline(tmp_path / name)
        assert list(found.named_steps) == list(made.named_steps)
        assert np.array_equal(found.score_samples(new), made.score_samples(new))
        assert np.array_equal(found.predict(new), made.predict(new))


def test_a_pipeline_of_numbers_in_onnx(tmp_path: Path) -> None:
    made, path = numbers(), tmp_path / "p.onnx"
    pipeline_to_onnx(made, path, X[:1])
    score, p = in_onnx(path, {"X": NEW})
    assert np.allclose(score, made.score_samples(NEW), atol=1e-3)
    assert np.allclose(p, made[-1].p_values(made[:-1].transform(NEW)), atol=0.02)


def test_a_pipeline_of_columns_in_onnx(tmp_path: Path) -> None:
    made, path, new = columns(), tmp_path / "p.onnx", frame(30, 1)
    pipeline_to_onnx(made, path, frame(1, 0).fillna(0.0))
    given = {name: new[[name]].to_numpy() for name in new}
    assert np.allclose(in_onnx(path, given)[0], made.score_samples(new), atol=1e-3)


def test_damage_is_noticed(tmp_path: Path) -> None:
    place = tmp_path / "p"
    save_pipeline(numbers(), place)
    steps = place / "steps.skops"
    content = bytearray(steps.read_bytes())
    content[len(content) // 2] ^= 1
    steps.write_bytes(content)
    with pytest.raises(ModelFileError, match="is damaged"):
        load_pipeline(place)
    (place / "pipeline.json").write_text(json.dumps({}))
    with pytest.raises(ModelFileError, match="there is no 'sha256'"):
        load_pipeline(place)


def test_parts_of_others_are_built_only_when_trusted(tmp_path: Path) -> None:
    own = make_pipeline(FunctionTransformer(squashed), EnergyDetector(random_state=0)).fit(X)
    save_pipeline(own, tmp_path / "p")
    with pytest.raises(ModelFileError, match=r"squashed, which is not scikit-learn's"):
        load_pipeline(tmp_path / "p")
    found = load_pipeline(tmp_path / "p", trusted=[f"{__name__}.squashed"])
    assert np.array_equal(found.score_samples(NEW), own.score_samples(NEW))
    with pytest.raises(ValueError, match="skl2onnx cannot convert"):
        pipeline_to_onnx(own, tmp_path / "p.onnx", X[:1])


def test_what_is_no_pipeline_of_ours_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the last step is a PCA"):
        save_pipeline(make_pipeline(StandardScaler(), PCA(2)).fit(X), tmp_path / "p")
    with pytest.raises(ValueError, match="EnergyDetector is no pipeline"):
        save_pipeline(EnergyDetector(), tmp_path / "p")
    (tmp_path / "mine").mkdir()
    with pytest.raises(ModelFileError, match="exists and is no pipeline"):
        save_pipeline(numbers(), tmp_path / "mine")
    with pytest.raises(ModelFileError, match="is no pipeline's folder"):
        load_pipeline(tmp_path / "mine")
