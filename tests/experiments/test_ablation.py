"""Every half of the images recipe, trained and judged."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from uspebm import CrowdedUSP, Recipe
from uspebm.cli.main import main
from uspebm.evaluation.metrics import Detection
from uspebm.experiments import ablation
from uspebm.experiments.ablation import WHOLE_RECIPE, variants
from uspebm.experiments.left_out import Findings
from uspebm.objective import LIKELIHOOD
from uspebm.recipes.images import image_recipe


def test_the_first_is_the_recipe_and_no_two_are_alike() -> None:
    images = 2 * torch.rand(600, 1, 28, 28, generator=torch.Generator().manual_seed(0)) - 1
    made = dict(variants(ablation.FAST, images))
    recipe = image_recipe(images)
    shorter = replace(recipe, schedule=replace(recipe.schedule, updates=600))
    assert made[WHOLE_RECIPE] == shorter
    assert next(iter(made)) == WHOLE_RECIPE
    assert len(made) == len(set(map(repr, made.values()))) == 14
    least = made["ε stays, no fresh fields, likelihood"]
    assert isinstance(least.phase, CrowdedUSP)
    assert (least.phase.rate, least.phase.restarts, least.objective) == (0.0, 0.0, LIKELIHOOD)
    assert least.start is not None
    assert least.start.afresh == 0.0


@pytest.mark.usefixtures("made_up")
def test_all_are_trained_judged_and_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = (WHOLE_RECIPE, "ε stays, no fresh fields, tempered", "SRLMC, leveled")

    def some(config: ablation.AblationSettings, images: torch.Tensor) -> dict[str, Recipe]:
        return {name: one for name, one in variants(config, images) if name in kept}

    monkeypatch.setattr(ablation, "variants", some)
    assert main(["reproduce", "ablation", "--preset", "smoke", "--out", str(tmp_path)]) == 0
    out = tmp_path / "smoke" / "ablation"
    told = json.loads((out / "results.json").read_text())
    controls = {f"control: {k}" for k in ("random features", "nearest neighbour", "PCA residual")}
    assert set(told["fpr95"]) == {*kept, *controls}
    for name in kept:
        assert set(told["fpr95"][name][0]) == {"features", "energy"}
    rows = (out / "ablation.md").read_text().splitlines()
    assert len(rows) == 4 + len(kept) + len(controls)
    first = told["fpr95"][WHOLE_RECIPE][0]["features"]
    assert rows[4].startswith(f"| {WHOLE_RECIPE} | {first[0]:.1f} / {first[1]:.1f} |")


def findings(fpr95: float) -> Findings:
    found = {"one": Detection(fpr95, auroc=0.9, aupr_id=0.9, aupr_ood=0.9)}
    return Findings(found, found)


def test_what_is_better_than_the_recipe_is_said() -> None:
    found: dict[str, list[dict[str, Findings] | None]] = {
        WHOLE_RECIPE: [{"features": findings(0.2)}],
        "less": [{"features": findings(0.3)}, None],
        "better": [{"features": findings(0.1)}],
        "gone": [None],
    }
    claims = {c.name.split(":")[0]: c for c in ablation._claims(found)}
    assert claims["less"].holds
    assert not claims["better"].holds
    assert "gone" not in claims
    assert claims[WHOLE_RECIPE].measured == pytest.approx(20.0)
    assert ablation._markdown(found).splitlines()[-1] == "| gone | diverged | – |"
