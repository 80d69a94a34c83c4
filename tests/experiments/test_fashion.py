"""Table 1 and Fig. 5 in small, on made-up images; with the real ones where they are at hand."""

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor

from uspebm import datasets
from uspebm.cli import main
from uspebm.experiments import baselines, fashion, table1
from uspebm.metrics import Detection, detection
from uspebm.modelfile import load as load_model
from uspebm.randomness import generator

SIZES = {"fashion-mnist/train": 60_000}


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(key: str) -> Tensor:
        draws = generator(0, key)
        return torch.randint(
            256, (SIZES.get(key, 10_000), 28, 28), dtype=torch.uint8, generator=draws
        )

    monkeypatch.setattr(datasets, "load", load)


@pytest.mark.usefixtures("made_up")
def test_the_table_and_the_figure_run_and_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["--preset", "smoke", "--seeds", "2", "--out", str(tmp_path)]
    assert main(["reproduce", "table1", *command]) == 0
    folder = tmp_path / "smoke" / "table1"
    results = json.loads((folder / "results.json").read_text())
    assert set(results["rows"]) == {"SRLMC", "crowded-PS-USP"}
    for row in results["rows"].values():
        assert set(row) == set(datasets.OOD_NAMES)
        assert all(len(seeds) == 2 for seeds in row.values())
    written = (folder / "table1.md").read_text()
    assert "| PS-USP (paper) | 2.18 | 1.84 | 7.04 | 0.97 | 0.0 |" in written
    assert len(fashion.snapshots(folder, "SRLMC", 1)) == fashion.SNAPSHOTS - 2  # 6, 7, 8 of 8
    assert load_model(folder / "models" / "SRLMC-1").method == "srlmc"
    capsys.readouterr()
    # The figure takes the table's models, and the proxies' command their snapshots.
    assert main(["reproduce", "fig5", *command]) == 0
    assert "resuming at update 8" in capsys.readouterr().out
    for name in (
        "srlmc/points",
        "srlmc/chains",
        "srlmc/scores-mnist",
        "crowded-ps-usp/scores-noise",
    ):
        assert (tmp_path / "smoke" / "fig5" / f"{name}.png").stat().st_size > 5_000
    assert main(["proxies", *map(str, fashion.snapshots(folder, "SRLMC", 0)[-1:])]) == 0
    assert "inverted" in capsys.readouterr().out


def test_missing_images_are_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(key: str) -> Tensor:
        raise ValueError(f"{key} was found nowhere")

    monkeypatch.setattr(datasets, "load", missing)
    assert main(["reproduce", "table1", "--preset", "smoke"]) == 2
    assert capsys.readouterr().err == "uspebm: fashion-mnist/train was found nowhere\n"


@pytest.mark.parametrize(
    "make",
    [
        baselines.nearest_neighbour,
        lambda x: baselines.nearest_neighbour(x, 3),
        baselines.pca_reconstruction,
        baselines.gaussian_mixture,
        baselines.isolation_forest,
        lambda x: baselines.autoencoder(x, steps=150),
    ],
    ids=["nearest", "third nearest", "pca", "mixture", "forest", "autoencoder"],
)
def test_every_baseline_tells_noise_from_smooth_images(make: table1.Baseline) -> None:
    def smooth(seed: int) -> Tensor:
        coarse = torch.randn(300, 1, 3, 3, generator=generator(seed))
        return torch.nn.functional.interpolate(coarse, (28, 28), mode="bilinear").tanh()

    score = make(smooth(0))
    noise = 2 * torch.rand(300, 1, 28, 28, generator=generator(2)) - 1
    found = detection(score(smooth(1)), score(noise))
    assert found.auroc > 0.8


def test_a_cell_is_the_mean_over_seeds_in_per_cent() -> None:
    found = [Detection(0.01, 0.9, 0.9, 0.9), Detection(0.03, 0.9, 0.9, 0.9)]
    assert table1._cell(found, "fpr95") == "2.00 ± 1.41"
    assert table1._cell(found[:1], "fpr95") == "1.00"


def test_claims_want_ps_usp_below_the_paper_and_srlmc_to_fail() -> None:
    def row(*fpr95: float) -> table1.Row:
        return {
            kind: [Detection(rate / 100, 1.0, 1.0, 1.0)]
            for kind, rate in zip(datasets.OOD_NAMES, fpr95, strict=True)
        }

    methods = {name: table1.SMOKE.methods[name] for name in ("SRLMC", "crowded-PS-USP")}
    rows = {"SRLMC": row(90, 9, 50, 50, 0), "crowded-PS-USP": row(2, 1.85, 7, 0, 0)}
    found = table1._claims(methods, rows, {"crowded-PS-USP": [3.5]})
    verdicts = {claim.name: claim.holds for claim in found}
    assert verdicts == {
        "SRLMC: FPR95 on MNIST, %": True,
        "SRLMC: FPR95 on KMNIST, %": False,
        "SRLMC: FPR95 on NotMNIST, %": True,
        "SRLMC: FPR95 on Constant, %": True,
        "crowded-PS-USP: FPR95 on MNIST, %": True,
        "crowded-PS-USP: FPR95 on KMNIST, %": False,
        "crowded-PS-USP: FPR95 on NotMNIST, %": True,
        "crowded-PS-USP: FPR95 on Constant, %": True,
        "crowded-PS-USP: FPR95 on Noise, %": True,
        "crowded-PS-USP: span of FPR95 on MNIST, last quarter": False,
    }


def test_what_takes_long_is_trained_with_fewer_seeds() -> None:
    method = table1.PAPER.methods["PS-USP"]
    assert list(method.seeds(3)) == [0]
    assert list(table1.PAPER.methods["SRLMC"].seeds(3)) == [0, 1, 2]
