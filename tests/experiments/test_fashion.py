"""Table 1 and Fig. 5 in small, on made-up images; with the real ones where they are at hand."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from uspebm import EnergyDetector, datasets, save_model
from uspebm.checkpoint import save_snapshot
from uspebm.cli import main
from uspebm.energies import Conv
from uspebm.experiments import baselines, fashion, fig5, left_out, ood_table, table1
from uspebm.metrics import Detection, detection
from uspebm.modelfile import describe
from uspebm.modelfile import load as load_model
from uspebm.negative import CrowdedUSP
from uspebm.randomness import generator
from uspebm.train import DivergedError

SIZES = {"fashion-mnist/train": 60_000}


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(key: str) -> Tensor:
        draws = generator(0, key)
        if key.endswith("labels"):
            return torch.randint(10, (SIZES["fashion-mnist/train"],), generator=draws)
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
    assert "| PS-USP (paper) | 3 | 2.18 ± 1.03 | 1.84 ± 1.01 | 7.04 ± 0.57 |" in written
    paths = fashion.snapshots(folder, "SRLMC", table1.SMOKE.methods["SRLMC"], 1)
    assert [path.stem[-1] for path in paths] == ["6", "7", "8"]  # of 8
    assert load_model(folder / "models" / "SRLMC-1").method == "srlmc"
    about, card = describe(folder / "models" / "SRLMC-1")
    assert about["training"]["recipe"]["steps"] == 8
    assert '"noise": 0.1' in card
    capsys.readouterr()
    # The figure takes the table's models, and the proxies' command their snapshots.
    assert main(["reproduce", "fig5", *command]) == 0
    assert "SRLMC-1: found, at update 8" in capsys.readouterr().out
    for name in (
        "srlmc/points",
        "srlmc/chains",
        "srlmc/scores-mnist",
        "crowded-ps-usp/scores-noise",
    ):
        assert (tmp_path / "smoke" / "fig5" / f"{name}.png").stat().st_size > 5_000
    assert main(["proxies", str(paths[-1]), str(folder / "models" / "SRLMC-1")]) == 0
    cells = [line.split("│")[2:4] for line in capsys.readouterr().out.splitlines() if "│" in line]
    assert len(cells) == 9
    assert all(snapshot.strip() == model.strip() for snapshot, model in cells)


def test_a_run_stopped_before_a_snapshot_makes_it_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = 2 * torch.rand(60, 1, 28, 28, generator=generator(0)) - 1
    method = table1.SMOKE.methods["crowded-PS-USP"]
    fashion.train("m", method, images, tmp_path / "whole", 0)

    def stop(module: torch.nn.Module, path: Path) -> None:
        if path.stem.endswith("7"):
            raise KeyboardInterrupt
        save_snapshot(module, path)

    monkeypatch.setattr(fashion, "save_snapshot", stop)
    with pytest.raises(KeyboardInterrupt):
        fashion.train("m", method, images, tmp_path / "stopped", 0)
    monkeypatch.undo()
    fashion.train("m", method, images, tmp_path / "stopped", 0)
    whole, stopped = (
        [path.read_bytes() for path in fashion.snapshots(tmp_path / name, "m", method, 0)]
        for name in ("whole", "stopped")
    )
    assert whole == stopped


@pytest.mark.usefixtures("made_up")
def test_a_seed_that_diverges_is_left_out_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    learn = fashion.train

    def train(name: str, method: fashion.Method, images: Tensor, out: Path, seed: int) -> object:
        training = learn(name, method, images, out, seed)
        if name == "SRLMC" and seed == 0:
            raise DivergedError("update 3: loss nan", training.state)
        return training

    monkeypatch.setattr(table1, "train", train)
    config = replace(table1.SMOKE, methods={"SRLMC": table1.SMOKE.methods["SRLMC"]}, images=50)
    table1.run(tmp_path, config, seeds=2)
    assert "SRLMC, seed 0, is left out: update 3: loss nan" in capsys.readouterr().out
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["diverged"] == {"SRLMC": [0]}
    assert len(results["rows"]["SRLMC"]["MNIST"]) == 1
    assert "| SRLMC | 1 of 2; the others diverged |" in (tmp_path / "table1.md").read_text()
    # Fig. 5 does with the seeds that there are, and has its own files if methods were left out.
    monkeypatch.setattr(fig5, "train", train)
    chosen = replace(table1.SMOKE, images=50).only(["SRLMC"])
    found = fig5.run(tmp_path / "fig5", chosen, seeds=2)
    assert {claim.seeds for claim in found} == {1}
    assert (tmp_path / "fig5" / "results-SRLMC.json").exists()
    assert not (tmp_path / "fig5" / "results.json").exists()


def test_baselines_are_computed_again_when_their_settings_change(tmp_path: Path) -> None:
    images = 2 * torch.rand(40, 1, 28, 28, generator=generator(0)) - 1
    computed = []

    def make(train: Tensor, seed: int, scale: int) -> baselines.Score:
        computed.append(scale)
        return lambda x: scale * x.mean((1, 2, 3)).numpy()

    for scale in (1, 1, -1, -1):
        found = table1._kept(
            tmp_path,
            "mean",
            table1.Baseline(make, {"scale": scale}),
            0,
            images,
            images,
            {"MNIST": images + 2},
        )
        assert found["MNIST"].fpr95 == (1.0 if scale == 1 else 0.0)
    assert computed == [1, -1]


def test_particles_start_at_images_and_a_share_of_them_afresh() -> None:
    images = 2 * torch.rand(60, 1, 28, 28, generator=generator(0)) - 1
    crowded = table1.SMOKE.methods["crowded-PS-USP"]  # 50 particles, a fifth of them afresh
    phase = crowded.phase
    assert isinstance(phase, CrowdedUSP)
    for fresh in (phase.fresh, None):
        method = replace(crowded, phase=replace(phase, fresh=fresh))
        points = fashion.start(method, images, 0)[0]
        at_images = (points[:, None] == images).flatten(2).all(2).any(1)
        assert (len(points), int(at_images.sum())) == (50, 40)
    with pytest.raises(ValueError, match=r"afresh=0.2: PersistentUSP has no fresh ones"):
        replace(crowded, phase=phase.phase)


def test_noise_has_the_deviation_it_is_said_to_have_and_stays_in_the_domain() -> None:
    noisy = fashion.NoisyImages(torch.zeros(1, 1, 28, 28), std=0.1).sample(100, generator(0))
    # Of 78,400 draws the deviation is known to 0.1 / √(2 · 78,400) = 0.00025.
    assert noisy.std().item() == pytest.approx(0.1, abs=0.001)
    wide = fashion.NoisyImages(torch.full((1, 1, 28, 28), 0.9), std=1.0).sample(10, generator(0))
    assert wide.max() == 1.0
    assert wide.min() == -1.0


def test_only_points_that_moved_are_looked_at() -> None:
    before = torch.zeros(6, 1, 2, 2)
    after = before.clone()
    after[[1, 4], 0, 1, 1] = torch.tensor([0.5, 0.7])
    moved = fig5._moved(after, before, 0)
    assert sorted(moved[:, 0, 1, 1].tolist()) == pytest.approx([0.5, 0.7])


def test_a_look_measures_what_it_says() -> None:
    energy = _brightness()
    known = torch.linspace(-1, 1, 101).view(-1, 1, 1, 1).expand(-1, 1, 28, 28)
    points, digits = torch.full((4, 1, 28, 28), 0.5), known[[0, 60, 70, 80]]
    model = fig5.Model(table1.SMOKE.methods["SRLMC"], energy, (), points)
    look = fig5._look(model, known, known, digits, 0, None)
    assert look.closer == pytest.approx(0.0, abs=1e-3)
    assert look.gap == pytest.approx(-0.5 / known[:, 0, 0, 0].std().item(), rel=1e-3)
    assert look.overestimated == 25.0  # the black one; scores are minus brightness
    black = (known[:, 0, 0, 0] < fig5.BLACK).float()
    expected = torch.stack([-known[:, 0, 0, 0], black]).corrcoef()[0, 1].item()
    assert look.darkness == pytest.approx(expected, rel=1e-3)


def test_a_span_is_between_the_best_and_the_worst_snapshot() -> None:
    inside = torch.linspace(-1, 0, 100).view(-1, 1, 1, 1).expand(-1, 1, 28, 28)
    dark, bright = _brightness(), _brightness(-1.0)
    # All of what is brighter is found by the one; the other takes it for the best there is.
    assert table1._span([dark, bright, dark], inside, inside + 1.5) == 100.0
    assert table1._span([dark, dark], inside, inside + 1.5) == 0.0


def _brightness(sign: float = 1.0) -> Conv:
    """An energy that is the mean of the pixels, or minus it."""

    class Brightness(Conv):
        def forward(self, x: Tensor) -> Tensor:
            return sign * x.flatten(1).mean(1)

    return Brightness()


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
        partial(baselines.pca_reconstruction, directions=60),
        partial(baselines.gaussian_mixture, directions=60),
        baselines.isolation_forest,
        partial(baselines.autoencoder, steps=150),
    ],
    ids=["nearest", "pca", "mixture", "forest", "autoencoder"],
)
def test_every_baseline_tells_noise_from_smooth_images(
    make: Callable[[Tensor, int], baselines.Score],
) -> None:
    def smooth(seed: int) -> Tensor:
        coarse = torch.randn(300, 1, 3, 3, generator=generator(seed))
        return torch.nn.functional.interpolate(coarse, (28, 28), mode="bilinear").tanh()

    score = make(smooth(0), 0)
    noise = 2 * torch.rand(300, 1, 28, 28, generator=generator(2)) - 1
    found = detection(score(smooth(1)), score(noise))
    assert found.auroc > 0.8


@pytest.mark.parametrize("k", [1, 3])
def test_the_kth_neighbour_is_that_of_sorted_distances(k: int) -> None:
    images = torch.rand(20, 1, 28, 28, generator=generator(0))
    x = torch.rand(5, 1, 28, 28, generator=generator(1))
    distance = (x[:, None] - images).flatten(2).norm(dim=2).sort(1).values[:, k - 1]
    torch.testing.assert_close(
        torch.as_tensor(baselines.nearest_neighbour(images, k=k)(x)),
        -distance,
        rtol=1e-4,
        atol=1e-4,
    )


def test_a_cell_is_the_mean_over_seeds_in_per_cent() -> None:
    found = [Detection(0.01, 0.9, 0.9, 0.9), Detection(0.03, 0.9, 0.9, 0.9)]
    assert ood_table._cell(found, "fpr95") == "2.00 ± 1.41"
    assert ood_table._cell(found[:1], "fpr95") == "1.00"


def test_a_method_that_always_diverges_does_not_vanish() -> None:
    text = ood_table.markdown({}, {"SRLMC": [0, 1]}, images=10)
    assert text.count("| SRLMC | all diverged | – | – | – | – | – |") == len(ood_table.TITLES)
    assert ood_table.terminal({}, {"SRLMC": [0, 1]}).row_count == 3  # and two of the paper


def test_claims_want_ps_usp_below_the_paper_and_srlmc_to_fail() -> None:
    def row(*fpr95: float) -> ood_table.Row:
        return {
            kind: [Detection(rate / 100, 1.0, 1.0, 1.0)]
            for kind, rate in zip(datasets.OOD_NAMES, fpr95, strict=True)
        }

    methods = {name: table1.SMOKE.methods[name] for name in ("SRLMC", "crowded-PS-USP")}
    rows = {
        "SRLMC": row(90, 9, 50, 50, 0),
        "crowded-PS-USP": row(2, 1.85, 7, 0, 0),
        "nearest neighbour": row(1, 2, 8, 0, 0),
    }
    found = table1._claims(methods, rows, {"crowded-PS-USP": [0.1, 0.1, 3.5]})
    verdicts = {claim.name: claim.holds for claim in found}
    assert verdicts == {
        "SRLMC: FPR95 on MNIST, % (a failure: above 10)": True,
        "SRLMC: FPR95 on KMNIST, % (a failure: above 10)": False,
        "SRLMC: FPR95 on NotMNIST, % (a failure: above 10)": True,
        "SRLMC: FPR95 on Constant, % (a failure: above 10)": True,
        "crowded-PS-USP: FPR95 on MNIST, %": True,
        "crowded-PS-USP: FPR95 on MNIST, % (nearest neighbour: 1.00)": False,
        "crowded-PS-USP: FPR95 on KMNIST, %": False,
        "crowded-PS-USP: FPR95 on KMNIST, % (nearest neighbour: 2.00)": True,
        "crowded-PS-USP: FPR95 on NotMNIST, %": True,
        "crowded-PS-USP: FPR95 on NotMNIST, % (nearest neighbour: 8.00)": True,
        "crowded-PS-USP: FPR95 on Constant, %": True,
        "crowded-PS-USP: FPR95 on Constant, % (nearest neighbour: 0.00)": True,
        "crowded-PS-USP: FPR95 on Noise, %": True,
        "crowded-PS-USP: FPR95 on Noise, % (nearest neighbour: 0.00)": True,
        "crowded-PS-USP: FPR95 on the worst set, % (our aim: at most 1)": False,
        "crowded-PS-USP: widest span of FPR95 on MNIST in the last quarter of a run": False,
    }


def test_what_takes_long_is_trained_with_fewer_seeds() -> None:
    method = table1.PAPER.methods["PS-USP"]
    assert list(method.seeds(3)) == [0]
    assert list(table1.PAPER.methods["SRLMC"].seeds(3)) == [0, 1, 2]


def test_methods_can_be_chosen_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = table1.FAST.only(["crowded-PS-USP"])
    assert list(chosen.methods) == ["crowded-PS-USP"]
    assert not chosen.baselines
    assert main(["reproduce", "table1", "--only", "USP"]) == 2
    assert "there is no method 'USP', but SRLMC, crowded-PS-USP" in capsys.readouterr().err
    assert main(["reproduce", "fig4", "--only", "PS-USP"]) == 2
    assert "--only PS-USP is for table1 and fig5" in capsys.readouterr().err


@pytest.mark.usefixtures("made_up")
def test_a_class_left_out_is_in_no_part_of_the_data_and_whole_in_the_rest() -> None:
    known, unknown = left_out.without("bag")
    classes = fashion.labels()
    bags = [int((part == 8).sum()) for part in classes]
    assert [len(part) for part in known] == [55_000 - bags[0], 2_500 - bags[1], 2_500 - bags[2]]
    assert len(unknown) == bags[1] + bags[2]
    every = fashion.split()
    assert torch.equal(unknown[0], every.held_out[classes.held_out == 8][0])
    assert torch.equal(known.train[0], every.train[classes.train != 8][0])


@pytest.mark.usefixtures("made_up")
def test_a_class_left_out_is_trained_without_and_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(table1, "FAST", table1.SMOKE)
    command = ["proxies", "--leave-out", "bag", "--updates", "3", "--out", str(tmp_path)]
    assert main(command) == 0
    assert "bag" in capsys.readouterr().out
    assert (tmp_path / "without-bag-0-step-000003.safetensors").exists()
    assert main(["proxies", "--leave-out", "coat", "--leave-out", "hat", "--out", "x"]) == 2
    assert "there is no class 'hat', but t-shirt, trouser" in capsys.readouterr().err
    assert main(["proxies"]) == 2
    assert "needs a model to judge, or --leave-out" in capsys.readouterr().err
    assert main(["proxies", "fashion-mnist", "--updates", "3"]) == 2
    assert "--updates 3 is for --leave-out" in capsys.readouterr().err


def test_proxies_refuse_a_model_of_something_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = np.random.default_rng(0).normal(size=(100, 3))
    detector = EnergyDetector(max_updates=0, centres=20, random_state=0).fit(table)
    save_model(detector, tmp_path / "m")
    assert main(["proxies", str(tmp_path / "m")]) == 2
    wanted = "m is a model of 3 columns, not of Fashion-MNIST's 28 × 28 pixels"
    assert wanted in capsys.readouterr().err
