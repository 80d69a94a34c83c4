"""Tables of very many columns: units, memory and time stay within bounds."""

import math
import sys
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
import torch
from torch import Tensor

from tests.fresh import fresh
from uspebm import EnergyDetector, load, save_model
from uspebm.detector.onnx_export import to_onnx
from uspebm.energies import kernel, scaling
from uspebm.energies.kernel import affordable
from uspebm.energies.scaling import WIDEST, Scaling, of_table
from uspebm.recipes.tables import TiltDraws, TiltedKernel
from uspebm.support.randomness import generator

DRAWS = np.random.default_rng(0)
MIXED = DRAWS.normal(size=(80, 6)) @ DRAWS.normal(size=(6, 6)) * 10.0 ** np.arange(-3, 3)


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """From six columns on."""
    monkeypatch.setattr(scaling, "WIDEST", 5)


def normal(n: int, d: int) -> Tensor:
    return torch.randn(n, d, generator=generator(0), dtype=torch.float64)


@pytest.mark.usefixtures("wide")
def test_wide_tables_are_standardised_and_no_more() -> None:
    x = torch.from_numpy(MIXED)
    units = of_table(x)
    assert units.factor.shape == (6,)
    z = units(x)
    torch.testing.assert_close(z.mean(0), torch.zeros(6).double(), atol=1e-9, rtol=0)
    torch.testing.assert_close(z.square().mean(0), torch.ones(6).double())
    torch.testing.assert_close(units.inverse(z), x)
    jacobian = torch.func.jacrev(lambda p: units(p[None])[0])(x[0])
    assert units.log_det == pytest.approx(torch.linalg.slogdet(jacobian)[1].item())


def test_where_columns_are_many() -> None:
    assert of_table(normal(20, WIDEST)).factor.shape == (WIDEST, WIDEST)
    assert of_table(normal(20, WIDEST + 1)).factor.shape == (WIDEST + 1,)


@pytest.mark.usefixtures("wide")
def test_constant_columns_of_wide_tables_keep_their_unit() -> None:
    x = torch.from_numpy(MIXED)
    x = torch.cat([x, torch.full((80, 1), 1e9 + 0.1).double()], 1)
    assert of_table(x)(x)[:, 6].abs().max() < 1e-5
    assert math.isfinite(of_table(x).log_det)


@pytest.mark.usefixtures("wide")
def test_wide_models_are_saved_and_exported_like_others(tmp_path: Path) -> None:
    detector = EnergyDetector("tables-density", max_updates=60, random_state=0).fit(MIXED)
    assert detector.scorer_.scaling.factor.shape == (6,)
    far = np.concatenate([MIXED, MIXED * 100])
    scores = detector.score_samples(far)
    save_model(detector, tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").score_samples(far), scores)
    to_onnx(detector, tmp_path / "m.onnx")
    found = ort.InferenceSession(tmp_path / "m.onnx").run(["score"], {"x": far})[0]
    np.testing.assert_allclose(found, scores, rtol=1e-6)


@pytest.mark.usefixtures("wide")
def test_one_number_per_column_is_a_diagonal_matrix() -> None:
    x = torch.from_numpy(MIXED)
    units = of_table(x)
    matrix = Scaling(units.shift, torch.diag(units.factor))
    assert units.log_det == pytest.approx(matrix.log_det)
    torch.testing.assert_close(units(x), matrix(x))


def test_memory_bounds_what_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    assert affordable(2000, torch.empty(1, 10_000)) == 2000
    assert affordable(2000, torch.empty(1, 10**9, device="meta")) == 1
    monkeypatch.setattr(kernel, "MOST_NUMBERS", 60)
    points = normal(50, 6).float()
    energy = TiltedKernel(centres=40, width=30).build(points, 0)
    assert len(energy.reference.centres) == 10
    assert energy.network.settings["width"] == 10  # type: ignore[index]
    draws = TiltDraws(nodes=500_000).given(energy, points)[1]
    assert draws.nodes == 1_000_000 // 6  # type: ignore[attr-defined]


FIT = """
import resource, sys, numpy as np, torch
torch.set_num_threads(1)
from uspebm import EnergyDetector
X = np.random.default_rng(0).normal(size=tuple(map(int, sys.argv[2:])))
resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))
detector = EnergyDetector(sys.argv.pop(1), max_updates=1, random_state=0).fit(X)
scores = detector.score_samples(X)
assert np.isfinite(scores).all()
print(detector.n_features_in_)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is bounded by Linux")
@pytest.mark.parametrize("recipe", ["tables", "tables-density"])
def test_a_very_wide_table_is_fitted(recipe: str) -> None:
    """As a matrix, units of 300,000 columns would take 720 GB."""
    done = fresh(FIT, recipe, 3, 300_000)
    assert done.returncode == 0, done.stderr[-500:]
    assert "300000" in done.stdout
