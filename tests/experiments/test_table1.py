"""Table 1 and Fig. 5 in small, on made-up images."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image
from torch import Tensor

from uspebm.cli.main import main
from uspebm.data import image_sets
from uspebm.detector.folder import describe
from uspebm.detector.folder import load as load_model
from uspebm.evaluation.metrics import Detection
from uspebm.experiments import fig5, image_models, table1
from uspebm.experiments.image_models import Method
from uspebm.experiments.image_problem import FASHION_MNIST, MNIST, ImageProblem, OpenedSets
from uspebm.experiments.ood_table import Row
from uspebm.experiments.table1_claims import Trained, table1_claims
from uspebm.recipes import Recipe, Run, paper, train
from uspebm.recipes.images import energy_recipe
from uspebm.training import DivergedError

from .common import brightness, small_problem

pytestmark = pytest.mark.usefixtures("quick_figures")


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
        assert set(row) == set(image_sets.OOD_NAMES)
        assert all(len(seeds) == 2 for seeds in row.values())
    assert results["recipes"]["SRLMC"]["noise"] == 0.1
    written = (folder / "table1.md").read_text()
    assert "| PS-USP (paper) | 3 | 2.18 ± 1.03 | 1.84 ± 1.01 | 7.04 ± 0.57 |" in written
    model = folder / "models" / "SRLMC-1"
    recipe = load_model(model).recipe
    assert isinstance(recipe, Recipe)
    assert (recipe.name, recipe.schedule.updates, recipe.noise) == ("SRLMC", 8, 0.1)
    about, card = describe(model)
    assert about["title"] == "Fashion-MNIST by SRLMC, seed 1"
    assert "1,100 training images of Fashion-MNIST, calibrated on 50 further" in card
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
    snapshot = folder / "runs" / "SRLMC-1" / "snapshots" / "averaged-000008.safetensors"
    assert main(["proxies", str(snapshot), str(model)]) == 0
    cells = [line.split("│")[2:4] for line in capsys.readouterr().out.splitlines() if "│" in line]
    assert len(cells) == 9
    assert all(by_snapshot.strip() == by_model.strip() for by_snapshot, by_model in cells)


@pytest.mark.usefixtures("made_up")
def test_another_set_can_be_inside(tmp_path: Path) -> None:
    command = ["--preset", "smoke", "--out", str(tmp_path), "--inside", "mnist"]
    for figure in ("table1", "fig5"):
        assert main(["reproduce", figure, *command]) == 0
        found = json.loads(
            (tmp_path / "smoke" / f"{figure}-mnist" / "results-mnist.json").read_text()
        )
        assert found["claims"]
        assert {one["paper"] for one in found["claims"]} <= {
            *("not given", "resemble the data", "about 0", "do not mix")
        }
    written = (tmp_path / "smoke" / "table1-mnist" / "table1-mnist.md").read_text()
    assert "| method | seeds | Fashion-MNIST | KMNIST | NotMNIST | Constant | Noise |" in written
    assert "paper" not in written
    assert sorted(path.name for path in (tmp_path / "smoke").iterdir()) == [
        "fig5-mnist",
        "table1-mnist",
    ]


def test_a_folder_of_the_users_can_be_inside(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    images = 127.5 * (1 + small_problem().train()[:60, 0].numpy())
    for k, image in enumerate(images.astype("uint8")):
        Image.fromarray(image).save(photos / f"{k}.png")
    command = ["--preset", "smoke", "--out", str(tmp_path), "--inside", str(photos)]
    assert main(["reproduce", "table1", *command]) == 0
    assert main(["reproduce", "fig5", *command, "--only", "SRLMC"]) == 0
    results = tmp_path / "smoke" / "table1-photos"
    rows = json.loads((results / "results-photos.json").read_text())["rows"]
    assert {"inverted", "outlined", "Constant", "Noise"} <= rows["crowded-PS-USP"].keys()
    detector = load_model(results / "models" / "crowded-PS-USP-0")
    assert detector.event_shape_ == (1, 8, 8)
    assert detector.score_samples(images.astype("uint8")).shape == (60,)
    galleries = list((tmp_path / "smoke" / "fig5-photos" / "srlmc").glob("*.png"))
    assert len(galleries) == 11  # no classes, so no chains


def _short(images: Tensor) -> Recipe:
    """What the images call for, for four updates."""
    recipe = energy_recipe(images)
    return replace(recipe, schedule=replace(recipe.schedule, updates=4, snapshot_every=1))


def test_the_crowded_row_is_the_energy_recipe_and_nothing_else(tmp_path: Path) -> None:
    images = small_problem().split().train
    assert table1.FAST.methods["crowded-PS-USP"].given(images) == energy_recipe(images)
    methods = {"crowded-PS-USP": Method(_short)}
    config = table1.Table1Settings(methods, small_problem(), baselines=False)
    table1.run(tmp_path, config, seeds=2)
    for seed in range(2):
        wanted = train(_short(images), images, None, seed, show=False).energy
        found = Run(_short(images), images, tmp_path / "runs" / f"crowded-PS-USP-{seed}", seed)
        assert found.done
        for a, b in zip(wanted.parameters(), found.energy.parameters(), strict=True):
            assert torch.equal(a, b)


def test_the_other_crowded_row_differs_in_its_objective_alone() -> None:
    images = small_problem().split().train
    ours, mle = (table1.FAST.methods[f"crowded-PS-USP{end}"].given(images) for end in ("", "-mle"))
    assert ours.objective != mle.objective
    assert replace(mle, objective=ours.objective) == ours


@pytest.mark.usefixtures("made_up")
def test_a_seed_that_diverges_is_left_out_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def diverging(recipe: Recipe, data: Tensor, folder: Path, seed: int) -> Run:
        run = train(recipe, data, folder, seed)
        if seed == 0:
            raise DivergedError("update 3: loss nan", run.state)
        return run

    monkeypatch.setattr(image_models, "train", diverging)
    config = replace(table1.SMOKE, methods={"SRLMC": table1.SMOKE.methods["SRLMC"]}, images=50)
    table1.run(tmp_path / "table1", config, seeds=2)
    assert "SRLMC, seed 0, is left out: update 3: loss nan" in capsys.readouterr().out
    results = json.loads((tmp_path / "table1" / "results.json").read_text())
    assert results["diverged"] == {"SRLMC": [0]}
    assert len(results["rows"]["SRLMC"]["MNIST"]) == 1
    written = (tmp_path / "table1" / "table1.md").read_text()
    assert "| SRLMC | 1 of 2; the others diverged |" in written
    # Fig. 5 does with the seeds that there are, and has its own files if methods were left out.
    chosen = replace(table1.SMOKE, images=50).only(["SRLMC"])
    found = fig5.run(tmp_path / "fig5", chosen, seeds=2)
    assert {claim.seeds for claim in found} == {1}
    assert (tmp_path / "fig5" / "results-SRLMC.json").exists()
    assert not (tmp_path / "fig5" / "results.json").exists()


def test_a_span_is_between_the_best_and_the_worst_snapshot() -> None:
    inside = torch.linspace(-1, 0, 100).view(-1, 1, 1, 1).expand(-1, 1, 28, 28)
    sets = OpenedSets(inside, {"first": inside + 1.5, "second": inside})
    dark, bright = brightness(), brightness(-1.0)
    # All of what is brighter is found by the one; the other takes it for the best there is.
    assert table1.span([dark, bright, dark], sets) == 100.0
    assert table1.span([dark, dark], sets) == 0.0


def test_missing_images_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(key: str) -> Tensor:
        raise ValueError(f"{key} was found nowhere")

    monkeypatch.setattr(image_sets, "image_set", missing)
    command = ["reproduce", "table1", "--preset", "smoke", "--out", str(tmp_path)]
    assert main(command) == 2
    assert capsys.readouterr().err == "uspebm: fashion-mnist/train was found nowhere\n"
    assert main([*command, "--inside", "nothing"]) == 2
    assert "no in-distribution set 'nothing'" in capsys.readouterr().err


Claims = Callable[[ImageProblem], dict[str, bool]]


@pytest.fixture
def claims() -> Claims:
    def verdicts(inside: ImageProblem) -> dict[str, bool]:
        def row(*fpr95: float) -> Row:
            rates = zip(inside.ood, fpr95, strict=True)
            return {kind: [Detection(rate / 100, 1.0, 1.0, 1.0)] for kind, rate in rates}

        images = small_problem().train()
        trained = {
            name: Trained(method.given(images), [], [0.1, 0.1, 3.5], [], [])
            for name, method in table1.SMOKE.methods.items()
        }
        rows = {
            "SRLMC": row(90, 9, 50, 50, 0),
            "crowded-PS-USP": row(2, 1.85, 7, 0, 0),
            "nearest neighbour": row(1, 2, 8, 0, 0),
        }
        found = table1_claims(inside, trained, rows)
        return {claim.name: claim.holds for claim in found}

    return verdicts


def test_claims_want_ps_usp_below_the_paper_and_srlmc_to_fail(claims: Claims) -> None:
    assert claims(FASHION_MNIST) == {
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


def test_without_the_papers_figures_nothing_is_compared_with_them(claims: Claims) -> None:
    sets = ("Fashion-MNIST", "KMNIST", "NotMNIST", "Constant", "Noise")
    best = (1, 2, 8, 0, 0)
    assert list(claims(MNIST)) == [
        *(
            f"crowded-PS-USP: FPR95 on {kind}, % (nearest neighbour: {rate:.2f})"
            for kind, rate in zip(sets, best, strict=True)
        ),
        "crowded-PS-USP: FPR95 on the worst set, % (our aim: at most 1)",
        "crowded-PS-USP: widest span of FPR95 on Fashion-MNIST in the last quarter of a run",
    ]


def test_the_papers_rows_are_the_papers_recipes() -> None:
    images = torch.zeros(1, 1, 28, 28)
    given = {name: method.given(images) for name, method in table1.PAPER.methods.items()}
    assert given["SRLMC"] == paper.srlmc_recipe(updates=24_000)
    assert given["PS-USP"] == paper.ps_usp_recipe(updates=2400, reading="list")
    assert given["PS-USP-text"] == paper.ps_usp_recipe(updates=2400, reading="text")
    assert given["PS-USP-50000"] == paper.ps_usp_recipe(particles=50_000, updates=200)
    assert table1.FAST.methods["SRLMC"].given(images) == paper.srlmc_recipe(updates=2400)


def test_what_takes_long_is_trained_with_fewer_seeds() -> None:
    assert list(table1.PAPER.methods["PS-USP-25000"].seeds(3)) == [0]
    assert list(table1.PAPER.methods["SRLMC"].seeds(3)) == [0, 1, 2]


def test_methods_can_be_chosen_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = table1.FAST.only(["crowded-PS-USP"])
    assert list(chosen.methods) == ["crowded-PS-USP"]
    assert not chosen.baselines
    assert chosen.suffix == "-crowded-PS-USP"
    assert chosen.inside("mnist").suffix == "-mnist-crowded-PS-USP"
    assert table1.FAST.inside("fashion-mnist") == table1.FAST
    assert main(["reproduce", "table1", "--only", "USP"]) == 2
    assert "there is no method 'USP', but SRLMC, crowded-PS-USP" in capsys.readouterr().err
    assert main(["reproduce", "fig4", "--only", "PS-USP"]) == 2
    assert "--only PS-USP is for table1 and fig5" in capsys.readouterr().err
