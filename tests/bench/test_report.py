import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from uspebm import EnergyDetector
from uspebm.bench import particle_updates, report, scoring
from uspebm.cli.main import main
from uspebm.recipes.paper import MIXTURE_PS_USP


def test_the_command_reports_every_ratio(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        particle_updates,
        "MIXTURE_PS_USP",
        replace(MIXTURE_PS_USP, particles=500, active=50, nodes=500),
    )
    monkeypatch.setattr(report, "QUICK", replace(report.QUICK, repeats=1))
    # A model whose graph is small; the usual one is exported in detector/test_mixed_tables.py.
    small = partial(EnergyDetector, "tables-density", max_updates=1)
    monkeypatch.setattr(scoring, "EnergyDetector", small)
    path = tmp_path / "figures.json"
    assert main(["bench", "--quick", "--json", str(path), "--out", str(tmp_path)]) == 0
    content = json.loads(path.read_text())
    assert content["ratios"].keys() >= {
        "cnn_gradient_vs_plain",
        "cnn_share_of_peak",
        "langevin_vs_torchebm",
        "ps_usp_50k_vs_straightforward",
        "ps_usp_50k_vs_10k",
        "ps_usp_2d_vs_straightforward",
    }
    assert content["ratios"]["cnn_gradient_vs_plain"] > 0
    assert set(content["races"]["table of 100 rows, fit and score"]) == {"ours", "k-NN"}
    assert set(content["races"]["scoring table 1"]) == {"ours", "onnxruntime"}
    assert content["races"]["200 rows by a table of 100"]["ours"]["median"] > 0
    for kind, size in (("n", "1000"), ("active", "50"), ("side", "64")):
        assert content["memory"][kind][size]["peak"] > 0
        assert content["growth"][kind][size]["median"] > 0
    assert 0 < content["compilation"] < 60
    assert (tmp_path / "bench.png").exists()
    assert "ratio" in capsys.readouterr().out
